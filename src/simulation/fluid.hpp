/// \file
/// Traffic as a fluid: flows share directed links max-min fairly, and share anew when one of them
/// starts or ends (Bertsekas and Gallager, Data Networks, 6.5.2).
#pragma once

#include <cstdint>
#include <vector>

namespace mgi::simulation {

using Route = std::vector<std::uint32_t>;  ///< links, as numbers in the list of capacities

/// Bytes that cross a set of links at once. On no link at all they take no time.
struct FluidFlow {
    Route links;
    double gigabytes = 0;
    double weight = 1;  ///< of its share of a link; more than 0
    double start = 0;   ///< seconds
};

/// Gigabytes a second of each flow where all of them run: rates grow together, in proportion to their
/// weights, until a link is full; its flows stay at what they have and the others grow on
/// (progressive filling). So each flow has a link that is full and where no other flow has more for
/// its weight. A flow on no link has an infinite rate.
///
/// Throws Error(InvalidArgument) for a link that is not there, a weight that is not above 0, or a
/// negative capacity.
std::vector<double> fair_rates(std::vector<double> const& capacities,
                               std::vector<FluidFlow> const& flows);

/// When each flow ends, in seconds. Flows end, and start, within `resolution` of the time that has
/// passed together, before what they leave is shared anew: 0 is exact, and with thousands of volumes
/// that all differ 0.01 saves most of the work and errs by about as much, upward.
///
/// Throws what fair_rates throws, and Error(InvalidArgument) for a flow that never ends, since one of
/// its links has no capacity.
std::vector<double> finish_times(std::vector<double> const& capacities,
                                 std::vector<FluidFlow> const& flows, double resolution = 0);

}  // namespace mgi::simulation
