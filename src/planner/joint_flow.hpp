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
    /// Appends the paths to `paths`, shortest first: each from a source to a sink that is another
    /// vertex, all together within the arcs' capacities. They carry the maximum flow, unless vertices
    /// are both source and sink and some of the flow leads back to where it comes from whatever is
    /// rearranged: which pairs may then have how much is a problem of several commodities. There the
    /// paths of what each source in turn can add follow, first to last and last to first, since
    /// candidates are what is asked for.
    void find(JointQuestion const& question, SmallFlow& flow, PathList& paths);

private:
    void build(JointQuestion const& question);
    void solve(SmallFlow& flow);
    /// Whether all that flows arrives at another vertex.
    bool emit(PathList& paths);
    void add_in_turn(JointQuestion const& question, std::span<std::uint32_t const> order,
                     SmallFlow& flow, PathList& paths);

    // Vertices of the graph in hand: those asked about, a second one for each source that is a sink
    // too (where it sends), and what all sources and all sinks hang from.
    std::uint32_t vertices_ = 0;
    std::uint32_t count_ = 0;
    std::vector<std::uint32_t> original_;  ///< of the second ones
    std::vector<Arc> arcs_;
    SmallGraph graph_;
    PathList raw_;
};

}  // namespace mgi::planner
