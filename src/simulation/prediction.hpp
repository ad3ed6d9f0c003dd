/// \file
/// What a pattern of traffic takes on a graph of servers: with a plan's many paths, and as frameworks
/// move it that take one path for each pair (docs/simulation.md).
#pragma once

#include <cstdint>
#include <vector>

#include "planner/rules.hpp"
#include "topology/infrastructure.hpp"

namespace mgi::simulation {

enum class Policy : std::uint8_t {
    Mgi,   ///< a plan's paths, traffic split over them at its best; partitioning overlaps transfer
    Ucx,   ///< one shortest path for each pair, never over another GPU; partitioning comes first
    Nccl,  ///< one widest path for each pair, over another GPU where that avoids a CPU; likewise
};
char const* to_string(Policy policy) noexcept;

/// Bytes from one GPU to another, or to itself: those are partitioned and stay.
struct Demand {
    std::uint32_t source = 0;
    std::uint32_t destination = 0;
    double gigabytes = 0;
};

struct Conditions {
    planner::PathRules rules;      ///< of the plan's paths
    double partition_gbps = 0;     ///< of each source; 0: there is nothing to partition
    std::uint32_t other_nics = 1;  ///< of each server, that frameworks other than MGI use; 0: all
};

struct Prediction {
    double seconds = 0;          ///< until the last byte has arrived
    double least_seconds = 0;    ///< of a plan: no split of the traffic over its paths takes less
    std::vector<double> finish;  ///< of each demand
    std::vector<double> gigabytes;  ///< over each edge of the graph
    std::vector<double> partition;  ///< of each vertex: seconds that its GPU partitions
};

/// Throws Error(InvalidArgument) for an end that is no GPU, negative or infinite bytes, and a pair
/// that no path joins, which it names.
Prediction predict(topology::Infrastructure const& infrastructure, Policy policy,
                   std::vector<Demand> const& demands, Conditions const& conditions);

}  // namespace mgi::simulation
