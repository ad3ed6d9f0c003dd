/// \file
/// Who takes part in a channel, server by server.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/channel_plan.hpp"
#include "planner/cluster.hpp"
#include "planner/directory.hpp"

namespace mgi::planner {

struct Participant {
    ServerId server = 0;
    Role role;
    std::uint64_t destinations = 0;  ///< endpoints, several of which one vertex may have
};

struct Participants {
    std::vector<Participant> servers;  ///< ascending
    ChannelDirectory directory;
    std::uint64_t destination_servers = 0;
    std::uint64_t most_destinations = 0;  ///< of one server
};

/// Throws Error(InvalidArgument) for what ChannelPlanner::plan refuses, but for missing ways.
Participants gather(Cluster const& cluster, std::span<Place const> sources,
                    std::span<Place const> destinations);

}  // namespace mgi::planner
