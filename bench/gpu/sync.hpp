/// \file
/// Words that host and a running kernel share in pinned memory: plain loads and stores only, with
/// bounded waits on both sides.
#pragma once

#include <cuda/atomic>

#include <chrono>
#include <cstdint>

namespace mgi::bench {

using SystemWord = cuda::atomic_ref<std::uint32_t, cuda::thread_scope_system>;

/// A word on a cache line of its own.
struct alignas(128) Flag {
    std::uint32_t word = 0;
};

__host__ __device__ inline void set_flag(Flag& flag, std::uint32_t value) {
    SystemWord(flag.word).store(value, cuda::memory_order_release);
}
__host__ __device__ inline std::uint32_t get_flag(Flag& flag) {
    return SystemWord(flag.word).load(cuda::memory_order_acquire);
}

/// Host: polls until the flag has the value; false past the deadline.
inline bool await_flag(Flag& flag, std::uint32_t value, double deadline_s) {
    auto const start = std::chrono::steady_clock::now();
    for (std::uint32_t spins = 0; get_flag(flag) != value; ++spins) {
        if (spins % 1024 != 1023) continue;
        std::chrono::duration<double> const passed = std::chrono::steady_clock::now() - start;
        if (passed.count() > deadline_s) return false;
    }
    return true;
}

__device__ inline std::uint64_t gpu_ns() {
    std::uint64_t time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
}

/// Kernel: the same, by one thread.
__device__ inline bool await_flag_on_gpu(Flag& flag, std::uint32_t value, std::uint64_t limit_ns) {
    std::uint64_t const start = gpu_ns();
    SystemWord const word(flag.word);
    // Acquiring in every round would empty the L1 cache each time.
    for (std::uint32_t spins = 0; word.load(cuda::memory_order_relaxed) != value; ++spins) {
        if (spins % 64 == 63 && gpu_ns() - start > limit_ns) return false;
    }
    return get_flag(flag) == value;
}

}  // namespace mgi::bench
