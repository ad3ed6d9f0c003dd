/// \file
/// Known traffic over candidate paths: how much of it each path should carry so that the most loaded
/// link is loaded as little as can be.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mgi::planner {

/// What one source sends to one destination, and over which links each of its paths leads.
struct Commodity {
    double demand = 0;                              ///< in the unit of capacities, times seconds
    std::vector<std::vector<std::uint32_t>> paths;  ///< numbers of links, at least one path
};

struct PathWeights {
    std::vector<std::vector<double>> weights;  ///< of each commodity's paths; they sum up to 1
    double congestion = 0;  ///< the most that any link carries, over its capacity
    double bound = 0;       ///< no weights at all can do with less
    std::uint32_t rounds = 0;
};

/// Weights whose congestion is within `tolerance` of `bound`, or what `most_rounds` came to.
///
/// Multiplicative weights (Plotkin, Shmoys and Tardos 1995; Young 1995; Garg and Koenemann 1998): a
/// link's price grows exponentially with its load, so that a path costs what its most loaded link
/// does. Each commodity in turn moves flow from its dearest path to its cheapest one, as far as that
/// helps, and prices rise more steeply as loads even out. Prices prove the bound: whatever the
/// weights, the traffic costs at least what its cheapest paths do (linear programming duality).
///
/// Throws Error(InvalidArgument) for a demand that is negative or no number, a commodity with a demand
/// and no path, a link that there is not, or a capacity that is not above 0.
PathWeights least_congestion(std::span<Commodity const> commodities,
                             std::span<double const> capacities, double tolerance = 0.02,
                             std::uint32_t most_rounds = 2000);

}  // namespace mgi::planner
