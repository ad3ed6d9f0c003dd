#include "planner/server_flows.hpp"

#include <string>
#include <utility>

#include <mgi/error.hpp>

namespace mgi::planner {

ServerFlows::ServerFlows(topology::Infrastructure const& infrastructure, std::uint32_t server)
    : local_of_(infrastructure.sites.size(), kNone), inside_(0, {}), out_(0, {}), in_(0, {}) {
    if (server >= infrastructure.servers) {
        throw Error(ErrorCode::InvalidArgument, "server " + std::to_string(server) + " of " +
                                                    std::to_string(infrastructure.servers) +
                                                    "; they count from 0");
    }
    for (Vertex const& vertex : infrastructure.graph.vertices) {
        std::uint32_t const at = infrastructure.sites[vertex.id].server;
        if (at != server && at != topology::kEveryServer) continue;
        if (vertex.kind == VertexKind::Network) net_ = locals_;
        if (vertex.kind == VertexKind::Gpu) gpus_.push_back(vertex.id);
        local_of_[vertex.id] = locals_++;
    }
    inside_ = network(infrastructure, Nics::None);
    out_ = network(infrastructure, Nics::Out);
    in_ = network(infrastructure, Nics::In);
}

FlowNetwork ServerFlows::network(topology::Infrastructure const& infrastructure, Nics nics) const {
    auto const kind_of = [&](std::uint32_t vertex) {
        return infrastructure.graph.vertices[vertex].kind;
    };
    auto const is_network = [&](std::uint32_t vertex) {
        return kind_of(vertex) == VertexKind::Network;
    };
    std::vector<Arc> arcs;
    for (Edge const& edge : infrastructure.graph.edges) {
        std::uint32_t const from = local_of_[edge.from];
        std::uint32_t const to = local_of_[edge.to];
        if (from == kNone || to == kNone) continue;
        bool const from_nic = kind_of(edge.from) == VertexKind::Nic;
        bool const to_nic = kind_of(edge.to) == VertexKind::Nic;
        if ((from_nic || to_nic) && nics == Nics::None) continue;
        // Outward a NIC is entered from the server and left for the network; inward the other way.
        if (from_nic && (nics == Nics::Out) != is_network(edge.to)) continue;
        if (to_nic && (nics == Nics::In) != is_network(edge.from)) continue;
        arcs.push_back({from, to, capacity_of(edge.gbps)});
    }
    return {locals_, std::move(arcs)};
}

std::uint32_t ServerFlows::local(std::uint32_t vertex) const {
    return vertex < local_of_.size() ? local_of_[vertex] : kNone;
}

std::uint32_t ServerFlows::local_gpu(std::uint32_t vertex) const {
    for (std::uint32_t const gpu : gpus_) {
        if (gpu == vertex) return local(vertex);
    }
    return kNone;
}

Capacity ServerFlows::flow(FlowNetwork& network, std::uint32_t source, std::uint32_t sink,
                           Relays relays) {
    if (source == kNone || sink == kNone) return 0;
    std::vector<bool> closed;
    if (relays == Relays::None) {
        closed.assign(locals_, false);
        for (std::uint32_t const gpu : gpus_) closed[local(gpu)] = true;
        closed[source] = closed[sink] = false;
    }
    network.close(std::move(closed));
    return network.max_flow_value(source, sink);
}

Capacity ServerFlows::between(std::uint32_t source, std::uint32_t destination, Relays relays) {
    return flow(inside_, local_gpu(source), local_gpu(destination), relays);
}

Capacity ServerFlows::to_network(std::uint32_t gpu, Relays relays) {
    return flow(out_, local_gpu(gpu), net_, relays);
}

Capacity ServerFlows::from_network(std::uint32_t gpu, Relays relays) {
    return flow(in_, net_, local_gpu(gpu), relays);
}

}  // namespace mgi::planner
