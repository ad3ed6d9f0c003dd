/// \file
/// The reference for channels over several GPUs that reach each other's memory: row structs go through rings
/// in the memory of the GPU that they are for, and are read there. It does this alone: there is no flush,
/// no failure, no other layout. What a channel is slower, it must have a reason for.
///
/// A lane leads from a GPU to a GPU, also to itself: a ring of segments in its destination's memory. A word
/// lies with who polls it, and who changes it elsewhere does so by a plain store:
///
/// | word | lies with | written by |
/// | --- | --- | --- |
/// | `cursor`, how many rows were claimed | the source | its blocks add |
/// | `Slot::committed`, rows written | the source | its blocks add |
/// | `Slot::free`, the sequence it may be filled with | the source | who has read it |
/// | `full`, by slot: sequence + 1, and its rows | the destination | who completes it |
/// | `end`, how many segments there are, plus 1 | the destination | the source's last block |
/// | `turn`, the next sequence to be read | the destination | its blocks add |
///
/// A claim is one addition, across the segments' borders: no segment is opened, so nobody waits for who opens
/// it. Who has claimed rows of a slot that is not free yet receives until it is. A block that receives has a
/// turn of its own in each lane, so no two look at one segment.
#pragma once

#include <cuda/atomic>

#include "data.hpp"

namespace mgi::bench::peers {

inline constexpr u32 kMostGpus = 8;
inline constexpr u32 kThreads = 256;
inline constexpr u32 kWarps = kThreads / 32;
inline constexpr u32 kBlocks = 3;  ///< of a multiprocessor

/// One row.
template <u32 kWords>
struct alignas(16) Row {
    u64 word[kWords];
};
using Piece = ulonglong2;  ///< what a thread loads and stores at once

struct alignas(128) Counter {
    u64 value = 0;
};
struct alignas(64) Slot {
    u64 free = 0;
    u64 committed = 0;
};

/// What a GPU's blocks got.
struct Tally {
    u64 rows = 0;
    u64 keys = 0;
    u64 all = 0;
    u32 late = 0;  ///< blocks that passed their deadline
};

/// One GPU's part; goes to its kernel by value.
struct Part {
    Table input;
    u32 gpus = 0;
    u32 me = 0;
    u32 capacity = 0;  ///< rows of a segment
    u32 slots = 0;     ///< of a lane
    bool check = false;
    // Here, as a source; by destination.
    Counter* cursors = nullptr;
    Slot* lanes[kMostGpus] = {};
    u64* rings[kMostGpus] = {};  ///< there
    u64* full[kMostGpus] = {};   ///< there
    u64* ends[kMostGpus] = {};   ///< there
    Counter* tiles = nullptr;    ///< taken
    Counter* finished = nullptr;
    // Here, as a destination; by source.
    Counter* turns = nullptr;
    u64 const* my_rings[kMostGpus] = {};
    u64* my_full[kMostGpus] = {};
    u64* my_ends = nullptr;
    Slot* freed[kMostGpus] = {};  ///< there
    Tally* tally = nullptr;
};

/// Lets every block of the GPU send its share of the rows and receive; the kernel for rows of so many words.
using Kernel = void (*)(Part);
Kernel kernel_of(u32 words);
/// Scratch of a block.
u32 scratch_of(u32 words);

}  // namespace mgi::bench::peers
