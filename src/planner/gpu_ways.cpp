#include "planner/gpu_ways.hpp"

#include <algorithm>

#include <mgi/error.hpp>

namespace mgi::planner {
namespace {

constexpr Capacity kWorthIt =
    4;  // ways of less than one in so many of the best's capacity are none
constexpr char const* kOwnLinks = "nvlink";

bool passes_host(GpuWay const& way) {
    return std::find(way.stops.begin(), way.stops.end(), kHostStop) != way.stops.end();
}

}  // namespace

// Vertices of the graph keep their numbers; behind them the host's memory, and ports.
GpuWays::GpuWays(Graph const& graph) : graph_(graph) {
    for (Vertex const& vertex : graph_.vertices) host_ = std::max(host_, vertex.id + 1);
    count_ = host_ + 1;
    for (Edge const& edge : graph_.edges) {
        bool const from_gpu = is(edge.from, VertexKind::Gpu);
        bool const to_gpu = is(edge.to, VertexKind::Gpu);
        if (edge.from == edge.to || (!from_gpu && !to_gpu)) continue;
        if (from_gpu && to_gpu && edge.kind == kOwnLinks) {
            arcs_.push_back({{edge.from, edge.to, capacity_of(edge.gbps)}, edge.from, edge.to});
        } else if (from_gpu && to_gpu) {
            std::uint32_t const out = port(out_, edge, true);
            std::uint32_t const in = port(in_, edge, false);
            arcs_.push_back({{out, in, capacity_of(edge.gbps)}, edge.from, edge.to});
        } else if (from_gpu && is(edge.to, VertexKind::Cpu)) {
            join(port(out_, edge, true), host_, edge.gbps);
        } else if (to_gpu && is(edge.from, VertexKind::Cpu)) {
            join(host_, port(in_, edge, false), edge.gbps);
        } else if (from_gpu) {
            for (Edge const& down : graph_.edges) {
                if (down.from == edge.to && down.to != edge.from && is(down.to, VertexKind::Gpu)) {
                    join_by_switch(edge, down);
                }
            }
        }
    }
}

bool GpuWays::is(std::uint32_t vertex, VertexKind kind) const {
    return std::any_of(graph_.vertices.begin(), graph_.vertices.end(),
                       [&](Vertex const& one) { return one.id == vertex && one.kind == kind; });
}

// As fast as the fastest of what goes by it.
std::uint32_t GpuWays::port(std::map<Port, std::uint32_t>& ports, Edge const& edge, bool out) {
    std::uint32_t const gpu = out ? edge.from : edge.to;
    auto const [at, is_new] = ports.try_emplace({gpu, edge.kind}, count_);
    if (is_new) ++count_;
    std::uint32_t const one = at->second;
    join(out ? gpu : one, out ? one : gpu, edge.gbps);
    return one;
}

void GpuWays::join(std::uint32_t from, std::uint32_t to, double gbps) {
    Capacity const capacity = capacity_of(gbps);
    auto const known = std::find_if(arcs_.begin(), arcs_.end(), [&](Straight const& one) {
        return one.arc.from == from && one.arc.to == to;
    });
    if (known == arcs_.end()) {
        arcs_.push_back({{from, to, capacity}, kHostStop, kHostStop});
    } else {
        known->arc.capacity = std::max(known->arc.capacity, capacity);
    }
}

void GpuWays::join_by_switch(Edge const& up, Edge const& down) {
    std::string const name = "switch " + std::to_string(up.to);
    std::uint32_t const out = port(out_, {up.from, up.to, up.gbps, name}, true);
    std::uint32_t const in = port(in_, {down.from, down.to, down.gbps, name}, false);
    arcs_.push_back({{out, in, capacity_of(std::min(up.gbps, down.gbps))}, up.from, down.to});
}

void GpuWays::refuse(std::uint32_t from, std::uint32_t to) {
    refused_.emplace(from, to);
}

std::vector<GpuWay> GpuWays::flow(std::uint32_t from, std::uint32_t to,
                                  PathRules const& rules) const {
    std::vector<Arc> arcs;
    for (Straight const& one : arcs_) {
        if (!refused_.contains({one.from, one.to})) arcs.push_back(one.arc);
    }
    FlowNetwork network(count_, std::move(arcs));
    std::vector<bool> closed(count_, false);
    closed[host_] = !rules.relay_host;
    for (Vertex const& vertex : graph_.vertices) {
        if (vertex.id == from || vertex.id == to) continue;
        closed[vertex.id] = vertex.kind != VertexKind::Gpu || !rules.relay_gpus;
    }
    network.close(std::move(closed));
    std::vector<GpuWay> ways;
    for (FlowPath const& path : network.paths(network.max_flow(from, to), from, to)) {
        GpuWay way{{}, path.capacity};
        for (std::uint32_t const vertex : path.vertices) {
            if (vertex <= host_) way.stops.push_back(vertex == host_ ? kHostStop : vertex);
        }
        auto const same = std::find_if(ways.begin(), ways.end(),
                                       [&](GpuWay const& one) { return one.stops == way.stops; });
        if (same == ways.end()) {
            ways.push_back(std::move(way));
        } else {
            same->capacity += way.capacity;
        }
    }
    return ways;
}

std::vector<GpuWay> GpuWays::find(std::uint32_t from, std::uint32_t to,
                                  PathRules const& rules) const {
    std::vector<GpuWay> ways = flow(from, to, rules);
    if (ways.empty()) ways = flow(from, to, {false, true, 0});
    if (ways.empty()) {
        throw Error(ErrorCode::InvalidArgument,
                    "no copy can go from " + name_of(from) + " to " + name_of(to) +
                        ", neither straight nor through the host's memory");
    }
    std::stable_sort(ways.begin(), ways.end(), [](GpuWay const& one, GpuWay const& other) {
        return one.stops.size() != other.stops.size() ? one.stops.size() < other.stops.size()
                                                      : passes_host(one) < passes_host(other);
    });
    if (!rules.relay_gpus && !rules.relay_host) ways.resize(1);
    std::size_t const most = std::max(kMostRelays + 2, ways.front().stops.size());
    std::erase_if(ways, [&](GpuWay const& way) { return way.stops.size() > most; });
    Capacity best = 0;  // of those that are short enough, so that one of them stays
    for (GpuWay const& way : ways) best = std::max(best, way.capacity);
    std::erase_if(ways, [&](GpuWay const& way) { return way.capacity * kWorthIt < best; });
    return ways;
}

std::string GpuWays::name_of(std::uint32_t stop) const {
    for (Vertex const& vertex : graph_.vertices) {
        if (vertex.id == stop) return vertex.name;
    }
    return stop == kHostStop ? "the host" : "vertex " + std::to_string(stop);
}

}  // namespace mgi::planner
