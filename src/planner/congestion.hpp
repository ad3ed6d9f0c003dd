/// \file
/// Known traffic over candidate paths: how much of it each path should carry so that the most loaded
/// link is loaded as little as can be; the fluid optimum, which a mover that picks the least loaded
/// path for each segment approaches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mgi::planner {

/// What one source sends to one destination, and over which links each of its paths leads.
struct Commodity {
    double demand = 0;                              ///< in the unit of capacities, times seconds
    std::vector<std::vector<std::uint32_t>> paths;  ///< numbers of links
};

struct PathWeights {
    std::vector<std::vector<double>> weights;  ///< of each commodity's paths; they sum up to 1
    double congestion = 0;  ///< the most that any link carries, over its capacity
    double bound = 0;       ///< no weights at all can do with less
};

/// Weights whose congestion is within `tolerance` of `bound` (maximum concurrent flow), or what was
/// found until more rounds stopped helping. `load` is on the links already (empty: none).
///
/// Multiplicative weights (Plotkin, Shmoys and Tardos 1995; Young 1995; Garg and Koenemann 1998): a
/// link's price grows as a power of its load, so that a path costs what its most loaded link does.
/// Each commodity in turn moves flow from its dearest path to its cheapest one, as far as that helps,
/// and the power rises as loads even out. Prices prove the bound: whatever the weights, the traffic
/// costs at least what its cheapest paths do (linear programming duality).
///
/// Throws Error(InvalidArgument) for a demand that is negative or no number, a commodity with a demand
/// and no path, and a path or a load on a link that there is not or that has no capacity.
PathWeights least_congestion(std::span<Commodity const> commodities,
                             std::span<double const> capacities, double tolerance = 0.02,
                             std::span<double const> load = {});

}  // namespace mgi::planner
