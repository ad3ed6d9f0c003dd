/// \file
/// The maximum flow from several sources together to several sinks together, and its paths. Paths of
/// single pairs need not carry it: in s1->x, s2->x, x->d, x->y->d, all of capacity 1, each pair's
/// maximum flow is 1, by x->d, and together 2 get through.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "planner/path_list.hpp"
#include "planner/small_flow.hpp"

namespace mgi::planner {

struct JointQuestion {
    std::uint32_t vertices = 0;
    std::span<Arc const> arcs;
    std::span<std::uint32_t const> sources;
    std::span<std::uint32_t const> sinks;  ///< may be sources, too
    /// Vertices that pass nothing on; sources and sinks among them send and receive all the same.
    std::function<bool(std::uint32_t)> closed;
};

/// Asks such questions; holds what they need, so that one after the other costs no allocation.
class JointFlow {
public:
    /// Appends the paths to `paths`: each from a source to a sink that is another vertex. They can
    /// carry the maximum flow together where no vertex is both source and sink, and then keep to the
    /// capacities, too, shortest first.
    ///
    /// Where some are both, flow may also lead back to where it comes from, and a maximum flow that
    /// does so helps nobody; which pairs should have how much instead is a problem of several
    /// commodities. So every other one of these vertices sends to the rest, then these send to those.
    /// On servers that is mostly as much as a maximum flow has. Where it is not, what each source in
    /// turn can add follows, and paths of the maximum flow, rearranged: candidates, which together
    /// would be more than the links carry.
    void find(JointQuestion const& question, SmallFlow& flow, PathList& paths);

private:
    void build(JointQuestion const& question);
    Capacity solve(SmallFlow& flow);
    void emit(PathList& paths);
    /// Appends what some sources can send to some sinks over what is left of the arcs.
    Capacity send(JointQuestion const& question, std::vector<std::uint32_t> const& sources,
                  std::vector<std::uint32_t> const& sinks, SmallFlow& flow, PathList& paths);
    Capacity send_in_turn(JointQuestion const& question, std::vector<std::uint32_t> const& order,
                          SmallFlow& flow, PathList& paths);
    void start_over(JointQuestion const& question);

    // Vertices of the graph in hand: those asked about, a second one for each source that is a sink
    // too (where it sends), and what all sources and all sinks hang from.
    std::uint32_t vertices_ = 0;
    std::uint32_t count_ = 0;
    std::vector<std::uint32_t> original_;  ///< of the second ones
    [[nodiscard]] LocalVertex original(std::uint32_t vertex) const {
        return LocalVertex(vertex < vertices_ ? vertex : original_[vertex - vertices_]);
    }
    std::vector<Arc> arcs_;
    SmallGraph graph_;
    PathList found_;         ///< in graph_
    PathList raw_;           ///< the same, of the question's vertices
    std::vector<Arc> left_;  ///< of the question's arcs, ascending
};

}  // namespace mgi::planner
