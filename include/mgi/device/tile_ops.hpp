/// \file
/// The inner loops of a tile for groups of one thread on a CPU, written in what instructions the
/// machine has. The runtime puts a table of them into a channel; without one, and on a GPU, the loops
/// of tile.hpp and segment_writer.hpp do the same work.
#pragma once

#include <mgi/device/config.hpp>

namespace mgi::device {

/// A table of functions, each for one thread. Arrays of a tile (`lane`, `order`) may be read and
/// written up to `kSlack` elements behind their last row.
struct TileOps {
    static constexpr u32 kSlack = 32;
    static constexpr u32 kWidths = 7;  ///< values of 1, 2, 4 ... 64 bytes

    /// lane[i] = destination_of_hash(murmur3_mix(key i), lanes) of 64-bit keys `stride` bytes apart.
    void (*route)(char const* keys, u32 stride, u32 rows, u32 lanes, u16* lane);
    /// Stable counting sort: `order` gets the rows by lane, `next` and `end` each lane's part of it.
    void (*sort)(u16 const* lane, u32 rows, u32 lanes, u16* order, u32* next, u32* end);
    /// By log2 of the width: to[k] = from[order[k]] for k < count. Meanwhile as many bytes are fetched
    /// into the cache from `ahead` on; any address will do, it is a hint.
    void (*gather[kWidths])(char* to, char const* from, u16 const* order, u32 count,
                            char const* ahead);
};

}  // namespace mgi::device
