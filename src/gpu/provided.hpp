/// \file
/// Memory of a GPU that a caller's allocator provides.
#pragma once

#include <cstdint>
#include <memory>

#include <mgi/gpu_allocator.hpp>

#include "gpu/driver.hpp"

namespace mgi::gpu {

/// To share, for memory that every stream can use; null: there is none. Throws Error(InvalidArgument) as check_pairs does, and where
/// there is only the pair for streams.
std::shared_ptr<GpuAllocator const> to_share(GpuAllocator const& allocator);

/// One allocation, given back when this dies.
class ProvidedMemory {
public:
    /// Throws Error: OutOfMemory (the allocator gave none), InvalidArgument (what it gave is not device memory of that
    /// GPU).
    ProvidedMemory(std::shared_ptr<GpuAllocator const> from, int gpu, std::uint64_t bytes);
    ~ProvidedMemory();
    ProvidedMemory(ProvidedMemory const&) = delete;
    ProvidedMemory& operator=(ProvidedMemory const&) = delete;

    [[nodiscard]] Address at() const { return reinterpret_cast<Address>(at_); }
    /// Waits for all that runs on the GPU, and on those that are connected with it: it may still use the memory. The driver
    /// waits for the GPU when it frees its own.
    void wait_for_kernels() const noexcept;

private:
    void wait_for(int gpu) const noexcept;
    void give_back() noexcept;

    Driver const& driver_ = Driver::get();  // the same to the end
    std::shared_ptr<GpuAllocator const> const from_;
    int const gpu_;
    std::uint64_t const bytes_;
    void* at_ = nullptr;
};

}  // namespace mgi::gpu
