/// \file
/// How traffic is best split over the routes that it may take: the fluid optimum, which a mover that
/// picks the least loaded path for each segment approaches.
#pragma once

#include <cstdint>
#include <vector>

namespace mgi::simulation {

using Route = std::vector<std::uint32_t>;  ///< links, as numbers in the list of capacities

/// Bytes that may be split over some routes in any way.
struct Commodity {
    double gigabytes = 0;
    std::vector<Route> routes;
};

struct Splits {
    std::vector<std::vector<double>> gigabytes;  ///< of each commodity, on each of its routes
    double seconds = 0;                          ///< in which every link carries what is on it
    double least_seconds = 0;                    ///< no split takes less: proven by prices of links
};

/// Minimizes the time that the most loaded link takes (maximum concurrent flow). Links have prices
/// that grow steeply with their load; each commodity moves bytes from its dearest route to its
/// cheapest, until the bound that the prices prove is within `tolerance` of what the loads give, or
/// until more rounds stop helping. `load` is on the links already, in gigabytes (empty: none).
///
/// Throws Error(InvalidArgument) for a commodity with bytes and no route, or a route or a load on a
/// link without capacity.
Splits least_congestion(std::vector<double> const& capacities,
                        std::vector<Commodity> const& commodities, std::vector<double> load = {},
                        double tolerance = 1e-3);

}  // namespace mgi::simulation
