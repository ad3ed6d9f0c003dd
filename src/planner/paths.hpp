/// \file
/// Which ways lead from sources to destinations. The interface is what planners with many paths
/// share; the one here knows memory that several devices reach.
#pragma once

#include <cstdint>
#include <vector>

#include <mgi/graph.hpp>
#include <mgi/plan.hpp>

namespace mgi::planner {

/// Kind of an edge between devices that reach the same memory.
inline constexpr char const* kMemoryEdge = "memory";

/// Finds the paths of a channel. Implementations are stateless or lock: `find` may be called from
/// several threads.
class PathFinder {
public:
    virtual ~PathFinder() = default;
    /// One table for each distinct source vertex, with at least one hop for each distinct destination
    /// vertex, in ascending order both. Throws Error(InvalidArgument) that names two vertices where
    /// no path is known, or a vertex that the graph does not have.
    [[nodiscard]] virtual std::vector<ForwardingTable> find(
        Graph const& graph, std::vector<std::uint32_t> const& sources,
        std::vector<std::uint32_t> const& destinations) const = 0;
};

/// One path for each pair: straight through memory that both reach, or else the widest there is, which a
/// copy takes.
class MemoryPaths final : public PathFinder {
public:
    [[nodiscard]] std::vector<ForwardingTable> find(
        Graph const& graph, std::vector<std::uint32_t> const& sources,
        std::vector<std::uint32_t> const& destinations) const override;
};

/// Whether all of these vertices reach each other's memory, so that segments can be read in place.
bool share_memory(Graph const& graph, std::vector<std::uint32_t> const& sources,
                  std::vector<std::uint32_t> const& destinations);

}  // namespace mgi::planner
