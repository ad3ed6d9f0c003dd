#include "planner/cluster_flows.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <mgi/error.hpp>

namespace mgi::planner {
namespace {

FlowNetwork without_nics(Graph const& graph) {
    auto const is_nic = [&](std::uint32_t vertex) {
        return graph.vertices[vertex].kind == VertexKind::Nic;
    };
    std::vector<Arc> arcs;
    for (Edge const& edge : graph.edges) {
        if (is_nic(edge.from) || is_nic(edge.to)) continue;
        arcs.push_back({edge.from, edge.to, capacity_of(edge.gbps)});
    }
    return {std::uint32_t(graph.vertices.size()), std::move(arcs)};
}

}  // namespace

ClusterFlows::ClusterFlows(topology::Infrastructure const& infrastructure)
    : infrastructure_(infrastructure), links_(without_nics(infrastructure.graph)) {
    servers_.reserve(infrastructure.servers);
    for (std::uint32_t server = 0; server < infrastructure.servers; ++server) {
        servers_.emplace_back(infrastructure, server);
    }
}

std::uint32_t ClusterFlows::server_of(std::uint32_t gpu) const {
    auto const& vertices = infrastructure_.graph.vertices;
    if (gpu >= vertices.size() || vertices[gpu].kind != VertexKind::Gpu) {
        throw Error(ErrorCode::InvalidArgument,
                    "vertex " + std::to_string(gpu) + " is no GPU of this graph");
    }
    return infrastructure_.sites[gpu].server;
}

Capacity ClusterFlows::by_network(std::uint32_t source, std::uint32_t destination) {
    return std::min(servers_[server_of(source)].to_network(source, Relays::Allowed),
                    servers_[server_of(destination)].from_network(destination, Relays::Allowed));
}

Capacity ClusterFlows::by_links(std::uint32_t source, std::uint32_t destination) {
    static_cast<void>(server_of(source));
    static_cast<void>(server_of(destination));
    return links_.max_flow_value(source, destination);
}

}  // namespace mgi::planner
