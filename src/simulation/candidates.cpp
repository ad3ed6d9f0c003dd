#include "simulation/candidates.hpp"

#include <algorithm>
#include <utility>

namespace mgi::simulation {
namespace {

using topology::kEveryServer;

std::uint64_t key(std::uint64_t high, std::uint32_t low) {
    return high << 32 | low;
}

}  // namespace

Candidates::Candidates(topology::Infrastructure const& infrastructure, planner::PathRules rules)
    : infrastructure_(infrastructure), rules_(rules) {
    for (Vertex const& vertex : infrastructure.graph.vertices) {
        if (vertex.kind == VertexKind::Network) network_ = vertex.id;
        if (vertex.kind == VertexKind::Switch && server(vertex.id) == kEveryServer) spanned_ = true;
    }
}

bool Candidates::may_link(std::uint32_t source, std::uint32_t destination) const {
    return spanned_ || server(source) == server(destination);
}

bool Candidates::carries(Edge const& edge, Scope scope) const {
    bool const from_nic = kind(edge.from) == VertexKind::Nic;
    bool const to_nic = kind(edge.to) == VertexKind::Nic;
    if ((from_nic || to_nic) && scope == Scope::Links) return false;
    if (from_nic && (scope == Scope::Out) != (edge.to == network_)) return false;
    return !to_nic || (scope == Scope::In) == (edge.from == network_);
}

Candidates::Part& Candidates::part(std::uint32_t of, Scope scope) {
    auto const [at, is_new] = parts_.try_emplace(key(of, std::uint32_t(scope)));
    Part& made = at->second;
    if (!is_new) return made;
    auto const& graph = infrastructure_.graph;
    for (Vertex const& vertex : graph.vertices) {
        std::uint32_t const where = server(vertex.id);
        if (of != kEveryServer && where != of && where != kEveryServer) continue;
        made.local.emplace(vertex.id, std::uint32_t(made.local.size()));
        bool const closed = vertex.kind == VertexKind::Gpu   ? !rules_.relay_gpus
                            : vertex.kind == VertexKind::Cpu ? !rules_.relay_host
                                                             : false;
        made.closed.push_back(closed);
    }
    std::vector<planner::Arc> arcs;
    for (std::uint32_t e = 0; e < graph.edges.size(); ++e) {
        Edge const& edge = graph.edges[e];
        auto const from = made.local.find(edge.from), to = made.local.find(edge.to);
        if (from == made.local.end() || to == made.local.end() || !carries(edge, scope)) continue;
        arcs.push_back({from->second, to->second, planner::capacity_of(edge.gbps)});
        made.edges.push_back(e);
    }
    made.network =
        std::make_unique<planner::FlowNetwork>(std::uint32_t(made.local.size()), std::move(arcs));
    return made;
}

std::vector<Route> Candidates::find(Part& part, std::uint32_t source, std::uint32_t sink) {
    std::vector<bool> closed = part.closed;
    std::uint32_t const from = part.local.at(source), to = part.local.at(sink);
    closed[from] = closed[to] = false;
    part.network->close(std::move(closed));
    auto const& arcs = part.network->arcs();
    std::vector<Route> routes;
    for (auto const& path : part.network->paths(part.network->max_flow(from, to), from, to)) {
        Route& route = routes.emplace_back();
        for (std::size_t i = 0; i + 1 < path.vertices.size(); ++i) {
            auto const arc = std::find_if(arcs.begin(), arcs.end(), [&](planner::Arc const& a) {
                return a.from == path.vertices[i] && a.to == path.vertices[i + 1];
            });
            route.push_back(part.edges[std::size_t(arc - arcs.begin())]);
        }
    }
    return routes;
}

/// Once more without the NICs that the limit leaves out, if there are such: the first that the paths
/// met, which are the nearest, stay.
std::vector<Route> Candidates::find_limited(Part& part, std::uint32_t source, std::uint32_t sink) {
    std::vector<Route> routes = find(part, source, sink);
    if (rules_.max_nics == 0) return routes;
    std::vector<std::uint32_t> met;
    for (Route const& route : routes) {
        for (std::uint32_t const edge : route) {
            std::uint32_t const to = infrastructure_.graph.edges[edge].to;
            bool const is_new = std::find(met.begin(), met.end(), to) == met.end();
            if (kind(to) == VertexKind::Nic && is_new) met.push_back(to);
        }
    }
    if (met.size() <= rules_.max_nics) return routes;
    met.resize(rules_.max_nics);
    std::vector<bool> const before = part.closed;
    for (auto const& [vertex, local] : part.local) {
        if (kind(vertex) != VertexKind::Nic) continue;
        part.closed[local] = std::find(met.begin(), met.end(), vertex) == met.end();
    }
    routes = find(part, source, sink);
    part.closed = before;
    return routes;
}

std::vector<Route> const& Candidates::by_links(std::uint32_t source, std::uint32_t destination) {
    auto const [at, is_new] = known_.try_emplace(key(source, destination));
    if (is_new && may_link(source, destination)) {
        std::uint32_t const one =
            server(source) == server(destination) ? server(source) : kEveryServer;
        at->second = find(part(one, Scope::Links), source, destination);
    }
    return at->second;
}

std::vector<Route> const& Candidates::out(std::uint32_t gpu) {
    auto const [at, is_new] = known_.try_emplace(key(gpu, network_));
    if (is_new && network_ != topology::kNoVertex) {
        at->second = find_limited(part(server(gpu), Scope::Out), gpu, network_);
    }
    return at->second;
}

std::vector<Route> const& Candidates::in(std::uint32_t gpu) {
    auto const [at, is_new] = known_.try_emplace(key(network_, gpu));
    if (is_new && network_ != topology::kNoVertex) {
        at->second = find_limited(part(server(gpu), Scope::In), network_, gpu);
    }
    return at->second;
}

}  // namespace mgi::simulation
