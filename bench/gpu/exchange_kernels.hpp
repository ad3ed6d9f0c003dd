/// \file
/// Kernels that send rows through a channel, receive them, and do both (the paper's Figure 3), and what their blocks
/// got. Every row is read where it arrives.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <mgi/device/channel.hpp>

#include "data.hpp"
#include "memory.hpp"

namespace mgi::bench::exchanges {

/// How kernels are launched: two blocks of 256 threads fit a multiprocessor's registers, and the larger
/// their tiles, the less often a block claims.
inline constexpr u32 kThreads = 256;
inline constexpr u32 kBlocks = 2;
inline constexpr u32 kTileBytes = 72 << 10;
inline constexpr u32 kBatchTiles = 4;  // offered at once, between looks at what has come
inline constexpr u32 kBatchesWhenStuck =
    4;  // received before rows that have no room are offered again
inline constexpr u64 kSegment = 1 << 20;
inline constexpr u64 kChunk = 256 << 10;

/// What a block got, and why it stopped early.
struct Tally {
    u64 rows;
    u64 keys;
    u64 all;
    u32 failure;  ///< an ErrorCode, kLate or 0
};
inline constexpr u32 kLate = 1000;

/// What a kernel's blocks share.
struct Run {
    device::Channel channel;  ///< of any endpoint
    Table input;
    u32 endpoints;
    u32 groups;  ///< blocks of an endpoint
    u32 scratch;
    u64 batch_rows;  ///< rows of a call
    u64 launch;
    bool check;
    Tally* tallies;
    u32 first = 0;  ///< endpoint here, of those that are `step` apart
    u32 step = 1;
    bool own = false;  ///< all blocks are those of the endpoint that `channel` is of
};

using Kernel = void (*)(Run);
/// Blocks of one source send all rows and flush.
Kernel send_kernel();
/// Blocks of destinations, `groups` of each, receive until the end.
Kernel receive_kernel();
/// Each block sends its part of the rows and receives what comes to its endpoint.
Kernel exchange_kernel();

/// Whether the blocks of each destination, `groups` of them, got what was sent there.
inline bool is_exact(std::vector<Tally> const& tallies, u32 groups,
                     std::vector<Sums> const& expected) {
    for (std::size_t d = 0; d < expected.size(); ++d) {
        Sums got;
        for (u32 g = 0; g < groups; ++g) {
            Tally const& tally = tallies[d * groups + g];
            got.rows += tally.rows;
            got.keys += tally.keys;
            got.all += tally.all;
        }
        if (!(got == expected[d])) return false;
    }
    return true;
}

inline u64 rows_of(std::vector<Tally> const& tallies) {
    u64 rows = 0;
    for (Tally const& tally : tallies) rows += tally.rows;
    return rows;
}

/// What the blocks got; throws when one of them has stopped early.
inline std::vector<Tally> read(DeviceArray<Tally> const& tallies, cudaStream_t stream) {
    std::vector<Tally> out(tallies.size());
    check(
        cudaMemcpyAsync(out.data(), tallies.get(), tallies.bytes(), cudaMemcpyDeviceToHost, stream),
        "read tallies");
    check(cudaStreamSynchronize(stream), "read tallies");
    for (Tally const& tally : out) {
        if (tally.failure == 0) continue;
        fail(tally.failure == kLate ? "a block passed its deadline"
                                    : "a call failed with code " + std::to_string(tally.failure),
             std::source_location::current());
    }
    return out;
}

}  // namespace mgi::bench::exchanges
