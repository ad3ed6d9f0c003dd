#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include <mgi/error.hpp>

#include "fuzz/targets.hpp"
#include "fuzz/topology_checks.hpp"
#include "planner/server_flows.hpp"
#include "topology/readers/read.hpp"
#include "topology/tree.hpp"

namespace mgi::fuzz {
namespace {

topology::Facts take_facts(Input& input) {
    topology::Facts facts;
    std::uint32_t const given = input.below(16);
    if ((given & 1) != 0) facts.sm = 90;
    if ((given & 2) != 0) facts.nvs_links = 18;
    if ((given & 4) != 0) facts.nic_gbps = 400;
    if ((given & 8) != 0) facts.cpu = "amd";
    return facts;
}

/// Flows of the first GPUs: what they obey whatever the graph is.
void check_flows(topology::Infrastructure const& made) {
    using planner::Relays;
    for (std::uint32_t server = 0; server < std::min(made.servers, 2u); ++server) {
        planner::ServerFlows flows(made, server);
        auto const& gpus = flows.gpus();
        for (std::size_t i = 0; i < std::min<std::size_t>(gpus.size(), 3); ++i) {
            require(flows.to_network(gpus[i], Relays::None) <=
                        flows.to_network(gpus[i], Relays::Allowed),
                    "relays take nothing away");
            require(flows.from_network(gpus[i], Relays::None) <=
                        flows.from_network(gpus[i], Relays::Allowed),
                    "relays take nothing away");
            for (std::size_t j = 0; j < std::min<std::size_t>(gpus.size(), 3); ++j) {
                require(flows.between(gpus[i], gpus[j], Relays::None) <=
                            flows.between(gpus[i], gpus[j], Relays::Allowed),
                        "relays take nothing away");
            }
        }
    }
}

}  // namespace

void check_graph(topology::Infrastructure const& made) {
    auto const vertices = made.graph.vertices.size();
    require(made.sites.size() == vertices, "every vertex has a site");
    std::set<std::string> names;
    for (Vertex const& vertex : made.graph.vertices) {
        require(names.insert(vertex.name).second, "names are unique", vertex.name.c_str());
        std::uint32_t const server = made.sites[vertex.id].server;
        require(server < made.servers || server == topology::kEveryServer,
                "a vertex is on a server that there is");
    }
    std::set<std::pair<std::uint32_t, std::uint32_t>> pairs;
    for (Edge const& edge : made.graph.edges) {
        require(edge.from < vertices && edge.to < vertices && edge.from != edge.to,
                "an edge joins two vertices");
        require(pairs.emplace(edge.from, edge.to).second, "edges of a pair are merged");
        require(std::isfinite(edge.gbps) && edge.gbps >= 0, "a capacity is a number");
    }
}

void topology_file(Input input) {
    // Text starts with what is no choice: files are their own seeds.
    topology::Facts facts;
    std::string text(input.all());
    if (!text.empty() && text.front() == '\x01') {
        Input choices(reinterpret_cast<std::uint8_t const*>(text.data()) + 1, text.size() - 1);
        facts = take_facts(choices);
        text = std::string(choices.all());
    }
    try {
        auto const read = topology::read_topology(topology::Source("input", text), facts);
        check_graph(read.infrastructure);
        require(!topology::tree_text(read.infrastructure).empty(), "a graph has a tree");
        if (read.infrastructure.graph.edges.size() < 1000) check_flows(read.infrastructure);
    } catch (Error const& error) {
        std::string const message = error.what();
        require(message.starts_with("input") || message.starts_with("facts") ||
                    message.starts_with("a topology of more than"),
                "an error names the file", message.c_str());
    }
}

}  // namespace mgi::fuzz
