/// \file
/// Plans a channel (paper section 4.4): by reference or by copy, over which paths, and how large its
/// segments and pools are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <mgi/channel.hpp>
#include <mgi/graph.hpp>
#include <mgi/plan.hpp>
#include <mgi/schema.hpp>

#include "planner/paths.hpp"

namespace mgi::planner {

/// What is to be planned. Sources and destinations are vertices of the graph, one for each endpoint;
/// endpoints of one device name the same vertex.
struct PlanRequest {
    Graph graph;
    std::vector<std::uint32_t> sources;
    std::vector<std::uint32_t> destinations;
    Schema schema;
    device::RoutingKind routing = device::RoutingKind::Partition;
    ChannelOptions options;
    std::uint64_t memory_limit = 0;            ///< bytes of all channels together
    std::uint64_t memory_left = 0;             ///< of it, not taken by other channels
    std::string left_of = "the memory limit";  ///< whose rest that is, for errors
    /// Of several servers: the most endpoints that one of them has; 0: all are on one.
    std::uint64_t sources_here = 0;
    std::uint64_t destinations_here = 0;
    std::uint32_t cores = 0;  ///< most cores of a device that takes part; 0: not known
};

/// Decides everything that the options leave open; what they ask for is kept, but for rounding that
/// ChannelOptions names and for chunks of ordered channels, which are whole segments.
/// Throws Error: InvalidArgument (names the channel and the option) for values that cannot be;
/// OutOfMemory when the channel's pools pass `memory_left`. Thread-safe.
Plan make_plan(PlanRequest const& request, PathFinder const& paths = MemoryPaths{});

/// Lanes of each source: one for each destination, or one for all of them.
std::uint32_t lanes_of(device::RoutingKind routing, std::uint32_t destinations) noexcept;

}  // namespace mgi::planner
