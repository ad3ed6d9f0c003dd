#include "planner/split.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <mgi/device/assert.hpp>
#include <mgi/error.hpp>

namespace mgi::planner {

SplitCluster split(topology::Infrastructure const& infrastructure) {
    SplitCluster made;
    Graph const& graph = infrastructure.graph;
    auto const server_of = [&](std::uint32_t v) { return infrastructure.sites[v].server; };
    made.places.assign(graph.vertices.size(), Place{kNowhere, 0});
    std::vector<std::vector<std::uint32_t>> vertices(infrastructure.servers);
    std::vector<std::vector<std::uint32_t>> shared(infrastructure.servers);
    std::vector<std::vector<Edge>> edges(infrastructure.servers);
    for (Vertex const& vertex : graph.vertices) {
        if (server_of(vertex.id) != topology::kEveryServer) {
            vertices[server_of(vertex.id)].push_back(vertex.id);
        }
    }
    for (Edge const& edge : graph.edges) {
        bool const from_shared = server_of(edge.from) == topology::kEveryServer;
        bool const to_shared = server_of(edge.to) == topology::kEveryServer;
        // Links between what all share are nobody's; such a graph has none.
        if (from_shared && to_shared) continue;
        std::uint32_t const server = server_of(from_shared ? edge.to : edge.from);
        if (!from_shared && !to_shared && server_of(edge.to) != server) {
            throw Error(ErrorCode::InvalidArgument,
                        "the link from " + graph.vertices[edge.from].name + " to " +
                            graph.vertices[edge.to].name +
                            " joins two servers; only the network and NVLink domains can");
        }
        edges[server].push_back(edge);
        if (from_shared) shared[server].push_back(edge.from);
        if (to_shared) shared[server].push_back(edge.to);
    }
    std::vector<std::uint32_t> local(graph.vertices.size(), kNowhere);
    made.whole.resize(infrastructure.servers);
    for (std::uint32_t s = 0; s < infrastructure.servers; ++s) {
        topology::Infrastructure one;
        std::sort(shared[s].begin(), shared[s].end());
        shared[s].erase(std::unique(shared[s].begin(), shared[s].end()), shared[s].end());
        std::string domain;
        // What tells vertices of several servers apart in one graph would tell equal servers apart.
        std::string const prefix = "h" + std::to_string(s) + "/";
        auto const add = [&](std::uint32_t whole, std::uint32_t server) {
            Vertex vertex = graph.vertices[whole];
            vertex.id = local[whole] = std::uint32_t(one.sites.size());
            one.graph.vertices.push_back(std::move(vertex));
            one.sites.push_back(
                {server, topology::kNoVertex, {}, infrastructure.sites[whole].nic_direct});
            made.whole[s].push_back(whole);
        };
        for (std::uint32_t const whole : vertices[s]) {
            add(whole, 0);
            std::string& name = one.graph.vertices.back().name;
            if (name.starts_with(prefix)) name.erase(0, prefix.size());
            made.places[whole] = {s, local[whole]};
        }
        for (std::uint32_t const whole : shared[s]) {
            add(whole, topology::kEveryServer);
            Vertex const& vertex = graph.vertices[whole];
            if (vertex.kind != VertexKind::Network) domain = vertex.name;
        }
        for (Edge& edge : edges[s]) {
            edge.from = local[edge.from];
            edge.to = local[edge.to];
            MGI_ASSERT(edge.from < one.sites.size() && edge.to < one.sites.size(), edge.from,
                       edge.to, one.sites.size(), s);
        }
        one.graph.edges = std::move(edges[s]);
        made.cluster.add_server(one, "h" + std::to_string(s), domain);
    }
    return made;
}

}  // namespace mgi::planner
