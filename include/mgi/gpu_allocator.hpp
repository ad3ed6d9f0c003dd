/// \file
/// The allocator that provides the GPUs' memory for a runtime's channels: an engine that owns nearly all of it hands parts of
/// its pool to MGI.
#pragma once

#include <cstdint>
#include <functional>

namespace mgi {

/// A caller's allocator: both functions, or none. The runtime, its channels and all who still hold one of these keep copies of the functions.
///
/// MGI calls them from any thread, from several at a time, and also while the runtime ends or after it has, when
/// the last holder of a channel lets go. During a call the GPU's primary context is the calling thread's. The functions must not call MGI.
struct GpuAllocator {
    /// `bytes` bytes of the memory of GPU `gpu` ("cuda:N"), at a multiple of 256 bytes; of any content.
    ///
    /// - It is device memory, not managed memory.
    /// - It can be used at once on every stream: an allocator that works in a stream's order waits for that stream before it returns.
    /// - All GPUs that share a channel reach it where they are peers. For plain allocations (cudaMalloc) MGI sees to that. For
    ///   memory of stream-ordered pools the caller does (cudaMemPoolSetAccess), as for memory that it maps itself (cuMemSetAccess).
    ///
    /// Null, or an exception, says that there is none. MGI then frees what it keeps itself and asks once more; if there is
    /// none again, the call that wanted the memory throws Error(OutOfMemory), with the exception's text.
    std::function<void*(int gpu, std::uint64_t bytes)> allocate;
    /// Gives back what `allocate` returned for the same `gpu` and `bytes`: once for each, as soon as no channel uses
    /// it. Nothing of MGI's uses it any more, on any stream. Must not throw.
    std::function<void(int gpu, void* at, std::uint64_t bytes)> deallocate;
};

}  // namespace mgi
