/// \file
/// Allocators over what an engine has of GPU memory: pools of cudaMallocAsync, memory resources of CCCL (cuda::mr) and RMM. Link
/// CUDA's runtime; without its headers this one says nothing.
///
///     options.gpu_allocator = mgi::allocator_of_pools({{0, pool}});
///     options.gpu_allocator = mgi::allocator_of_resources(std::map<int, rmm::mr::device_memory_resource*>{{0, &resource}});
///
/// They serve operators, in the order of their streams, and channels, for which each allocation waits. Pools and resources are by
/// N of "cuda:N", and must outlive all that took memory of them. Where GPUs share a channel or an exchange, the caller gives
/// each of them access to the others' pools (cudaMemPoolSetAccess). Several threads may use them where the resources allow that, as pools do. What
/// they throw becomes the text of Error(OutOfMemory).
#pragma once

#if __has_include(<cuda_runtime_api.h>)

#include <cuda_runtime_api.h>
#include <cuda/stream_ref>

#include <cstddef>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include <mgi/gpu_allocator.hpp>

namespace mgi {

namespace gpu_memory {

inline constexpr std::size_t kAlignment = 256;

inline void check(cudaError_t error, char const* what) {
    if (error == cudaSuccess) return;
    (void)cudaGetLastError();
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

/// Of `take(source, bytes, stream)` and `give(source, at, bytes, stream)`, by GPU.
template <class Source, class Take, class Give>
GpuAllocator allocator_of(std::map<int, Source> sources, Take take, Give give) {
    GpuAllocator all;
    all.allocate_in_stream = [sources, take](int gpu, std::uint64_t bytes, void* stream) {
        auto const source = sources.find(gpu);
        if (source == sources.end()) {
            throw std::runtime_error("it was given nothing for cuda:" + std::to_string(gpu));
        }
        return take(source->second, bytes, static_cast<cudaStream_t>(stream));
    };
    all.deallocate_in_stream = [sources, give](int gpu, void* at, std::uint64_t bytes,
                                               void* stream) {
        give(sources.at(gpu), at, bytes, static_cast<cudaStream_t>(stream));
    };
    // Channels want memory that every stream can use.
    all.allocate = [in_stream = all.allocate_in_stream](int gpu, std::uint64_t bytes) {
        void* const at = in_stream(gpu, bytes, cudaStreamPerThread);
        check(cudaStreamSynchronize(cudaStreamPerThread), "wait for memory");
        return at;
    };
    all.deallocate = [in_stream = all.deallocate_in_stream](int gpu, void* at,
                                                            std::uint64_t bytes) {
        in_stream(gpu, at, bytes, cudaStreamPerThread);
    };
    return all;
}

}  // namespace gpu_memory

/// Of memory pools: cudaMallocFromPoolAsync and cudaFreeAsync.
inline GpuAllocator allocator_of_pools(std::map<int, cudaMemPool_t> pools) {
    return gpu_memory::allocator_of(
        std::move(pools),
        [](cudaMemPool_t pool, std::uint64_t bytes, cudaStream_t stream) {
            void* at = nullptr;
            gpu_memory::check(cudaMallocFromPoolAsync(&at, bytes, pool, stream), "memory pool");
            return at;
        },
        [](cudaMemPool_t, void* at, std::uint64_t, cudaStream_t stream) {
            (void)cudaFreeAsync(at, stream);
        });
}

/// Of memory resources, by pointers to them or to references to them: CCCL 3.0's and RMM's of that time (allocate_async), or
/// CCCL 3.1's (allocate with a stream first).
template <class Resource>
GpuAllocator allocator_of_resources(std::map<int, Resource*> resources) {
    return gpu_memory::allocator_of(
        std::move(resources),
        [](Resource* from, std::size_t bytes, cuda::stream_ref stream) -> void* {
            if constexpr (requires { from->allocate(stream, bytes, gpu_memory::kAlignment); }) {
                return from->allocate(stream, bytes, gpu_memory::kAlignment);
            } else {
                return from->allocate_async(bytes, gpu_memory::kAlignment, stream);
            }
        },
        [](Resource* to, void* at, std::size_t bytes, cuda::stream_ref stream) {
            if constexpr (requires { to->deallocate(stream, at, bytes, gpu_memory::kAlignment); }) {
                to->deallocate(stream, at, bytes, gpu_memory::kAlignment);
            } else {
                to->deallocate_async(at, bytes, gpu_memory::kAlignment, stream);
            }
        });
}

}  // namespace mgi

#endif
