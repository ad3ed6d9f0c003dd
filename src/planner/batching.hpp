/// \file
/// How many lanes a source has, and how large its segments are (paper: the batch size follows the
/// links and the memory).
#pragma once

#include <cstdint>

#include "planner/max_flow.hpp"
#include "planner/sizes.hpp"

namespace mgi::planner {

/// Beyond so many lanes a source sends to groups of destinations. Measured (docs/performance.md): up to
/// 32 endpoints on two servers one level is as fast or faster, from 48 on two are. Long before tiles
/// have few rows for each lane, pools do not fit caches, and take long to make.
inline constexpr std::uint32_t kMostSingleLevelLanes = 32;

/// With `two_level` rows go to the same-ranked destination of the destination's server first, which
/// partitions them again: a lane is a server.
struct Lanes {
    bool two_level = false;
    std::uint64_t count = 0;   ///< of each source, for a routing that has one for each destination
    std::uint64_t groups = 0;  ///< servers with destinations
    std::uint64_t group_size = 0;  ///< most destinations of one of them: lanes of the second level
};
Lanes choose_lanes(std::uint64_t destinations, std::uint64_t servers, std::uint64_t most_on_one);

struct Batching {
    std::uint32_t segment_bytes = 0;
    std::uint32_t slots = 0;
};
/// What a host spends on handing one segment to a copy engine or a NIC, and on seeing it done.
inline constexpr double kTransferSeconds = 2e-6;
/// A segment is so large that its transfer takes so many times as long: 1/9 is lost, at most.
inline constexpr double kTransferShare = 8;
inline constexpr std::uint32_t kLargestPlannedSegment = 4u << 20;

/// `fastest`: of the links that a segment crosses; `memory`: bytes that one source's lanes may take.
/// A power of two from kSmallestDefaultSegment to kLargestPlannedSegment; slots are kDefaultSlots,
/// fewer (at least 2) where not even the smallest segments fit.
Batching choose_batching(Capacity fastest, std::uint64_t lanes, std::uint64_t memory);

}  // namespace mgi::planner
