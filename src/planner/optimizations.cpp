#include "planner/optimizations.hpp"

#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <mgi/error.hpp>

namespace mgi::planner {
namespace {

constexpr std::size_t kMostKinds = 4096;

struct Seen {
    std::optional<std::pair<Place, Place>> apart;   ///< a source and destination that are not one
    std::optional<std::pair<Place, Place>> widest;  ///< the pair with the most paths
    std::vector<ClusterPath> widest_paths;
    std::optional<std::pair<Place, Place>> direct;
    std::optional<std::pair<Place, Place>> by_host;  ///< by the network, through host memory
};

void look_at(Seen& seen, Place from, Place to, std::vector<ClusterPath> paths,
             Cluster const& cluster) {
    if (!seen.apart) seen.apart = {from, to};
    for (ClusterPath const& path : paths) {
        bool network = false;
        for (Place const place : path.vertices) {
            network = network || cluster.shape(place.server)->is(place.vertex, VertexKind::Network);
        }
        if (path.nic_direct && !seen.direct) seen.direct = {from, to};
        if (network && !path.nic_direct && !seen.by_host) seen.by_host = {from, to};
    }
    if (paths.size() > seen.widest_paths.size()) {
        seen.widest = {from, to};
        seen.widest_paths = std::move(paths);
    }
}

std::string multi_path_text(Cluster const& cluster, Seen const& seen) {
    std::string text = cluster.name(seen.widest->first) + " reaches " +
                       cluster.name(seen.widest->second) + " by " +
                       std::to_string(seen.widest_paths.size()) + " paths: ";
    Capacity sum = 0;
    for (ClusterPath const& path : seen.widest_paths) sum += path.capacity;
    return text + gbps_text(sum) + " instead of " + gbps_text(seen.widest_paths.front().capacity) +
           " by the shortest";
}

}  // namespace

std::vector<Optimization> optimizations(ChannelPlanner& planner, Cluster const& cluster,
                                        std::span<Place const> sources,
                                        std::span<Place const> destinations, PathRules rules) {
    Seen seen;
    std::set<std::tuple<std::uint64_t, std::uint32_t, std::uint64_t, std::uint32_t, int>> kinds;
    for (Place const from : sources) {
        for (Place const to : destinations) {
            cluster.check_endpoint(from);
            cluster.check_endpoint(to);
            if (from == to || kinds.size() >= kMostKinds) continue;
            int const how = from.server == to.server                       ? 0
                            : cluster.share_domain(from.server, to.server) ? 1
                                                                           : 2;
            auto const kind = std::make_tuple(cluster.shape(from.server)->id(), from.vertex,
                                              cluster.shape(to.server)->id(), to.vertex, how);
            if (!kinds.insert(kind).second) continue;
            look_at(seen, from, to, planner.paths(from, to, rules), cluster);
        }
    }
    if (!seen.apart) {
        throw Error(ErrorCode::InvalidArgument,
                    "no source and destination on different devices: nothing is transferred");
    }
    if (!seen.widest) {
        throw Error(ErrorCode::InvalidArgument, "no way from " + cluster.name(seen.apart->first) +
                                                    " to " + cluster.name(seen.apart->second));
    }
    bool const many = seen.widest_paths.size() > 1;
    std::string direct;
    if (seen.direct) {
        direct = "from " + cluster.name(seen.direct->first) + " to " +
                 cluster.name(seen.direct->second) +
                 " NICs read and write GPU memory, with no copy through the host";
    } else if (seen.by_host) {
        direct = "between " + cluster.name(seen.by_host->first) + " and " +
                 cluster.name(seen.by_host->second) +
                 " every way to a NIC leads through host memory";
    } else {
        direct = "no path crosses the network";
    }
    return {
        {1, "pipelining", true, "segments travel while kernels still compute on others"},
        {2, "batching", true,
         "rows of one destination travel as one segment, as large as the links ask for"},
        {3, "multi-path", many,
         many ? multi_path_text(cluster, seen) : "no pair has more than one path"},
        {4, "nic-direct", seen.direct.has_value(), direct},
    };
}

}  // namespace mgi::planner
