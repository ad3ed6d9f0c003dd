/// \file
/// Maximum flows in graphs of at most 64 vertices, with their paths, in a microsecond or so: what a
/// server is. Edmonds-Karp like `FlowNetwork`, where a set of vertices is one word.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "planner/path_list.hpp"
#include "planner/shape.hpp"

namespace mgi::planner {

/// Holds the residual graph of one graph at a time. Not thread-safe. Allocates nothing between pairs.
class SmallFlow {
public:
    /// The graph of the next flows; it must live as long. Its capacities must sum up to less than
    /// 2^62.
    void load(SmallGraph const& graph);
    /// Whether that is the graph in hand.
    [[nodiscard]] bool holds(SmallGraph const& graph) const { return graph_ == &graph; }
    void unload() { graph_ = nullptr; }

    /// The most that gets from `source` to `sink` through vertices of `open` (a bit for each; source
    /// and sink among them). Appends the simple paths that carry it to `paths`, shortest first.
    Capacity run(std::uint32_t source, std::uint32_t sink, std::uint64_t open, PathList& paths);

private:
    /// A shortest path over `heads`, into came_ and length_; whether there is one.
    bool search(std::array<std::uint64_t, SmallGraph::kMost> const& heads, std::uint32_t source,
                std::uint32_t sink, std::uint64_t open);
    /// Sends what the path found can carry; true where that takes back what another path sent.
    bool push(std::uint32_t source, std::uint32_t sink, Capacity& value, PathList& paths);
    void decompose(std::uint32_t source, std::uint32_t sink, PathList& paths);
    void restore();
    [[nodiscard]] std::size_t at(std::uint32_t from, std::uint32_t to) const {
        return std::size_t(from) * graph_->vertices + to;
    }

    SmallGraph const* graph_ = nullptr;
    std::vector<Capacity> left_;                            ///< of each arc, and of its way back
    std::array<std::uint64_t, SmallGraph::kMost> heads_{};  ///< where something is left
    std::array<std::uint8_t, SmallGraph::kMost> came_{};    ///< the vertex before, on the search
    std::array<std::uint8_t, SmallGraph::kMost> queue_{};
    struct Changed {
        std::uint8_t from;
        std::uint8_t to;
    };
    std::vector<Changed> changed_;  ///< arcs that the flow in hand runs over
    std::array<std::uint64_t, SmallGraph::kMost> flows_{};  ///< where something flows
};

}  // namespace mgi::planner
