#include "simulation/candidates.hpp"

namespace mgi::simulation {
namespace {

std::uint64_t key(std::uint32_t from, std::uint32_t to) {
    return std::uint64_t(from) << 32 | to;
}

}  // namespace

Candidates::Candidates(topology::Infrastructure const& infrastructure, planner::PathRules rules)
    : rules_(rules), split_(planner::split(infrastructure)), planner_(split_.cluster) {
    Graph const& graph = infrastructure.graph;
    for (std::uint32_t e = 0; e < graph.edges.size(); ++e) {
        edges_.emplace(key(graph.edges[e].from, graph.edges[e].to), e);
    }
}

bool Candidates::are_linked(std::uint32_t source, std::uint32_t destination) const {
    planner::ServerId const a = split_.places[source].server;
    planner::ServerId const b = split_.places[destination].server;
    return a == b || split_.cluster.share_domain(a, b);
}

template <class Places>
Route Candidates::route(Places const& places) const {
    Route made;
    for (std::size_t i = 0; i + 1 < places.size(); ++i) {
        std::uint32_t const from = split_.whole_of(places[i]);
        std::uint32_t const to = split_.whole_of(places[i + 1]);
        // Where a path changes servers, at the network or at a domain, both have the vertex.
        if (from != to) made.push_back(edges_.at(key(from, to)));
    }
    return made;
}

std::vector<Route> Candidates::between(std::uint32_t source, std::uint32_t destination) {
    std::vector<Route> routes;
    auto const paths = planner_.paths(split_.places[source], split_.places[destination], rules_);
    for (planner::ClusterPath const& path : paths) routes.push_back(route(path.vertices));
    return routes;
}

std::vector<Route> Candidates::by_network(std::uint32_t gpu, bool out) {
    auto const [server, local] = split_.places[gpu];
    auto const& shape = split_.cluster.shape(server);
    std::uint32_t const network = shape->network();
    if (network == planner::kNowhere) return {};
    auto& paths = shapes_[shape->id()];
    if (paths == nullptr) paths = std::make_unique<planner::ShapePaths>(shape, rules_);
    planner::PathRange const range =
        paths->find(flow_, out ? local : network, out ? network : local);
    std::vector<Route> routes;
    for (std::uint32_t p = range.begin; p < range.end; ++p) {
        std::vector<planner::Place> places;
        for (std::uint32_t const v : paths->list()[p].vertices) places.push_back({server, v});
        routes.push_back(route(places));
    }
    return routes;
}

}  // namespace mgi::simulation
