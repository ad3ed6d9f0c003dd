/// \file
/// A traffic matrix over a cluster, as commodities over the links of candidate paths.
#pragma once

#include <span>
#include <vector>

#include "planner/channel_planner.hpp"
#include "planner/congestion.hpp"

namespace mgi::planner {

/// A link between places; the network's belong to the server whose NIC it is.
struct TrafficLink {
    Place from;
    Place to;
    Capacity capacity = 0;
    auto operator<=>(TrafficLink const&) const = default;
};

struct TrafficPair {
    Place from;
    Place to;
    double demand = 0;  ///< bytes
    std::vector<ClusterPath> paths;
};

struct Traffic {
    std::vector<TrafficPair> pairs;  ///< with a demand, between different places
    std::vector<TrafficLink> links;  ///< that candidate paths use
    std::vector<Commodity> commodities;
    std::vector<double> capacities;  ///< of the links, in GB/s
};

/// `bytes[i * destinations.size() + j]` go from sources[i] to destinations[j]. Throws
/// Error(InvalidArgument) for another number of them, one that is negative or no number, a place
/// where no endpoint can be, or a demand where there is no way.
Traffic traffic_over(ChannelPlanner& planner, Cluster const& cluster,
                     std::span<Place const> sources, std::span<Place const> destinations,
                     std::span<double const> bytes, PathRules rules = {});

}  // namespace mgi::planner
