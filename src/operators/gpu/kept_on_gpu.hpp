// Memory and streams of a GPU that calls of operators leave to the next ones, and how CUDA's errors are told. For gpu_place.cu.
#pragma once

#include <cuda_runtime.h>

#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <mgi/error.hpp>
#include <mgi/runtime.hpp>

#include "operators/gpu/place.hpp"

namespace mgi::operators::on_gpu {

// Whether every call on the GPU fails from now on.
inline bool loses_context(cudaError_t error) {
    switch (error) {
        case cudaErrorIllegalAddress:
        case cudaErrorLaunchFailure:
        case cudaErrorLaunchTimeout:
        case cudaErrorHardwareStackError:
        case cudaErrorIllegalInstruction:
        case cudaErrorMisalignedAddress:
        case cudaErrorInvalidAddressSpace:
        case cudaErrorInvalidPc:
        case cudaErrorAssert:
        case cudaErrorECCUncorrectable: return true;
        default: return false;
    }
}

// Throws Error unless all is well: OutOfMemory, NotFound; GroupFailed where the GPU's context is lost.
inline void check_cuda(cudaError_t error, int gpu, char const* what) {
    if (error == cudaSuccess) return;
    cudaGetLastError();
    ErrorCode code = ErrorCode::Internal;
    std::string advice;
    if (error == cudaErrorMemoryAllocation) code = ErrorCode::OutOfMemory;
    if (error == cudaErrorInvalidDevice || error == cudaErrorNoDevice) code = ErrorCode::NotFound;
    if (loses_context(error)) {
        code = ErrorCode::GroupFailed;
        advice = "; a kernel failed, and this process must be started again to use the GPU";
    }
    throw Error(code, "cuda:" + std::to_string(gpu) + ": " + what + ": " + cudaGetErrorName(error) +
                          " (" + cudaGetErrorString(error) + ")" + advice);
}

// What a GPU has of `Kept`, which lives to the end of the process, as tables may.
template <class Kept>
Kept& kept_of(int gpu) {
    static std::mutex mutex;
    static auto* const all = new std::map<int, std::unique_ptr<Kept>>;
    std::lock_guard const lock(mutex);
    auto& kept = (*all)[gpu];
    if (!kept) kept = std::make_unique<Kept>(gpu);
    return *kept;
}

// The memory of a GPU that operators take and give back. Blocks that come back are kept for the next ones:
// cudaFree would wait for kernels that wait for each other, and CUDA's own pools take a millisecond for a
// gigabyte of another size.
class GpuMemory {
public:
    explicit GpuMemory(int gpu) : gpu_(gpu) {
        GpuOfThread const here(gpu);
        std::size_t free = 0;
        std::size_t total = 0;
        check_cuda(cudaMemGetInfo(&free, &total), gpu, "ask for its memory");
        most_kept_ = total / 4;
    }

