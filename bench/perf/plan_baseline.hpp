/// \file
/// What a planner without hierarchy, shapes or a cache does (the baseline of the paper's Figure 18).
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "planner/cluster.hpp"

namespace mgi::perf {

struct BaselineTime {
    double ms = 0;  ///< for all pairs: the mean of those measured times their number
    std::uint64_t measured = 0;
};

/// Edmonds-Karp, with its paths, over the graph of the whole cluster: for every pair of places, or for
/// as many random ones as `seconds` allow (at least three).
BaselineTime run_baseline(planner::Cluster const& cluster, std::span<planner::Place const> places,
                          double seconds, std::uint64_t seed, std::atomic<bool> const* cancel);

}  // namespace mgi::perf
