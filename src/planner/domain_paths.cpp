#include "planner/domain_paths.hpp"

#include <vector>

namespace mgi::planner {
namespace {

bool is_closed(Shape const& shape, std::uint32_t vertex, PathRules const& rules) {
    bool const managed = shape.managed(vertex);
    if (shape.is(vertex, VertexKind::Gpu)) return !managed || !rules.relay_gpus;
    if (shape.is(vertex, VertexKind::Cpu)) return managed && !rules.relay_host;
    return false;
}

}  // namespace

TwoServerPaths find_domain_paths(Shape const& from, std::uint32_t source, Shape const& to,
                                 std::uint32_t destination, PathRules rules) {
    auto const first = std::uint32_t(from.vertices().size());
    auto const second = std::uint32_t(to.vertices().size());
    auto const joined = [&](std::uint32_t v) {
        if (v == to.domain()) return from.domain();
        if (v == to.network() && from.network() != kNowhere) return from.network();
        return first + v;
    };
    std::vector<bool> closed(first + second, false);
    for (std::uint32_t v = 0; v < first; ++v) closed[v] = is_closed(from, v, rules);
    for (std::uint32_t v = 0; v < second; ++v) {
        if (joined(v) >= first) closed[first + v] = is_closed(to, v, rules);
    }
    closed[source] = false;
    closed[first + destination] = false;
    std::vector<Arc> arcs;
    for (Arc const& arc : from.arcs()) {
        if (from.carries(arc, Scope::Out)) arcs.push_back(arc);
    }
    for (Arc const& arc : to.arcs()) {
        if (to.carries(arc, Scope::In)) {
            arcs.push_back({joined(arc.from), joined(arc.to), arc.capacity});
        }
    }
    FlowNetwork network(first + second, std::move(arcs));
    network.close(std::move(closed));
    std::uint32_t const sink = first + destination;
    TwoServerPaths found;
    found.vertices_of_first = first;
    for (FlowPath const& path : network.paths(network.max_flow(source, sink), source, sink)) {
        for (std::uint32_t const v : path.vertices) found.list.push(v);
        found.list.add(path.capacity);
    }
    return found;
}

}  // namespace mgi::planner
