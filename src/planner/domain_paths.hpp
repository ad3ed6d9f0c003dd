/// \file
/// Paths between two servers of one NVLink domain.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/max_flow.hpp"
#include "planner/rules.hpp"
#include "planner/shape.hpp"

namespace mgi::planner {

/// Vertices of the paths are those of `from`, then those of `to`, the shared ones left out there.
struct TwoServerPaths {
    std::vector<FlowPath> paths;
    std::uint32_t vertices_of_first = 0;
};

/// The maximum flow over both servers' graphs, joined at the domain and at the network: links and NICs
/// are both used, and share what they share.
TwoServerPaths find_domain_paths(Shape const& from, std::uint32_t source, Shape const& to,
                                 std::uint32_t destination, PathRules rules);

}  // namespace mgi::planner
