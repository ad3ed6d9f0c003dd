#include "topology/infrastructure.hpp"

#include <utility>

#include <mgi/error.hpp>

namespace mgi::topology {
namespace {

std::uint64_t key_of(std::uint32_t from, std::uint32_t to) {
    return std::uint64_t(from) << 32 | to;
}

std::string on_server(std::string const& name, std::uint32_t server) {
    if (server == 0 || server == kEveryServer) return name;
    return "h" + std::to_string(server) + "/" + name;
}

/// Whether "nvlink+pcie" names "pcie".
bool names_kind(std::string const& kinds, std::string const& kind) {
    return ("+" + kinds + "+").find("+" + kind + "+") != std::string::npos;
}

}  // namespace

std::uint32_t GraphBuilder::add(VertexKind kind, std::string const& name, std::uint32_t server,
                                std::string note) {
    if (made_.sites.size() >= kMostVertices) {
        throw Error(ErrorCode::InvalidArgument, "a topology of more than " +
                                                    std::to_string(kMostVertices) +
                                                    " vertices; split it by server");
    }
    auto const id = std::uint32_t(made_.sites.size());
    std::string full = on_server(name, server);
    if (std::uint32_t const times = ++times_used_[full]; times > 1) {
        full += "#" + std::to_string(times);
    }
    bool const managed = kind == VertexKind::Cpu || kind == VertexKind::Gpu;
    made_.graph.vertices.push_back({id, std::move(full), kind, managed});
    made_.sites.push_back({server, kNoVertex, std::move(note)});
    return id;
}

void GraphBuilder::connect(std::uint32_t from, std::uint32_t to, double gbps,
                           std::string const& kind) {
    auto& edges = made_.graph.edges;
    auto const [at, is_new] = edge_of_.try_emplace(key_of(from, to), edges.size());
    if (!is_new) {
        Edge& edge = edges[at->second];
        edge.gbps += gbps;
        if (!names_kind(edge.kind, kind)) edge.kind += "+" + kind;
        return;
    }
    if (edges.size() >= kMostEdges) {
        throw Error(
            ErrorCode::InvalidArgument,
            "a topology of more than " + std::to_string(kMostEdges) + " edges; split it by server");
    }
    edges.push_back({from, to, gbps, kind});
}

void GraphBuilder::connect_both(std::uint32_t a, std::uint32_t b, double gbps,
                                std::string const& kind) {
    connect(a, b, gbps, kind);
    connect(b, a, gbps, kind);
}

void GraphBuilder::hang(std::uint32_t child, std::uint32_t parent, double gbps,
                        std::string const& kind) {
    connect_both(child, parent, gbps, kind);
    if (made_.sites[child].parent == kNoVertex) made_.sites[child].parent = parent;
}

void GraphBuilder::mesh_cpus(std::vector<std::pair<std::uint32_t, double>> const& cpus) {
    for (auto const& [from, gbps] : cpus) {
        for (auto const& other : cpus) {
            if (other.first != from) connect(from, other.first, gbps, "cpu");
        }
    }
}

std::uint32_t GraphBuilder::shared(VertexKind kind, std::string const& name) {
    auto const at = shared_.find(name);
    if (at != shared_.end()) return at->second;
    return shared_[name] = add(kind, name, kEveryServer);
}

std::uint32_t GraphBuilder::network() {
    return shared(VertexKind::Network, "network");
}

std::uint32_t GraphBuilder::nvswitch(std::uint32_t server) {
    if (server == kEveryServer) return shared(VertexKind::Switch, "nvlink domain");
    auto const at = nvswitches_.find(server);
    if (at != nvswitches_.end()) return at->second;
    return nvswitches_[server] = add(VertexKind::Switch, "nvswitch", server);
}

void GraphBuilder::connect_network(std::uint32_t nic, double mbps) {
    connect_both(nic, network(), mbps / 8000, "network");
}

Infrastructure GraphBuilder::finish(std::uint32_t servers) && {
    made_.servers = servers;
    return std::move(made_);
}

}  // namespace mgi::topology
