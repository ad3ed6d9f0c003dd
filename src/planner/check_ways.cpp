// Whether a plan's servers reach each other: ChannelPlanner::check_ways.
#include <array>
#include <string>
#include <unordered_map>

#include <mgi/error.hpp>

#include "planner/channel_planner.hpp"

namespace mgi::planner {
namespace {

constexpr Ways kByNetwork = way_by(Gateway::Network);

/// Servers that have an endpoint with just these ways.
using Counts = std::array<std::uint32_t, kWays>;

/// The servers at the other end of a way: sources' or destinations'.
class Others {
public:
    void add(WaySets const& ways, std::uint32_t domain) {
        for (std::size_t w = 0; w < kWays; ++w) {
            all_[w] += ways[w] ? 1 : 0;
            if (domain != 0) near_[domain][w] += ways[w] ? 1 : 0;
        }
    }
    /// Whether some endpoint of another server than this one, which counts with `own`, is out of
    /// reach of one with these `ways`: pairs of one NVLink domain may use it or the network.
    [[nodiscard]] bool miss(Ways ways, WaySets const& own, std::uint32_t domain) const {
        auto const near = near_.find(domain);
        for (std::size_t w = 0; w < kWays; ++w) {
            std::uint32_t const others = all_[w] - (own[w] ? 1 : 0);
            std::uint32_t const beside =
                near == near_.end() ? 0 : near->second[w] - (own[w] ? 1 : 0);
            if (beside > 0 && (ways & w) == 0) return true;
            if (others > beside && (ways & w & kByNetwork) == 0) return true;
        }
        return false;
    }

private:
    Counts all_{};
    std::unordered_map<std::uint32_t, Counts> near_;  ///< by domain
};

}  // namespace

void ChannelPlanner::check_ways(ChannelPlan const& plan) {
    Others sources;
    Others destinations;
    for (ServerPlan const& server : plan.servers) {
        std::uint32_t const domain = cluster_.domain(server.server);
        sources.add(server.table->out, domain);
        destinations.add(server.table->in, domain);
    }
    for (ServerPlan const& server : plan.servers) {
        std::uint32_t const domain = cluster_.domain(server.server);
        EncodedTable const& table = *server.table;
        // Of a pair without a way at least one end lacks the network: that one is named.
        for (Ways ways = 0; ways < kWays; ++ways) {
            if ((ways & kByNetwork) != 0) continue;
            if (table.out[ways] && destinations.miss(ways, table.in, domain)) {
                refuse_ways(server, true, ways, plan.rules);
            }
            if (table.in[ways] && sources.miss(ways, table.out, domain)) {
                refuse_ways(server, false, ways, plan.rules);
            }
        }
    }
}

Ways ChannelPlanner::ways_of(ShapePaths& paths, Role const& role, bool out, std::uint32_t vertex) {
    Ways ways = 0;
    for (Gateway const gateway : {Gateway::Network, Gateway::Domain}) {
        std::uint32_t const at = paths.shape().gateway(gateway);
        if (at == kNowhere || !role.crosses(gateway, out)) continue;
        if (!paths.find(flow_, out ? vertex : at, out ? at : vertex).empty()) {
            ways |= way_by(gateway);
        }
    }
    return ways;
}

void ChannelPlanner::refuse_ways(ServerPlan const& server, bool out, Ways ways, PathRules rules) {
    auto const paths = shape_paths(server.server, rules);
    Role const& role = *server.role;
    std::string who = "server '" + cluster_.name(server.server) + "'";
    for (std::uint32_t const v : (out ? role.sources : role.destinations).list()) {
        if (ways_of(*paths, role, out, v) != ways) continue;
        who = cluster_.name({server.server, v});
        break;
    }
    throw Error(ErrorCode::InvalidArgument,
                (out ? "no way from " + who + " to the network, and other servers have destinations"
                     : "no way from the network to " + who + ", and other servers have sources") +
                    to_text(rules));
}

}  // namespace mgi::planner
