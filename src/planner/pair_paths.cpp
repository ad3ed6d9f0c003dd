// The paths of one pair: ChannelPlanner::paths.
#include <algorithm>

#include "planner/channel_planner.hpp"
#include "planner/domain_paths.hpp"

namespace mgi::planner {
namespace {

/// Whether both NICs read and write GPU memory themselves, and the managed vertices next to them on
/// the path are GPUs: nothing waits in host memory between the two.
bool is_nic_direct(Cluster const& cluster, std::vector<Place> const& path) {
    auto const kind = [&](std::size_t at) {
        return cluster.shape(path[at].server)->vertices()[path[at].vertex].kind;
    };
    auto const direct = [&](std::size_t at) {
        return cluster.shape(path[at].server)->nic_direct(path[at].vertex);
    };
    bool any = false;
    for (std::size_t i = 0; i < path.size(); ++i) {
        if (kind(i) != VertexKind::Network) continue;
        any = true;
        if (!direct(i - 1) || !direct(i + 1)) return false;
        std::size_t before = i;
        std::size_t behind = i;
        auto const managed = [&](std::size_t at) {
            return cluster.shape(path[at].server)->managed(path[at].vertex);
        };
        while (before > 0 && !managed(before)) --before;
        while (behind + 1 < path.size() && !managed(behind)) ++behind;
        if (kind(before) != VertexKind::Gpu || kind(behind) != VertexKind::Gpu) return false;
    }
    return any;
}

}  // namespace

std::vector<ClusterPath> ChannelPlanner::paths(Place from, Place to, PathRules rules) {
    cluster_.check_endpoint(from);
    cluster_.check_endpoint(to);
    if (from == to) return {};
    std::vector<ClusterPath> found;
    if (from.server == to.server) {
        found = inside(from, to, rules);
    } else if (cluster_.share_domain(from.server, to.server)) {
        auto const two = find_domain_paths(*cluster_.shape(from.server), from.vertex,
                                           *cluster_.shape(to.server), to.vertex, rules);
        for (FlowPath const& joined : two.paths) {
            ClusterPath path;
            path.capacity = joined.capacity;
            for (std::uint32_t const v : joined.vertices) {
                bool const near = v < two.vertices_of_first;
                path.vertices.push_back(near ? Place{from.server, v}
                                             : Place{to.server, v - two.vertices_of_first});
            }
            found.push_back(std::move(path));
        }
    } else {
        found = by_network(from, to, rules);
    }
    for (ClusterPath& path : found) path.nic_direct = is_nic_direct(cluster_, path.vertices);
    return found;
}

std::vector<ClusterPath> ChannelPlanner::inside(Place from, Place to, PathRules rules) {
    auto const shape = shape_paths(from.server, rules);
    PathRange const range = shape->find(flow_, from.vertex, to.vertex);
    std::vector<ClusterPath> found;
    for (std::uint32_t p = range.begin; p < range.end; ++p) {
        ClusterPath path;
        path.capacity = shape->list()[p].capacity;
        for (std::uint32_t const v : shape->list()[p].vertices) {
            path.vertices.push_back({from.server, v});
        }
        found.push_back(std::move(path));
    }
    settle(from.server, *shape, rules);
    return found;
}

std::vector<ClusterPath> ChannelPlanner::by_network(Place from, Place to, PathRules rules) {
    auto const near = shape_paths(from.server, rules);
    auto const far = shape_paths(to.server, rules);
    std::vector<ClusterPath> found;
    std::uint32_t const out_gate = near->shape().network();
    std::uint32_t const in_gate = far->shape().network();
    if (out_gate == kNowhere || in_gate == kNowhere) return found;
    PathRange const out = near->find(flow_, from.vertex, out_gate);
    PathRange const in = far->find(flow_, in_gate, to.vertex);
    // The shortest with the shortest: each pair of paths takes what is left of the narrower one.
    Capacity left_out = 0;
    Capacity left_in = 0;
    std::uint32_t o = out.begin;
    std::uint32_t i = in.begin;
    while (o < out.end && i < in.end) {
        PathList::Path const leave = near->list()[o];
        PathList::Path const enter = far->list()[i];
        if (left_out == 0) left_out = leave.capacity;
        if (left_in == 0) left_in = enter.capacity;
        ClusterPath path;
        path.capacity = std::min(left_out, left_in);
        for (std::uint32_t const v : leave.vertices) path.vertices.push_back({from.server, v});
        for (std::uint32_t const v : enter.vertices.subspan(1)) {
            path.vertices.push_back({to.server, v});
        }
        found.push_back(std::move(path));
        left_out -= found.back().capacity;
        left_in -= found.back().capacity;
        if (left_out == 0) ++o;
        if (left_in == 0) ++i;
    }
    settle(from.server, *near, rules);
    settle(to.server, *far, rules);
    return found;
}

}  // namespace mgi::planner
