#include "planner/paths.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <mgi/error.hpp>

namespace mgi::planner {
namespace {

std::vector<std::uint32_t> distinct(std::vector<std::uint32_t> vertices) {
    std::sort(vertices.begin(), vertices.end());
    vertices.erase(std::unique(vertices.begin(), vertices.end()), vertices.end());
    return vertices;
}

Vertex const* vertex_of(Graph const& graph, std::uint32_t id) {
    for (Vertex const& vertex : graph.vertices) {
        if (vertex.id == id) return &vertex;
    }
    return nullptr;
}

std::string name_of(Graph const& graph, std::uint32_t id) {
    Vertex const* const vertex = vertex_of(graph, id);
    return vertex != nullptr ? vertex->name : "vertex " + std::to_string(id);
}

void check_vertices(Graph const& graph, std::vector<std::uint32_t> const& ids) {
    for (std::uint32_t const id : ids) {
        Vertex const* const vertex = vertex_of(graph, id);
        if (vertex == nullptr) {
            throw Error(ErrorCode::InvalidArgument,
                        "the infrastructure graph has no vertex " + std::to_string(id));
        }
        if (!vertex->managed) {
            throw Error(ErrorCode::InvalidArgument,
                        "no endpoint can be at " + vertex->name + ", which MGI does not manage");
        }
    }
}

/// The fastest memory edge from one vertex to another; null if there is none.
Edge const* memory_edge(Graph const& graph, std::uint32_t from, std::uint32_t to) {
    Edge const* best = nullptr;
    for (Edge const& edge : graph.edges) {
        if (edge.from != from || edge.to != to || edge.kind != kMemoryEdge) continue;
        if (best == nullptr || edge.gbps > best->gbps) best = &edge;
    }
    return best;
}

/// The way from one vertex to another whose narrowest edge is widest: what a copy engine takes between GPUs,
/// and between them and the host.
Hop widest_way(Graph const& graph, std::uint32_t from, std::uint32_t to) {
    std::map<std::uint32_t, double> width{{from, std::numeric_limits<double>::infinity()}};
    std::map<std::uint32_t, std::uint32_t> before;
    std::set<std::uint32_t> done;
    for (;;) {
        auto widest = width.end();
        for (auto at = width.begin(); at != width.end(); ++at) {
            if (done.contains(at->first)) continue;
            if (widest == width.end() || at->second > widest->second) widest = at;
        }
        if (widest == width.end() || from == to) {
            throw Error(ErrorCode::InvalidArgument,
                        "no path from " + name_of(graph, from) + " to " + name_of(graph, to));
        }
        std::uint32_t const here = widest->first;
        if (here == to) break;
        done.insert(here);
        for (Edge const& edge : graph.edges) {
            if (edge.from != here || done.contains(edge.to)) continue;
            double const through = std::min(widest->second, edge.gbps);
            auto const [known, is_new] = width.try_emplace(edge.to, through);
            if (!is_new && known->second >= through) continue;
            known->second = through;
            before[edge.to] = here;
        }
    }
    Hop hop{to, to, {}, width[to]};
    for (std::uint32_t at = before[to]; at != from; at = before[at]) {
        hop.path.insert(hop.path.begin(), at);
    }
    return hop;
}

}  // namespace

std::vector<ForwardingTable> MemoryPaths::find(
    Graph const& graph, std::vector<std::uint32_t> const& sources,
    std::vector<std::uint32_t> const& destinations) const {
    auto const from_vertices = distinct(sources);
    auto const to_vertices = distinct(destinations);
    check_vertices(graph, from_vertices);
    check_vertices(graph, to_vertices);
    std::vector<ForwardingTable> tables;
    for (std::uint32_t const from : from_vertices) {
        ForwardingTable table;
        table.vertex = from;
        for (std::uint32_t const to : to_vertices) {
            Edge const* const edge = memory_edge(graph, from, to);
            table.hops.push_back(edge != nullptr ? Hop{to, to, {}, edge->gbps}
                                                 : widest_way(graph, from, to));
        }
        tables.push_back(std::move(table));
    }
    return tables;
}

bool share_memory(Graph const& graph, std::vector<std::uint32_t> const& sources,
                  std::vector<std::uint32_t> const& destinations) {
    auto const to_vertices = distinct(destinations);
    for (std::uint32_t const from : distinct(sources)) {
        for (std::uint32_t const to : to_vertices) {
            if (memory_edge(graph, from, to) == nullptr) return false;
        }
    }
    return true;
}

}  // namespace mgi::planner
