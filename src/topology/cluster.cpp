#include "topology/cluster.hpp"

#include <string>
#include <utility>

#include <mgi/error.hpp>

namespace mgi::topology {
namespace {

void add_server(Infrastructure const& made, std::uint32_t server, GraphBuilder& graph) {
    if (made.servers != 1) {
        throw Error(ErrorCode::InvalidArgument,
                    "server " + std::to_string(server) + " of a cluster is a graph of " +
                        std::to_string(made.servers) + " servers; expected one");
    }
    std::vector<std::uint32_t> vertex_of;
    vertex_of.reserve(made.sites.size());
    for (Vertex const& vertex : made.graph.vertices) {
        Site const& site = made.sites[vertex.id];
        vertex_of.push_back(site.server == kEveryServer
                                ? graph.shared(vertex.kind, vertex.name)
                                : graph.add(vertex.kind, vertex.name, server, site.note));
    }
    for (Vertex const& vertex : made.graph.vertices) {
        Site const& site = made.sites[vertex.id];
        if (site.parent != kNoVertex)
            graph.set_parent(vertex_of[vertex.id], vertex_of[site.parent]);
        if (site.nic_direct) graph.set_nic_direct(vertex_of[vertex.id], true);
    }
    for (Edge const& edge : made.graph.edges) {
        graph.connect(vertex_of[edge.from], vertex_of[edge.to], edge.gbps, edge.kind);
    }
    for (std::string const& warning : made.warnings) {
        graph.warn("server " + std::to_string(server) + ": " + warning);
    }
}

}  // namespace

Infrastructure join_servers(std::vector<Infrastructure const*> const& servers) {
    if (servers.empty()) {
        throw Error(ErrorCode::InvalidArgument, "a cluster of no servers; expected at least one");
    }
    GraphBuilder graph;
    for (std::size_t i = 0; i < servers.size(); ++i) {
        add_server(*servers[i], std::uint32_t(i), graph);
    }
    return std::move(graph).finish(std::uint32_t(servers.size()));
}

}  // namespace mgi::topology
