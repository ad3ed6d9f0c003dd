/// \file
/// What kernels of several benchmarks do alike, and how many of their blocks a GPU holds.
#pragma once

#include <cuda_runtime.h>

#include "check.hpp"
#include "data.hpp"

namespace mgi::bench {

/// Blocks of a kernel that the current GPU runs at once; lets it have so much scratch.
template <class... Parameters>
u32 resident_blocks(void (*kernel)(Parameters...), u32 threads, u32 scratch) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(scratch)),
          "shared memory of a block");
    int each = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, int(threads), scratch),
          "occupancy");
    require(each > 0, "a block fits no multiprocessor");
    int gpu = 0;
    int multiprocessors = 0;
    check(cudaGetDevice(&gpu), "ask for the current GPU");
    check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, gpu),
          "count multiprocessors");
    return u32(each * multiprocessors);
}

/// One thread's part of the sum of values that its block adds up: 16 bytes a load, and so many loads at a time,
/// since what is read comes from far away.
template <u32 kAtOnce>
__device__ u64 part_of_sum(u64 const* from, u32 values) {
    auto const* const pairs = reinterpret_cast<ulonglong2 const*>(from);
    u32 const count = values / 2;
    u64 sum = 0;
    for (u32 first = threadIdx.x; first < count; first += kAtOnce * blockDim.x) {
        ulonglong2 held[kAtOnce];
        for (u32 k = 0; k < kAtOnce; ++k) {
            u32 const i = first + k * blockDim.x;
            held[k] = i < count ? pairs[i] : ulonglong2{0, 0};
        }
        for (u32 k = 0; k < kAtOnce; ++k) sum += held[k].x + held[k].y;
    }
    if (values % 2 != 0 && threadIdx.x == 0) sum += from[values - 1];
    return sum;
}

}  // namespace mgi::bench
