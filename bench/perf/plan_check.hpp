/// \file
/// Whether a pair's paths and the plan's tables are right, found out by other code than what made
/// them.
#pragma once

#include <map>
#include <memory>

#include "planner/channel_planner.hpp"
#include "planner/server_table.hpp"

namespace mgi::perf {

/// Checks pairs of one plan.
class PlanCheck {
public:
    PlanCheck(planner::Cluster const& cluster, planner::ChannelPlan const& plan)
        : cluster_(cluster), plan_(plan) {}

    /// Whether `paths` carry what FlowNetwork's maximum flow says, are simple, run over links that
    /// there are, within their capacities, and stand hop by hop in the servers' tables.
    bool right(planner::Place from, planner::Place to,
               std::vector<planner::ClusterPath> const& paths);

private:
    planner::Capacity most_between(planner::Place from, planner::Place to);
    planner::Capacity most(planner::ServerId server, planner::Scope scope, std::uint32_t from,
                           std::uint32_t to);
    bool in_tables(planner::Place to, planner::ClusterPath const& path);
    planner::ServerTable const& table(planner::ServerId server);

    planner::Cluster const& cluster_;
    planner::ChannelPlan const& plan_;
    std::map<planner::ServerId, planner::ServerTable> tables_;
};

}  // namespace mgi::perf
