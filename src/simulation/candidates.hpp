/// \file
/// The paths that a plan gives a pair of GPUs, as routes over the edges of the graph.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "planner/channel_planner.hpp"
#include "planner/rules.hpp"
#include "planner/shape_paths.hpp"
#include "planner/split.hpp"
#include "simulation/fluid.hpp"
#include "topology/infrastructure.hpp"

namespace mgi::simulation {

/// Asks the channel planner. Not thread-safe. Throws Error(InvalidArgument) for a graph that no
/// cluster can be.
class Candidates {
public:
    Candidates(topology::Infrastructure const& infrastructure, planner::PathRules rules);

    /// Whether a pair's paths are its own: the two share a server or an NVLink domain. Others meet
    /// at the network.
    [[nodiscard]] bool are_linked(std::uint32_t source, std::uint32_t destination) const;

    std::vector<Route> between(std::uint32_t source, std::uint32_t destination);
    /// From a GPU to the network, and from there to it.
    std::vector<Route> out(std::uint32_t gpu) { return by_network(gpu, true); }
    std::vector<Route> in(std::uint32_t gpu) { return by_network(gpu, false); }

private:
    std::vector<Route> by_network(std::uint32_t gpu, bool out);
    template <class Places>
    [[nodiscard]] Route route(Places const& places) const;

    planner::PathRules rules_;
    planner::SplitCluster split_;
    planner::ChannelPlanner planner_;
    planner::SmallFlow flow_;
    std::unordered_map<std::uint64_t, std::unique_ptr<planner::ShapePaths>> shapes_;
    std::unordered_map<std::uint64_t, std::uint32_t> edges_;  ///< by both ends
};

}  // namespace mgi::simulation
