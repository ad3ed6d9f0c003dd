/// \file
/// The macros of the device headers, and the integer names they use.
#pragma once

#include <mgi/device/assert.hpp>

/// Marks functions that run on the host and, compiled by nvcc, on a GPU too.
#if defined(__CUDACC__)
#define MGI_HD __host__ __device__
#else
#define MGI_HD
#endif

/// Marks what is called seldom, so that its caller keeps registers for what it does often. Arguments go by
/// value: an object whose address is handed out lives in memory, on a GPU far away, between any two calls.
#define MGI_COLD __attribute__((noinline))

namespace mgi::device {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i64 = std::int64_t;

template <class T>
MGI_HD constexpr T min_of(T a, T b) {
    return b < a ? b : a;
}
template <class T>
MGI_HD constexpr T max_of(T a, T b) {
    return a < b ? b : a;
}
MGI_HD constexpr u32 ceil_div(u32 a, u32 b) {
    return (a + b - 1) / b;
}
/// Of a power of two.
MGI_HD inline u32 log2_of(u32 power) {
#if defined(__CUDA_ARCH__)
    return 31u - u32(__clz(int(power)));
#else
    return 31u - u32(__builtin_clz(power));
#endif
}

/// Fetches what lies at an address into the cache. Any address will do: it is a hint.
MGI_HD inline void prefetch([[maybe_unused]] void const* at) {
#if !defined(__CUDA_ARCH__)
    __builtin_prefetch(at);
#endif
}

}  // namespace mgi::device
