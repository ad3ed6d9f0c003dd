/// \file
/// The counting sort of a tile in plain C++.
#pragma once

#include <mgi/device/config.hpp>

namespace mgi::simd {

/// TileOps::sort.
inline void counting_sort(device::u16 const* lane, device::u32 rows, device::u32 lanes,
                          device::u16* order, device::u32* next, device::u32* end) {
    for (device::u32 d = 0; d < lanes; ++d) end[d] = 0;
    for (device::u32 i = 0; i < rows; ++i) ++end[lane[i]];
    device::u32 sum = 0;
    for (device::u32 d = 0; d < lanes; ++d) {
        device::u32 const count = end[d];
        next[d] = sum;
        end[d] = sum;
        sum += count;
    }
    for (device::u32 i = 0; i < rows; ++i) order[end[lane[i]]++] = device::u16(i);
}

}  // namespace mgi::simd