    // For a stream that is the GPU's; null if there is no more.
    void* take(u64 bytes, cudaStream_t stream) {
        u64 const size = rounded(bytes);
        std::lock_guard const lock(mutex_);
        // Not one that is much larger: it would be missed.
        auto const at = kept_.lower_bound(size);
        if (at != kept_.end() && at->first <= size + size / 4) {
            Block const block = at->second;
            kept_bytes_ -= at->first;
            in_use_[block.data] = {at->first, block.last_use};
            kept_.erase(at);
            check_cuda(cudaStreamWaitEvent(stream, block.last_use, 0), gpu_, "wait for memory");
            return block.data;
        }
        while (kept_bytes_ + size > most_kept_ && !kept_.empty()) drop(std::prev(kept_.end()));
        void* data = nullptr;
        cudaError_t error = cudaMalloc(&data, size);
        if (error == cudaErrorMemoryAllocation) {
            while (!kept_.empty()) drop(kept_.begin());
            cudaGetLastError();
            error = cudaMalloc(&data, size);
        }
        if (error == cudaErrorMemoryAllocation) {
            cudaGetLastError();
            return nullptr;
        }
        check_cuda(error, gpu_, "allocate memory");
        cudaEvent_t event = nullptr;
        check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), gpu_,
                   "create an event");
        in_use_[data] = {size, event};
        return data;
    }

    // Behind what was put into a stream.
    void give_back(void* data, cudaStream_t stream) noexcept {
        try {
            GpuOfThread const here(gpu_);
            std::lock_guard const lock(mutex_);
            auto const at = in_use_.find(data);
            auto const [size, event] = at->second;
            in_use_.erase(at);
            cudaEventRecord(event, stream);
            kept_.emplace(size, Block{data, event});
            kept_bytes_ += size;
            while (kept_bytes_ > most_kept_) drop(std::prev(kept_.end()));
            cudaGetLastError();
        } catch (std::exception const&) {
            // The GPU's context is lost, and its memory with it; or there is no memory to note it, and it stays taken.
        }
    }

    GpuMemorySize size() {
        GpuOfThread const here(gpu_);
        std::lock_guard const lock(mutex_);
        std::size_t free = 0;
        std::size_t total = 0;
        check_cuda(cudaMemGetInfo(&free, &total), gpu_, "ask for its memory");
        return {free + kept_bytes_, total};
    }

    u64 trim() {
        GpuOfThread const here(gpu_);
        std::lock_guard const lock(mutex_);
        u64 const bytes = kept_bytes_;
        while (!kept_.empty()) drop(kept_.begin());
        return bytes;
    }

private:
    struct Block {
        void* data;
        cudaEvent_t last_use;
    };

    // Few sizes, so that blocks fit again: eight of each power of two.
    static u64 rounded(u64 bytes) {
        u64 step = 512;
        while (step * 16 <= bytes) step *= 2;
        return (std::max<u64>(bytes, 1) + step - 1) / step * step;
    }

    void drop(std::multimap<u64, Block>::iterator at) {
        cudaEventSynchronize(at->second.last_use);
        cudaEventDestroy(at->second.last_use);
        cudaFree(at->second.data);
        kept_bytes_ -= at->first;
        kept_.erase(at);
    }

    int const gpu_;
    u64 most_kept_ = 0;
    std::mutex mutex_;
    std::multimap<u64, Block> kept_;  // by size
    std::map<void*, std::pair<u64, cudaEvent_t>>
        in_use_;  // size, and what it will be given back by
    u64 kept_bytes_ = 0;
};

class GpuStreams;
struct KeepStream {
    GpuStreams* streams = nullptr;
    inline void operator()(cudaStream_t stream) const noexcept;
};
using KeptStream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, KeepStream>;

// Streams of a GPU that calls have done with. To make one takes a GPU some ten microseconds, and as long to destroy it.
class GpuStreams {
public:
    explicit GpuStreams(int gpu) : gpu_(gpu) {}

    // For a thread whose GPU it is.
    KeptStream take() {
        cudaStream_t stream = nullptr;
        {
            std::lock_guard const lock(mutex_);
            if (!kept_.empty()) {
                stream = kept_.back();
                kept_.pop_back();
            }
        }
        if (stream == nullptr) {
            check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), gpu_,
                       "create a stream");
        }
        return KeptStream(stream, {this});
    }
    // Nothing is in it any more.
    void keep(cudaStream_t stream) noexcept {
        try {
            std::lock_guard const lock(mutex_);
            kept_.push_back(stream);
        } catch (std::bad_alloc const&) {
            cudaStreamDestroy(stream);
        }
    }

private:
    int const gpu_;
    std::mutex mutex_;
    std::vector<cudaStream_t> kept_;
};

inline void KeepStream::operator()(cudaStream_t stream) const noexcept {
    streams->keep(stream);
}

}  // namespace mgi::operators::on_gpu
