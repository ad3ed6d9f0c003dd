#include "topology/infrastructure.hpp"

#include <utility>

#include <mgi/error.hpp>

namespace mgi::topology {
namespace {

std::uint64_t key_of(std::uint32_t from, std::uint32_t to) {
    return std::uint64_t(from) << 32 | to;
}

/// Whether "nvlink+pcie" names "pcie".
bool names_kind(std::string const& kinds, std::string const& kind) {
    return ("+" + kinds + "+").find("+" + kind + "+") != std::string::npos;
}

}  // namespace

GraphBuilder::GraphBuilder(Infrastructure made) : made_(std::move(made)) {
    for (Vertex const& vertex : made_.graph.vertices) vertex_of_[vertex.name] = vertex.id;
    for (std::size_t i = 0; i < made_.graph.edges.size(); ++i) {
        Edge const& edge = made_.graph.edges[i];
        edge_of_[key_of(edge.from, edge.to)] = i;
    }
}

std::string GraphBuilder::name_on(std::string const& name, std::uint32_t server) {
    if (server == 0 || server == kEveryServer) return name;
    return "h" + std::to_string(server) + "/" + name;
}

std::uint32_t GraphBuilder::add(VertexKind kind, std::string const& name, std::uint32_t server,
                                std::string note) {
    if (made_.sites.size() >= kMostVertices) {
        throw Error(ErrorCode::InvalidArgument, "a topology of more than " +
                                                    std::to_string(kMostVertices) +
                                                    " vertices; split it by server");
    }
    auto const id = std::uint32_t(made_.sites.size());
    std::string const full = name_on(name, server);
    std::string unique = full;
    while (!vertex_of_.try_emplace(unique, id).second) {
        unique = full + "#" + std::to_string(1 + ++times_used_[full]);
    }
    bool const managed = kind == VertexKind::Cpu || kind == VertexKind::Gpu;
    made_.graph.vertices.push_back({id, std::move(unique), kind, managed});
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

void GraphBuilder::set_gbps(std::uint32_t from, std::uint32_t to, double gbps,
                            std::string const& kind) {
    auto const at = edge_of_.find(key_of(from, to));
    if (at == edge_of_.end()) {
        connect(from, to, gbps, kind);
    } else {
        made_.graph.edges[at->second].gbps = gbps;
    }
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

std::optional<std::uint32_t> GraphBuilder::find(std::string const& name) const {
    auto const at = vertex_of_.find(name);
    if (at == vertex_of_.end()) return std::nullopt;
    return at->second;
}

double GraphBuilder::gbps(std::uint32_t from, std::uint32_t to) const {
    auto const at = edge_of_.find(key_of(from, to));
    return at == edge_of_.end() ? 0 : made_.graph.edges[at->second].gbps;
}

std::uint32_t GraphBuilder::find_or_add(VertexKind kind, std::string const& name,
                                        std::uint32_t server) {
    auto const found = find(name_on(name, server));
    return found ? *found : add(kind, name, server);
}

std::uint32_t GraphBuilder::shared(VertexKind kind, std::string const& name) {
    return find_or_add(kind, name, kEveryServer);
}

std::uint32_t GraphBuilder::network() {
    return shared(VertexKind::Network, "network");
}

std::uint32_t GraphBuilder::nvswitch(std::uint32_t server) {
    return find_or_add(VertexKind::Switch, server == kEveryServer ? "nvlink domain" : "nvswitch",
                       server);
}

void GraphBuilder::connect_network(std::uint32_t nic, double mbps) {
    connect_both(nic, network(), mbps / 8000, "network");
}

Infrastructure GraphBuilder::finish(std::uint32_t servers) && {
    made_.servers = servers;
    return std::move(made_);
}

Infrastructure without(Infrastructure const& made, std::vector<bool> const& removed) {
    Infrastructure left;
    left.servers = made.servers;
    left.warnings = made.warnings;
    std::vector<std::uint32_t> new_id(made.sites.size(), kNoVertex);
    for (Vertex const& vertex : made.graph.vertices) {
        if (removed[vertex.id]) continue;
        new_id[vertex.id] = std::uint32_t(left.sites.size());
        left.graph.vertices.push_back(vertex);
        left.graph.vertices.back().id = new_id[vertex.id];
        left.sites.push_back(made.sites[vertex.id]);
    }
    for (Site& site : left.sites) {
        if (site.parent != kNoVertex) site.parent = new_id[site.parent];
    }
    for (Edge const& edge : made.graph.edges) {
        if (removed[edge.from] || removed[edge.to] || edge.gbps <= 0) continue;
        left.graph.edges.push_back({new_id[edge.from], new_id[edge.to], edge.gbps, edge.kind});
    }
    return left;
}

}  // namespace mgi::topology
