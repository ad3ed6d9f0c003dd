/// \file
/// Which of the paper's optimizations a channel gets on its infrastructure (Table 2), and why.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "planner/channel_planner.hpp"

namespace mgi::planner {

struct Optimization {
    std::uint32_t number = 0;  ///< the paper's: Opt 1 to Opt 4
    std::string name;          ///< "pipelining", "batching", "multi-path", "nic-direct"
    bool applies = false;
    std::string why;
};

/// All four, in the paper's order. Pairs of equal servers are looked at once; of more than 4096 kinds
/// of pairs the first. Throws as ChannelPlanner::paths does, and where there is no pair.
std::vector<Optimization> optimizations(ChannelPlanner& planner, Cluster const& cluster,
                                        std::span<Place const> sources,
                                        std::span<Place const> destinations, PathRules rules = {});

}  // namespace mgi::planner
