/// \file
/// GPU memory that is not MGI's: a caller's allocator of CUDA's own functions, which counts.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "gpu/runtime_rig.hpp"

namespace mgi::test::gpu {

enum class From { Malloc, StreamOrderedPool };

/// Copies its allocator makes keep it alive.
class CallersPool : public std::enable_shared_from_this<CallersPool> {
public:
    explicit CallersPool(From from) : from_(from) {}

    [[nodiscard]] GpuAllocator allocator() {
        auto const self = shared_from_this();
        return {[self](int gpu, std::uint64_t bytes) { return self->allocate(gpu, bytes); },
                [self](int gpu, void* at, std::uint64_t) { self->deallocate(gpu, at); }};
    }
    /// Throws unless there was any, and all of it has come back.
    void check() const {
        expect(given_ != 0, "no memory was asked for");
        expect(given_ == taken_back_, std::to_string(given_ - taken_back_) + " pieces of " +
                                          std::to_string(given_) + " did not come back");
    }

private:
    // The GPU's context is the calling thread's.
    void* allocate(int gpu, std::uint64_t bytes) {
        void* at = nullptr;
        if (from_ == From::Malloc) {
            if (cudaMalloc(&at, bytes) != cudaSuccess) return nullptr;
        } else {
            cudaStream_t const stream = stream_of(gpu);
            if (cudaMallocFromPoolAsync(&at, bytes, pool_of(gpu), stream) != cudaSuccess) {
                return nullptr;
            }
            cuda_check(cudaStreamSynchronize(stream), "wait for memory");
        }
        ++given_;
        return at;
    }
    void deallocate(int gpu, void* at) {
        ++taken_back_;
        if (from_ == From::Malloc) {
            cudaFree(at);
        } else {
            cudaFreeAsync(at, stream_of(gpu));
        }
    }
    cudaStream_t stream_of(int gpu) {
        std::lock_guard const lock(mutex_);
        auto& stream = streams_[gpu];
        if (stream == nullptr) {
            cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
        }
        return stream;
    }
    /// That all GPUs reach.
    cudaMemPool_t pool_of(int gpu) {
        std::lock_guard const lock(mutex_);
        auto& pool = pools_[gpu];
        if (pool != nullptr) return pool;
        cudaMemPoolProps wanted = {};
        wanted.allocType = cudaMemAllocationTypePinned;
        wanted.location = {cudaMemLocationTypeDevice, gpu};
        cuda_check(cudaMemPoolCreate(&pool, &wanted), "a pool");
        for (int other = 0; other < gpus_of_tests(); ++other) {
            int reaches = 0;
            if (other == gpu) continue;
            cuda_check(cudaDeviceCanAccessPeer(&reaches, other, gpu), "ask for peers");
            if (reaches == 0) continue;
            cudaMemAccessDesc const access{{cudaMemLocationTypeDevice, other},
                                           cudaMemAccessFlagsProtReadWrite};
            cuda_check(cudaMemPoolSetAccess(pool, &access, 1), "let a peer use the pool");
        }
        return pool;
    }

    From const from_;
    std::atomic<u64> given_ = 0;
    std::atomic<u64> taken_back_ = 0;
    std::mutex mutex_;
    std::map<int, cudaStream_t> streams_;
    std::map<int, cudaMemPool_t> pools_;
};

}  // namespace mgi::test::gpu
