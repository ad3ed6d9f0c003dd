/// \file
/// The counting sort of a tile by one thread: what TileOps::sort does, in plain C++.
#pragma once

#include <mgi/device/config.hpp>

namespace mgi::device {

/// Stable. Fills `order` with the rows by lane, `next` and `end` with each lane's part of it.
MGI_HD inline void counting_sort(u16 const* lane, u32 rows, u32 lanes, u16* order, u32* next,
                                 u32* end) {
    for (u32 d = 0; d < lanes; ++d) end[d] = 0;
    for (u32 i = 0; i < rows; ++i) {
        MGI_ASSERT(lane[i] < lanes, lane[i], lanes, i);
        ++end[lane[i]];
    }
    u32 sum = 0;
    for (u32 d = 0; d < lanes; ++d) {
        u32 const count = end[d];
        next[d] = sum;
        end[d] = sum;
        sum += count;
    }
    // `end` runs from a lane's start to its end while rows are dealt out.
    for (u32 i = 0; i < rows; ++i) order[end[lane[i]]++] = u16(i);
}

}  // namespace mgi::device
