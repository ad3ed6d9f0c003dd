/// \file
/// The reference for channels over several GPUs that reach each other's memory: row structs go through rings
/// in the memory of the GPU that they are for, and are read there. It does this alone: there is no flush,
/// no failure, no other layout. Where a channel is slower, it must have a reason.
///
/// A lane leads from a GPU to a GPU, also to itself: a ring of segments in its destination's memory. Each word
/// lies with the GPU that polls it, and another GPU changes it by a plain store alone:
///
/// | word | lies with | written by |
/// | --- | --- | --- |
/// | `cursors`, how many rows were claimed | the source | its blocks add |
/// | `Slot::committed`, rows written | the source | its blocks add |
/// | `Slot::free`, the sequence it may be filled with | the source | the block that has read it |
/// | `full`, by slot: sequence + 1, and its rows | the destination | the block that completes it |
/// | `ends`, how many segments there are, plus 1 | the destination | the source's last block |
/// | `turns`, the next sequence to be read | the destination | its blocks add |
///
/// A claim is one addition, across the segments' borders: no block opens a segment, so none waits for another
/// one to open it. A block that has claimed rows of a slot that is not free yet receives until it is. A block
/// that receives has a turn of its own in each lane, so no two look at one segment.
#pragma once

#include <cuda/atomic>

#include "data.hpp"

namespace mgi::bench::peers {

inline constexpr u32 kMostGpus = 8;
inline constexpr u32 kThreads = 256;
inline constexpr u32 kTileBytes = 32 << 10;  ///< a block's scratch
inline constexpr u32 kSegmentBytes = 128 << 10;
inline constexpr u32 kSlots = 256;  ///< of a lane
inline constexpr u64 kRingBytes = u64(kSlots) * kSegmentBytes;

struct alignas(128) Counter {
    u64 value = 0;
};
struct alignas(64) Slot {
    u64 free = 0;
    u64 committed = 0;
};

/// What a GPU's blocks got.
struct Tally {
    Sums got;
    u32 late = 0;  ///< blocks that passed their deadline
};

/// What changes in a GPU's memory during a run, but for rows. Made new by copying a fresh one there.
struct Words {
    // As a source; by destination.
    Counter cursors[kMostGpus];
    Slot lanes[kMostGpus][kSlots];
    Counter tiles;  ///< taken
    Counter finished;
    // As a destination; by source.
    Counter turns[kMostGpus];
    u64 full[kMostGpus][kSlots] = {};
    u64 ends[kMostGpus] = {};
    Tally tally;

    Words() {
        for (auto& lane : lanes) {
            for (u32 i = 0; i < kSlots; ++i) lane[i].free = i;
        }
    }
};

/// One GPU's part; goes to its kernel by value.
struct Part {
    Table input;
    u32 gpus = 0;
    u32 me = 0;
    bool check = false;
    // By GPU.
    Words* words[kMostGpus] = {};
    char* rings[kMostGpus] = {};  ///< one for each source
};

/// Lets every block of the GPU send its share of the rows and receive; the kernel for rows of so many words.
using Kernel = void (*)(Part);
Kernel kernel_of(u32 words);

}  // namespace mgi::bench::peers
