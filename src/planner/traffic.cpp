#include "planner/traffic.hpp"

#include <cmath>
#include <map>
#include <string>
#include <utility>

#include <mgi/error.hpp>

namespace mgi::planner {
namespace {

/// Numbers links as they are met.
class LinkNumbers {
public:
    LinkNumbers(Cluster const& cluster, Traffic& traffic) : cluster_(cluster), traffic_(traffic) {}

    std::vector<std::uint32_t> of(std::vector<Place> const& path) {
        std::vector<std::uint32_t> links;
        for (std::size_t i = 0; i + 1 < path.size(); ++i) links.push_back(of(path[i], path[i + 1]));
        return links;
    }

private:
    std::uint32_t of(Place from, Place to) {
        // On the way into a server its gateway is the place of the server that sent.
        if (from.server != to.server) from = {to.server, gateway_like(from, to.server)};
        auto const [at, is_new] =
            numbers_.try_emplace({from, to}, std::uint32_t(traffic_.links.size()));
        if (is_new) {
            Capacity const capacity = capacity_of(from, to);
            traffic_.links.push_back({from, to, capacity});
            traffic_.capacities.push_back(gbps_of(capacity));
        }
        return at->second;
    }
    [[nodiscard]] std::uint32_t gateway_like(Place gateway, ServerId server) const {
        bool const network =
            cluster_.shape(gateway.server)->is(gateway.vertex, VertexKind::Network);
        return cluster_.shape(server)->gateway(network ? Gateway::Network : Gateway::Domain);
    }
    [[nodiscard]] Capacity capacity_of(Place from, Place to) const {
        for (Arc const& arc : cluster_.shape(to.server)->arcs()) {
            if (arc.from == from.vertex && arc.to == to.vertex) return arc.capacity;
        }
        return 0;
    }

    Cluster const& cluster_;
    Traffic& traffic_;
    std::map<std::pair<Place, Place>, std::uint32_t> numbers_;
};

}  // namespace

Traffic traffic_over(ChannelPlanner& planner, Cluster const& cluster,
                     std::span<Place const> sources, std::span<Place const> destinations,
                     std::span<double const> bytes, PathRules rules) {
    if (bytes.size() != sources.size() * destinations.size()) {
        throw Error(ErrorCode::InvalidArgument,
                    "a traffic matrix of " + std::to_string(bytes.size()) + " numbers; " +
                        std::to_string(sources.size()) + " sources and " +
                        std::to_string(destinations.size()) + " destinations need " +
                        std::to_string(sources.size() * destinations.size()));
    }
    Traffic traffic;
    LinkNumbers numbers(cluster, traffic);
    for (std::size_t i = 0; i < sources.size(); ++i) {
        for (std::size_t j = 0; j < destinations.size(); ++j) {
            double const demand = bytes[i * destinations.size() + j];
            if (!(demand >= 0 && std::isfinite(demand))) {
                throw Error(ErrorCode::InvalidArgument,
                            "row " + std::to_string(i) + ", column " + std::to_string(j) +
                                " of the traffic matrix is " + std::to_string(demand) +
                                "; expected 0 or more bytes");
            }
            TrafficPair pair{sources[i], destinations[j], demand, {}};
            pair.paths = planner.paths(pair.from, pair.to, rules);
            if (demand == 0 || pair.from == pair.to) continue;
            if (pair.paths.empty()) {
                throw Error(ErrorCode::InvalidArgument, "no way from " + cluster.name(pair.from) +
                                                            " to " + cluster.name(pair.to));
            }
            Commodity commodity;
            commodity.demand = demand / 1e9;
            for (ClusterPath const& path : pair.paths) {
                commodity.paths.push_back(numbers.of(path.vertices));
            }
            traffic.commodities.push_back(std::move(commodity));
            traffic.pairs.push_back(std::move(pair));
        }
    }
    return traffic;
}

}  // namespace mgi::planner
