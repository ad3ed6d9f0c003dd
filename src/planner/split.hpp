/// \file
/// A cluster of the servers of one graph, and which vertex of the graph each of theirs is.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/cluster.hpp"
#include "topology/infrastructure.hpp"

namespace mgi::planner {

struct SplitCluster {
    /// Of a vertex of a server: what it is in the infrastructure. The network and NVLink domains are
    /// one vertex there, and one of each server here.
    [[nodiscard]] std::uint32_t whole_of(Place place) const {
        return whole[place.server][place.vertex];
    }

    Cluster cluster;            ///< "h0", "h1", ...
    std::vector<Place> places;  ///< of each vertex; server kNowhere for those of every server
    std::vector<std::vector<std::uint32_t>> whole;  ///< of each server, of each of its vertices
};

/// Servers that share an NVLink domain in the infrastructure share it in the cluster, others do not.
/// Throws Error(InvalidArgument) for a graph that no cluster can be.
SplitCluster split(topology::Infrastructure const& infrastructure);

}  // namespace mgi::planner
