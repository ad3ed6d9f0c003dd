#include "perf/plan_check.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "planner/table_codec.hpp"

namespace mgi::perf {

using namespace planner;

namespace {

std::vector<LocalVertex> between(std::vector<Place> const& path, std::size_t begin,
                                 std::size_t end) {
    std::vector<LocalVertex> vertices;
    for (std::size_t i = begin; i < end; ++i) vertices.push_back(LocalVertex(path[i].vertex));
    return vertices;
}

/// Adds the stages that hops of this kind lead to.
void follow(std::vector<NextHop> const& hops, std::uint32_t next,
            std::vector<LocalVertex> const& path, Capacity capacity,
            std::set<std::uint8_t>& stages) {
    for (NextHop const& hop : hops) {
        if (hop.next == next && hop.path == path && hop.capacity >= capacity) {
            stages.insert(hop.stage);
        }
    }
}

}  // namespace

Capacity PlanCheck::most(ServerId server, Scope scope, std::uint32_t from, std::uint32_t to) {
    Shape const& shape = *cluster_.shape(server);
    std::vector<Arc> arcs;
    for (Arc const& arc : shape.arcs()) {
        if (shape.carries(arc, scope)) arcs.push_back(arc);
    }
    return FlowNetwork(std::uint32_t(shape.vertices().size()), std::move(arcs))
        .max_flow_value(from, to);
}

Capacity PlanCheck::most_between(Place from, Place to) {
    if (from.server == to.server) {
        return most(from.server, Scope::Inside, from.vertex, to.vertex);
    }
    std::uint32_t const out = cluster_.shape(from.server)->network();
    std::uint32_t const in = cluster_.shape(to.server)->network();
    return std::min(most(from.server, Scope::Out, from.vertex, out),
                    most(to.server, Scope::In, in, to.vertex));
}

ServerTable const& PlanCheck::table(ServerId server) {
    auto const [at, is_new] = tables_.try_emplace(server);
    if (is_new) {
        auto const found =
            std::lower_bound(plan_.servers.begin(), plan_.servers.end(), server,
                             [](ServerPlan const& plan, ServerId id) { return plan.server < id; });
        at->second = decode_table(found->table->bytes);
    }
    return at->second;
}

bool PlanCheck::in_tables(Place to, ClusterPath const& path) {
    auto const& vertices = path.vertices;
    std::size_t from = 0;
    std::set<std::uint8_t> stages{0};
    bool arriving = false;
    for (std::size_t at = 1; at < vertices.size(); ++at) {
        Shape const& shape = *cluster_.shape(vertices[at].server);
        bool const gate = shape.is(vertices[at].vertex, VertexKind::Network);
        if (!gate && !shape.managed(vertices[at].vertex)) continue;
        ServerTable const& in = table(vertices[at].server);
        std::set<std::uint8_t> next;
        auto const hop_between = between(vertices, from + 1, at);
        if (arriving) {
            for (Arrival const& arrival : in.arrivals) {
                if (arrival.destination != to.vertex || arrival.gateway != Gateway::Network)
                    continue;
                // Paths of two servers are matched: each part may carry more than both together.
                follow(arrival.hops, vertices[at].vertex, hop_between, path.capacity, next);
            }
        } else {
            bool const leaves = vertices[from].server != to.server;
            for (VertexTable const& vertex : in.vertices) {
                if (vertex.vertex != vertices[from].vertex) continue;
                for (Forward const& forward : vertex.forwards) {
                    bool const there = leaves ? forward.target.kind == Target::Kind::Network
                                              : forward.target.kind == Target::Kind::Local &&
                                                    forward.target.vertex == to.vertex;
                    if (!there || !stages.contains(forward.stage)) continue;
                    follow(forward.hops, vertices[at].vertex, hop_between, path.capacity, next);
                }
            }
        }
        if (next.empty()) return false;
        arriving = gate;
        stages = std::move(next);
        from = at;
    }
    return true;
}

bool PlanCheck::right(Place from, Place to, std::vector<ClusterPath> const& paths) {
    std::map<std::pair<Place, Place>, Capacity> used;
    Capacity sum = 0;
    for (ClusterPath const& path : paths) {
        std::set<Place> const distinct(path.vertices.begin(), path.vertices.end());
        if (distinct.size() != path.vertices.size() || path.vertices.front() != from ||
            path.vertices.back() != to || path.capacity <= 0 || !in_tables(to, path)) {
            return false;
        }
        sum += path.capacity;
        for (std::size_t i = 0; i + 1 < path.vertices.size(); ++i) {
            used[{path.vertices[i], path.vertices[i + 1]}] += path.capacity;
        }
    }
    for (auto const& [link, carried] : used) {
        auto const& [tail, head] = link;
        Shape const& shape = *cluster_.shape(head.server);
        std::uint32_t const begin = tail.server == head.server ? tail.vertex : shape.network();
        auto const& arcs = shape.arcs();
        if (std::none_of(arcs.begin(), arcs.end(), [&, most = carried](Arc const& arc) {
                return arc.from == begin && arc.to == head.vertex && arc.capacity >= most;
            })) {
            return false;
        }
    }
    return sum > 0 && sum == most_between(from, to);
}

}  // namespace mgi::perf
