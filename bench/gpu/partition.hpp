/// \file
/// One-GPU partition as its competitors do it: the cases, the timing and the check that all of them
/// share. A peer gets a table and brings each destination's rows together in another.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <type_traits>
#include <vector>

#include "data.hpp"
#include "registry.hpp"

namespace mgi::bench {

/// One case of a peer.
struct PartitionCase {
    Layout layout;
    Keys keys;
    u32 destinations;
    Table input;
    Table output;
    /// In GPU memory, destinations + 1 entries: where each destination's rows begin in the output. The
    /// peer writes all but the last; they hold the right values before the first run, for peers that
    /// are given them.
    u32* begin;

    [[nodiscard]] u32 rows() const { return u32(input.rows); }
    /// Bits of a destination.
    [[nodiscard]] u32 bits() const { return device::log2_of(2 * destinations - 1); }
};

/// All that a run does is enqueued on the stream, from the table to the partitioned table.
using PartitionRun = std::function<void(cudaStream_t)>;

/// Allocates what a case needs and returns its run; none if the peer does not do such a case.
using PartitionPeer = std::function<PartitionRun(PartitionCase const&)>;

/// Block histograms, a scan and a staged scatter, of tiles of 32 KiB: the fastest of the peers here.
PartitionRun partition_in_two_passes(PartitionCase const& one);

/// Rows and columns of 16, 32 and 64 bytes, uniform and Zipf keys, to as many destinations as
/// `fan_outs` says (with --quick only some): times the peer, checks its output and adds a result for
/// each case.
void run_partition_cases(Context& context, PartitionPeer const& peer,
                         std::vector<u32> const& fan_outs = {2, 8, 16, 64});

/// Calls f with the words of a row as a std::integral_constant, to choose a kernel by.
template <class F>
void with_words(u32 words, F const& f) {
    switch (words) {
        case 2: f(std::integral_constant<u32, 2>{}); break;
        case 4: f(std::integral_constant<u32, 4>{}); break;
        case 8: f(std::integral_constant<u32, 8>{}); break;
        default: require(false, "rows of 16, 32 or 64 bytes");
    }
}

/// Lanes of a warp that have the same destination as this one. All 32 lanes must call it.
__device__ inline u32 lanes_alike(u32 destination, u32 bits) {
    u32 alike = ~0U;
    for (u32 b = 0; b < bits; ++b) {
        bool const set = (destination >> b & 1) != 0;
        u32 const having = __ballot_sync(~0U, set);
        alike &= set ? having : ~having;
    }
    return alike;
}

/// Adds a warp's rows to the counters of their destinations, one add for each; returns each lane's
/// old count, as if lanes had added one by one. All 32 lanes must call it; those without a row
/// (`active` false) add nothing.
template <class Add>
__device__ inline u32 add_alike(u32 destination, u32 bits, bool active, Add const& add) {
    u32 const alike = lanes_alike(destination, bits) & __ballot_sync(~0U, active);
    u32 const lane = threadIdx.x % 32;
    // Lanes without a row may see no lane at all; they take part in the shuffle only.
    u32 const leader = alike == 0 ? lane : u32(__ffs(int(alike))) - 1;
    u32 before = 0;
    if (active && lane == leader) before = add(destination, u32(__popc(alike)));
    before = __shfl_sync(~0U, before, int(leader));
    return before + u32(__popc(alike & ((1U << lane) - 1)));
}

}  // namespace mgi::bench
