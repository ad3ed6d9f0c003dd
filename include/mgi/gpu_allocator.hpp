/// \file
/// The allocator that provides the GPUs' memory for a runtime's channels and for operators on GPUs: an engine that owns nearly all
/// of it hands parts of its pool to MGI. <mgi/gpu_memory_resource.hpp> makes one of a CUDA memory pool or a CCCL memory resource.
#pragma once

#include <cstdint>
#include <functional>

namespace mgi {

/// A caller's allocator: of each pair both functions, or none. Channels use the first pair. Operators on GPUs use the second one where they
/// work in a stream of the caller's on the GPU, or where there is no first one. They do not work in cudaStreamPerThread, but behind it. The runtime, its channels, results of operators and all who still
/// hold one of these keep copies of the functions.
///
/// MGI calls them from any thread, from several at a time, and also while the runtime ends or after it has, when
/// the last holder of a channel or of a table lets go. During a call the GPU's primary context is the calling thread's. The functions must not call MGI.
struct GpuAllocator {
    /// `bytes` bytes of the memory of GPU `gpu` ("cuda:N"), at a multiple of 256 bytes; of any content.
    ///
    /// - It is device memory, not managed memory.
    /// - It can be used at once on every stream: an allocator that works in a stream's order waits for that stream before it returns.
    /// - All GPUs that share a channel reach it where they are peers. For plain allocations (cudaMalloc) MGI sees to that. For
    ///   memory of stream-ordered pools the caller does (cudaMemPoolSetAccess), as for memory that it maps itself (cuMemSetAccess).
    ///
    /// Null, or an exception, says that there is none. MGI then frees what it keeps itself and asks once more; if there is
    /// none again, the call that wanted the memory throws Error(OutOfMemory), with the exception's text. The same goes for `allocate_in_stream`.
    std::function<void*(int gpu, std::uint64_t bytes)> allocate;
    /// Gives back what `allocate` returned for the same `gpu` and `bytes`: once for each, as soon as no channel, operator or table uses
    /// it. Nothing of MGI's uses it any more, on any stream. A result's memory comes back when the last copy of its table dies: MGI does not
    /// wait for the caller's kernels and copies that read the table. They have ended by then, or the caller keeps the table. Must not throw.
    std::function<void(int gpu, void* at, std::uint64_t bytes)> deallocate;

    /// As `allocate`, but the memory can be used behind what is in `stream` (a cudaStream_t of that GPU), so nobody waits.
    ///
    /// The stream is the one that the call of the operator has for the GPU (OperatorOptions::gpu_streams). Where it has none, or
    /// cudaStreamPerThread, it is one of MGI's own that ends with the call.
    std::function<void*(int gpu, std::uint64_t bytes, void* stream)> allocate_in_stream = {};
    /// Gives back what `allocate_in_stream` returned: MGI uses it no more behind what is in `stream`. Must not throw.
    ///
    /// - While the operator runs it is the stream that `allocate_in_stream` was given.
    /// - For a result, whose table may die long after, it is the caller's stream: it must exist until then, and what reads the table in
    ///   other streams must come before it, or be over. Null, the legacy default stream, where the call had no stream of the caller's, or
    ///   cudaStreamPerThread, which is another one in the thread that drops the table.
    std::function<void(int gpu, void* at, std::uint64_t bytes, void* stream)> deallocate_in_stream =
        {};
};

/// Throws Error(InvalidArgument) where a function is there without the other one of its pair.
void check_pairs(GpuAllocator const& allocator);
/// Throws Error(InvalidArgument) where that is not device memory of the GPU, at a multiple of 256 bytes: as MGI checks what an
/// allocator gives for so many bytes. NotFound where there is no driver. Thread-safe.
void check_gpu_memory(int gpu, void* at, std::uint64_t bytes);

}  // namespace mgi
