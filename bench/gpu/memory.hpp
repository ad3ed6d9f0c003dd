/// \file
/// Owners of GPU memory, pinned host memory, streams and events. Allocate and free them only while no
/// kernel that waits for the host is resident: both may block until it ends.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "check.hpp"

namespace mgi::bench {

/// Owner of what CUDA hands out as a pointer.
template <class Pointer, auto Release>
class Owner {
public:
    Owner() = default;
    explicit Owner(Pointer held) : held_(held) {}
    Owner(Owner&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
    Owner& operator=(Owner&& other) noexcept {
        std::swap(held_, other.held_);
        return *this;
    }
    Owner(Owner const&) = delete;
    Owner& operator=(Owner const&) = delete;
    ~Owner() {
        if (held_ != nullptr) static_cast<void>(Release(held_));
    }
    [[nodiscard]] Pointer get() const { return held_; }

private:
    Pointer held_ = nullptr;
};

/// A stream that never waits for the legacy default stream.
class Stream {
public:
    Stream() {
        cudaStream_t stream = nullptr;
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create a stream");
        held_ = Owner<cudaStream_t, cudaStreamDestroy>(stream);
    }
    [[nodiscard]] cudaStream_t get() const { return held_.get(); }

private:
    Owner<cudaStream_t, cudaStreamDestroy> held_;
};

class Event {
public:
    explicit Event(unsigned flags = cudaEventDefault) {
        cudaEvent_t event = nullptr;
        check(cudaEventCreateWithFlags(&event, flags), "create an event");
        held_ = Owner<cudaEvent_t, cudaEventDestroy>(event);
    }
    [[nodiscard]] cudaEvent_t get() const { return held_.get(); }

private:
    Owner<cudaEvent_t, cudaEventDestroy> held_;
};

/// `count` values in the current device's memory; not initialized.
template <class T>
class DeviceArray {
public:
    DeviceArray() = default;
    explicit DeviceArray(std::uint64_t count) : size_(count) {
        void* at = nullptr;
        check(cudaMalloc(&at, count * sizeof(T) + 16), "allocate GPU memory");
        held_ = Owner<void*, cudaFree>(at);
    }
    [[nodiscard]] T* get() const { return static_cast<T*>(held_.get()); }
    [[nodiscard]] std::uint64_t size() const { return size_; }
    [[nodiscard]] std::uint64_t bytes() const { return size_ * sizeof(T); }

private:
    Owner<void*, cudaFree> held_;
    std::uint64_t size_ = 0;
};

/// `count` values in pinned host memory, zeroed, at the same address for host and GPU.
template <class T>
class PinnedArray {
public:
    PinnedArray() = default;
    explicit PinnedArray(std::uint64_t count) : size_(count) {
        void* at = nullptr;
        check(cudaHostAlloc(&at, count * sizeof(T), cudaHostAllocMapped | cudaHostAllocPortable),
              "allocate pinned memory");
        held_ = Owner<void*, cudaFreeHost>(at);
        for (std::uint64_t i = 0; i < count; ++i) get()[i] = T{};
    }
    [[nodiscard]] T* get() const { return static_cast<T*>(held_.get()); }
    [[nodiscard]] std::uint64_t size() const { return size_; }
    T& operator[](std::uint64_t index) const { return get()[index]; }

private:
    Owner<void*, cudaFreeHost> held_;
    std::uint64_t size_ = 0;
};

}  // namespace mgi::bench
