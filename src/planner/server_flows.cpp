#include "planner/server_flows.hpp"

#include <string>
#include <utility>

#include <mgi/error.hpp>

namespace mgi::planner {

ServerFlows::ServerFlows(topology::Infrastructure const& infrastructure, std::uint32_t server)
    : local_of_(infrastructure.sites.size(), kNowhere) {
    if (server >= infrastructure.servers) {
        throw Error(ErrorCode::InvalidArgument, "server " + std::to_string(server) + " of " +
                                                    std::to_string(infrastructure.servers) +
                                                    "; they count from 0");
    }
    std::vector<ShapeVertex> vertices;
    for (Vertex const& vertex : infrastructure.graph.vertices) {
        std::uint32_t const at = infrastructure.sites[vertex.id].server;
        if (at != server && at != topology::kEveryServer) continue;
        if (vertex.kind == VertexKind::Gpu) gpus_.push_back(vertex.id);
        local_of_[vertex.id] = std::uint32_t(vertices.size());
        is_gpu_.push_back(vertex.kind == VertexKind::Gpu);
        vertices.push_back({vertex.kind, vertex.managed, false});
    }
    std::vector<Arc> arcs;
    for (Edge const& edge : infrastructure.graph.edges) {
        std::uint32_t const from = local_of_[edge.from];
        std::uint32_t const to = local_of_[edge.to];
        if (from == kNowhere || to == kNowhere) continue;
        arcs.push_back({from, to, capacity_of(edge.gbps)});
    }
    auto const count = std::uint32_t(vertices.size());
    Shape const shape(0, std::move(vertices), std::move(arcs), kNowhere);
    network_ = shape.network();
    for (std::size_t scope = 0; scope < kScopes; ++scope) {
        std::vector<Arc> carried;
        for (Arc const& arc : shape.arcs()) {
            if (shape.carries(arc, Scope(scope))) carried.push_back(arc);
        }
        networks_.emplace_back(count, std::move(carried));
    }
}

std::uint32_t ServerFlows::local_gpu(std::uint32_t vertex) const {
    std::uint32_t const local = vertex < local_of_.size() ? local_of_[vertex] : kNowhere;
    return local != kNowhere && is_gpu_[local] ? local : kNowhere;
}

Capacity ServerFlows::flow(Scope scope, std::uint32_t source, std::uint32_t sink, Relays relays) {
    if (source == kNowhere || sink == kNowhere) return 0;
    std::vector<bool> closed;
    if (relays == Relays::None) {
        closed = is_gpu_;
        closed[source] = closed[sink] = false;
    }
    FlowNetwork& network = networks_[std::size_t(scope)];
    network.close(std::move(closed));
    return network.max_flow_value(source, sink);
}

Capacity ServerFlows::between(std::uint32_t source, std::uint32_t destination, Relays relays) {
    return flow(Scope::Inside, local_gpu(source), local_gpu(destination), relays);
}

Capacity ServerFlows::to_network(std::uint32_t gpu, Relays relays) {
    return flow(Scope::Out, local_gpu(gpu), network_, relays);
}

Capacity ServerFlows::from_network(std::uint32_t gpu, Relays relays) {
    return flow(Scope::In, network_, local_gpu(gpu), relays);
}

}  // namespace mgi::planner
