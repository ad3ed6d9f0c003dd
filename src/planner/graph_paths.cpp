#include "planner/graph_paths.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <mgi/error.hpp>

#include "planner/channel_planner.hpp"

namespace mgi::planner {
namespace {

std::vector<std::uint32_t> distinct(std::vector<std::uint32_t> vertices) {
    std::sort(vertices.begin(), vertices.end());
    vertices.erase(std::unique(vertices.begin(), vertices.end()), vertices.end());
    return vertices;
}

Edge const* memory_edge(Graph const& graph, std::uint32_t from, std::uint32_t to) {
    for (Edge const& edge : graph.edges) {
        if (edge.from == from && edge.to == to && edge.kind == kMemoryEdge) return &edge;
    }
    return nullptr;
}

/// Tables by vertex; hops of one destination, next vertex and path are one.
class Tables {
public:
    void add(std::uint32_t vertex, Hop hop) {
        for (Hop& known : tables_[vertex]) {
            if (known.destination == hop.destination && known.next == hop.next &&
                known.path == hop.path) {
                known.gbps = std::max(known.gbps, hop.gbps);
                return;
            }
        }
        tables_[vertex].push_back(std::move(hop));
    }
    void add(ClusterPath const& path, Cluster const& cluster) {
        std::uint32_t const destination = path.vertices.back().vertex;
        std::uint32_t from = path.vertices.front().vertex;
        std::vector<std::uint32_t> between;
        for (std::size_t i = 1; i < path.vertices.size(); ++i) {
            std::uint32_t const vertex = path.vertices[i].vertex;
            if (!cluster.is_endpoint(path.vertices[i])) {
                between.push_back(vertex);
                continue;
            }
            add(from, {destination, vertex, std::exchange(between, {}), gbps_of(path.capacity)});
            from = vertex;
        }
    }
    std::vector<ForwardingTable> take() {
        std::vector<ForwardingTable> made;
        for (auto& [vertex, hops] : tables_) {
            std::stable_sort(hops.begin(), hops.end(), [](Hop const& a, Hop const& b) {
                return a.destination < b.destination;
            });
            made.push_back({vertex, std::move(hops)});
        }
        return made;
    }

private:
    std::map<std::uint32_t, std::vector<Hop>> tables_;
};

}  // namespace

std::vector<ForwardingTable> GraphPaths::find(
    Graph const& graph, std::vector<std::uint32_t> const& sources,
    std::vector<std::uint32_t> const& destinations) const {
    topology::Infrastructure server;
    server.graph = graph;
    server.sites.resize(graph.vertices.size());
    Cluster cluster;
    ServerId const here = cluster.add_server(server, "this server");
    ChannelPlanner planner(cluster);
    Tables tables;
    for (std::uint32_t const from : distinct(sources)) {
        for (std::uint32_t const to : distinct(destinations)) {
            cluster.check_endpoint({here, from});
            cluster.check_endpoint({here, to});
            Edge const* const memory = memory_edge(graph, from, to);
            if (memory != nullptr || from == to) {
                tables.add(from, {to, to, {}, memory == nullptr ? kMostGbps : memory->gbps});
                continue;
            }
            auto const paths = planner.paths({here, from}, {here, to}, rules_);
            if (paths.empty()) {
                throw Error(ErrorCode::InvalidArgument,
                            "no path from " + cluster.vertex_name({here, from}) + " to " +
                                cluster.vertex_name({here, to}));
            }
            for (ClusterPath const& path : paths) tables.add(path, cluster);
        }
    }
    return tables.take();
}

}  // namespace mgi::planner
