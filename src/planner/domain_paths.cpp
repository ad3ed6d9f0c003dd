#include "planner/domain_paths.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "planner/shape_paths.hpp"

namespace mgi::planner {
namespace {

/// NICs of one server that come after the first `most` on the paths.
std::vector<std::uint32_t> surplus_nics(std::vector<FlowPath> const& paths, Shape const& shape,
                                        std::uint32_t offset, std::uint32_t most) {
    std::vector<std::uint32_t> met;
    for (FlowPath const& path : paths) {
        for (std::uint32_t const v : path.vertices) {
            bool const here = v >= offset && v - offset < shape.vertices().size();
            if (!here || !shape.is(v - offset, VertexKind::Nic)) continue;
            if (std::find(met.begin(), met.end(), v) == met.end()) met.push_back(v);
        }
    }
    met.erase(met.begin(), met.begin() + std::min<std::ptrdiff_t>(most, std::ssize(met)));
    return met;
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
    std::uint32_t const sink = first + destination;
    auto const solve = [&] {
        network.close(closed);
        return network.paths(network.max_flow(source, sink), source, sink);
    };
    std::vector<FlowPath> paths = solve();
    if (rules.max_nics != 0) {
        // Those that carry nothing now are closed, too: the nearest were met first.
        std::vector<bool> used(closed.size(), false);
        for (FlowPath const& path : paths) {
            for (std::uint32_t const v : path.vertices) used[v] = true;
        }
        for (std::uint32_t const v : surplus_nics(paths, from, 0, rules.max_nics)) used[v] = false;
        for (std::uint32_t const v : surplus_nics(paths, to, first, rules.max_nics)) {
            used[v] = false;
        }
        for (std::uint32_t v = 0; v < first; ++v) {
            closed[v] = closed[v] || (from.is(v, VertexKind::Nic) && !used[v]);
        }
        for (std::uint32_t v = 0; v < second; ++v) {
            closed[first + v] =
                closed[first + v] || (to.is(v, VertexKind::Nic) && !used[first + v]);
        }
        paths = solve();
    }
    return {std::move(paths), first};
}

}  // namespace mgi::planner
