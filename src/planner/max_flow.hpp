/// \file
/// Maximum flow between two vertices (paper section 4.4): Edmonds-Karp, which augments along shortest
/// paths first, and the flow taken apart into the simple paths that carry it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <mgi/graph.hpp>

namespace mgi::planner {

/// Kilobytes a second. Whole numbers, since sums and differences of them are exact: a flow ends when
/// nothing is left, not when little is.
using Capacity = std::int64_t;

/// No link is faster, in GB/s.
inline constexpr double kMostGbps = 1e9;

/// GB/s as a Capacity, and back. Throws Error(InvalidArgument) for what is negative, not a number, or
/// more than 10^9 GB/s.
Capacity capacity_of(double gbps);
double gbps_of(Capacity capacity) noexcept;
/// As people read it: "12.5 GB/s".
std::string gbps_text(Capacity capacity);

struct Arc {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    Capacity capacity = 0;
};

/// What a flow carries along one path: vertices from source to sink, none of them twice.
struct FlowPath {
    std::vector<std::uint32_t> vertices;
    Capacity capacity = 0;
};

struct Flow {
    Capacity value = 0;
    std::vector<Capacity> on_arc;  ///< of each arc of the network
};

/// A directed graph with capacities, and searches through it. Not thread-safe: searches share scratch
/// memory, so that thousands of pairs cost no allocation.
class FlowNetwork {
public:
    /// Vertices are 0 .. vertices - 1. Throws Error(InvalidArgument) for an arc that names another
    /// one or has a negative capacity. Arcs of capacity 0 carry nothing.
    FlowNetwork(std::uint32_t vertices, std::vector<Arc> arcs);

    /// Leaves vertices out of later searches (`closed[v]`); empty: none.
    void close(std::vector<bool> closed);

    /// The most that gets from `source` to `sink` at once; 0 where they are one vertex, closed, or
    /// not connected. At most V * E / 2 augmentations, each a breadth-first search (Edmonds and Karp,
    /// 1972).
    [[nodiscard]] Flow max_flow(std::uint32_t source, std::uint32_t sink);
    /// Only its value.
    [[nodiscard]] Capacity max_flow_value(std::uint32_t source, std::uint32_t sink);

    /// Paths whose capacities sum up to `flow.value`, shortest first, at most one for each arc.
    /// Circulations that the flow may hold are on none of them.
    [[nodiscard]] std::vector<FlowPath> paths(Flow const& flow, std::uint32_t source,
                                              std::uint32_t sink);

    [[nodiscard]] std::vector<Arc> const& arcs() const { return arcs_; }

private:
    /// Breadth-first over steps that have something left; whether the sink was reached.
    bool search(std::uint32_t source, std::uint32_t sink);
    /// What the path that `search` found can carry more.
    [[nodiscard]] Capacity bottleneck(std::uint32_t source, std::uint32_t sink) const;
    [[nodiscard]] bool is_closed(std::uint32_t vertex) const {
        return !closed_.empty() && closed_[vertex];
    }
    [[nodiscard]] std::uint32_t head_of(std::uint32_t step) const {
        Arc const& arc = arcs_[step / 2];
        return step % 2 == 0 ? arc.to : arc.from;
    }
    [[nodiscard]] std::uint32_t tail_of(std::uint32_t step) const { return head_of(step ^ 1); }

    // Step 2a follows arc a, step 2a + 1 takes its flow back.
    std::uint32_t vertices_;
    std::vector<Arc> arcs_;
    std::vector<std::uint32_t> first_step_;  ///< of each vertex in steps_, and the end
    std::vector<std::uint32_t> steps_;       ///< out of each vertex
    std::vector<bool> closed_;
    std::vector<Capacity> left_;        ///< of each step
    std::vector<std::uint32_t> came_;   ///< step by which the search reached a vertex
    std::vector<std::uint32_t> queue_;  ///< of the search
};

}  // namespace mgi::planner
