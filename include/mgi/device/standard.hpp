/// \file
/// Leaf wrapper: what the device headers use of the standard library. NVRTC, which compiles kernels at run time
/// (CuPy, Numba), has no standard library; libcu++ has the same names.
#pragma once

#if defined(__CUDACC_RTC__)
#include <cuda/std/cstddef>
#include <cuda/std/cstdint>

namespace std {
using cuda::std::byte;
using cuda::std::int16_t;
using cuda::std::int32_t;
using cuda::std::int64_t;
using cuda::std::size_t;
using cuda::std::uint16_t;
using cuda::std::uint32_t;
using cuda::std::uint64_t;
using cuda::std::uint8_t;
using cuda::std::uintptr_t;
}  // namespace std
#else
#include <cstddef>
#include <cstdint>
#include <cstring>
#endif
