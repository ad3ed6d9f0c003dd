#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <mgi/error.hpp>

#include "fuzz/targets.hpp"
#include "planner/channel_planner.hpp"
#include "planner/directory.hpp"
#include "planner/table_codec.hpp"

namespace mgi::fuzz {
namespace {

double capacity(Input& input) {
    switch (input.below(12)) {
        case 0: return 0;
        case 1: return -double(input.below(9));
        case 2: return std::nan("");
        case 3: return 1e9 * input.below(3);
        case 4: return 1e-9;
        default: return 1 + double(input.below(40));
    }
}

topology::Infrastructure server(Input& input) {
    topology::Infrastructure made;
    std::uint32_t const vertices = 1 + (input.one_in(16) ? 60 + input.below(20) : input.below(10));
    for (std::uint32_t v = 0; v < vertices; ++v) {
        // Few servers have two networks, or ids and names that are taken.
        auto const kind = v == 0 ? VertexKind::Network : VertexKind(input.below(4));
        auto const id = input.one_in(200) ? input.below(16) : v;
        made.graph.vertices.push_back({id, "v" + std::to_string(input.one_in(200) ? 0 : v),
                                       input.one_in(200) ? VertexKind::Network : kind,
                                       !input.one_in(16)});
        made.sites.push_back({input.one_in(100) ? topology::kEveryServer : 0u, 0, {}});
    }
    for (std::uint32_t e = input.below(4) * vertices; e > 0; --e) {
        std::uint32_t const from = input.below(vertices);
        std::uint32_t const to = input.below(vertices);
        if (from == to && !input.one_in(64)) continue;
        bool twice = false;
        for (Edge const& edge : made.graph.edges) {
            twice = twice || (edge.from == from && edge.to == to);
        }
        if (twice && !input.one_in(64)) continue;
        double const gbps = input.one_in(64) ? capacity(input) : 1 + double(input.below(40));
        made.graph.edges.push_back({from, to, gbps, input.one_in(8) ? "memory" : "pcie"});
    }
    return made;
}

void check(planner::ChannelPlan const& plan) {
    auto const directory = planner::decode_directory(*plan.directory);
    require(directory.sources.size() == plan.sources, "the directory has every source");
    require(directory.destinations.size() == plan.destinations, "and every destination");
    for (planner::ServerPlan const& at : plan.servers) {
        auto const table = planner::decode_table(at.table->bytes);
        require(planner::encode(table) == at.table->bytes, "a table has one encoding");
    }
}

}  // namespace

void cluster(Input input) {
    planner::Cluster servers;
    try {
        for (std::uint32_t s = 1 + input.below(3); s > 0; --s) {
            servers.add_server(server(input), "s" + std::to_string(s));
        }
        planner::ChannelPlanner planner(servers);
        planner::PathRules rules{!input.one_in(4), !input.one_in(4),
                                 input.one_in(4) ? input.below(3) : 0};
        std::vector<planner::Place> sources;
        std::vector<planner::Place> destinations;
        for (std::uint32_t i = input.below(6); i > 0; --i) {
            sources.push_back({input.below(3), 1 + input.below(10)});
            destinations.push_back({input.below(3), 1 + input.below(10)});
        }
        auto const plan = planner.plan(sources, destinations, rules);
        check(plan);
        std::uint32_t const changed = sources.front().server;
        auto const arcs = servers.shape(changed)->arcs();
        if (arcs.empty()) return;
        planner::Arc const arc =
            arcs[input.below(std::uint32_t(std::min<std::size_t>(256, arcs.size())))];
        servers.set_link(changed, arc.from, arc.to, capacity(input));
        std::vector<planner::ServerId> const ids{changed};
        check(planner.replan(plan, ids));
        servers.recover_link(changed, arc.from, arc.to);
        require(planner.replan(plan, ids).servers.front().table == plan.servers.front().table,
                "a link that recovered leaves nothing behind");
    } catch (Error const& error) {
        require(error.code() == ErrorCode::InvalidArgument, "refused as an argument", error.what());
    }
}

}  // namespace mgi::fuzz
