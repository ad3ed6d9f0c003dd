/// \file
/// Paths inside one server, as channels of `Runtime::local()` ask for them: by the same search as
/// channels over a cluster.
#pragma once

#include <vector>

#include "planner/paths.hpp"
#include "planner/rules.hpp"

namespace mgi::planner {

/// Devices that reach each other's memory are one hop apart, whatever else leads there; between others
/// the paths are those that carry the maximum flow. Beside the sources' tables there is one for each
/// vertex that relays. Thread-safe.
class GraphPaths final : public PathFinder {
public:
    explicit GraphPaths(PathRules rules = {}) : rules_(rules) {}

    [[nodiscard]] std::vector<ForwardingTable> find(
        Graph const& graph, std::vector<std::uint32_t> const& sources,
        std::vector<std::uint32_t> const& destinations) const override;

private:
    PathRules rules_;
};

}  // namespace mgi::planner
