/// \file
/// Plans channels over a cluster (paper sections 4.3 and 4.4, Figure 6): the paths of pairs, and for
/// every server its forwarding table, ready to be sent. What was found once is kept: by pair, by
/// shape of server, for every channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "planner/channel_plan.hpp"
#include "planner/cluster.hpp"
#include "planner/lru_cache.hpp"
#include "planner/rules.hpp"
#include "planner/shape_paths.hpp"
#include "planner/small_flow.hpp"
#include "planner/table_builder.hpp"

namespace mgi::planner {

/// From source to destination. The network and an NVLink domain are places of the source's server.
struct ClusterPath {
    std::vector<Place> vertices;
    Capacity capacity = 0;
    bool nic_direct = false;  ///< by the network, and the NICs read and write GPU memory themselves
};

struct PlannerLimits {
    std::size_t path_bytes = std::size_t(256) << 20;       ///< of paths that are kept
    std::size_t table_bytes = std::size_t(256) << 20;      ///< of tables that are kept
    std::size_t plan_bytes = std::size_t(64) << 20;        ///< of whole plans that are kept
    std::uint64_t source_memory = std::uint64_t(8) << 20;  ///< that one source's lanes may take
};

/// Not thread-safe, and reads the cluster: one lock around them both.
///
/// Errors are Error(InvalidArgument) that names server and vertices.
class ChannelPlanner {
public:
    /// The cluster must outlive the planner; it may change between calls.
    explicit ChannelPlanner(Cluster const& cluster, PlannerLimits limits = {});

    /// Paths that together carry the maximum flow, shortest first; none where there is no way, or
    /// from a place to itself. Across servers what leaves the source and what enters the destination
    /// are matched in that order; where an NVLink domain joins the two, the maximum flow is over both
    /// servers' graphs, by the domain and by the network.
    std::vector<ClusterPath> paths(Place from, Place to, PathRules rules = {});

    /// Plans a channel. Throws where a source or destination is no place for an endpoint, where there
    /// are none of them or more than kMostEndpoints, or where there is no way from one to another.
    ChannelPlan plan(std::span<Place const> sources, std::span<Place const> destinations,
                     PathRules rules = {});

    /// The plan after servers changed: theirs are solved anew, others keep their tables (the very
    /// same objects). Throws as `plan` does, also where one of them was removed.
    ChannelPlan replan(ChannelPlan const& plan, std::span<ServerId const> changed);

    /// Forgets all that is kept.
    void clear();
    /// Bytes of what is kept, about.
    [[nodiscard]] std::size_t kept_bytes() const {
        return paths_.bytes() + tables_.bytes() + plans_.bytes();
    }

private:
    struct PathKey {
        std::uint64_t shape = 0;
        PathRules rules;
        bool operator==(PathKey const&) const = default;
    };
    struct TableKey {
        PathKey paths;
        Role role;
        bool operator==(TableKey const&) const = default;
    };
    /// A request, and the cluster as it was.
    struct Request {
        std::uint64_t version = 0;
        PathRules rules;
        std::vector<Place> sources;
        std::vector<Place> destinations;
        std::size_t hash = 0;
        bool operator==(Request const&) const = default;
    };
    struct Hash {
        std::size_t operator()(Request const& key) const { return key.hash; }
        std::size_t operator()(PathKey const& key) const;
        std::size_t operator()(TableKey const& key) const;
    };
    struct KeptTable {
        std::shared_ptr<Role const> role;
        std::shared_ptr<EncodedTable const> table;
    };

    PathKey key_of(ServerId server, PathRules rules) const {
        return {cluster_.shape(server)->id(), rules};
    }
    std::shared_ptr<ShapePaths> shape_paths(ServerId server, PathRules rules);
    /// Counts what the paths of a server's shape have grown to.
    void settle(ServerId server, ShapePaths const& paths, PathRules rules);
    KeptTable table_of(ServerId server, Role const& role, PathRules rules);
    std::shared_ptr<EncodedTable const> build(ServerId server, Role const& role, PathRules rules);
    void check_ways(ChannelPlan const& plan);
    /// The error for an endpoint of a server that has these ways only.
    [[noreturn]] void refuse_ways(ServerPlan const& server, bool out, Ways ways, PathRules rules);
    Ways ways_of(ShapePaths& paths, Role const& role, bool out, std::uint32_t vertex);
    ChannelPlan make(std::span<Place const> sources, std::span<Place const> destinations,
                     PathRules rules);
    std::vector<ClusterPath> inside(Place from, Place to, PathRules rules);
    std::vector<ClusterPath> by_network(Place from, Place to, PathRules rules);

    Cluster const& cluster_;
    PlannerLimits limits_;
    SmallFlow flow_;
    TableBuilder builder_;
    LruCache<PathKey, std::shared_ptr<ShapePaths>, Hash> paths_;
    LruCache<TableKey, KeptTable, Hash> tables_;
    LruCache<Request, std::shared_ptr<ChannelPlan const>, Hash> plans_;
};

}  // namespace mgi::planner
