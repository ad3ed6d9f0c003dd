#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include <mgi/error.hpp>

#include "planner/max_flow.hpp"
#include "support/random.hpp"

namespace mgi::planner {
namespace {

/// The least that any cut between the two lets through, by trying all of them: what a maximum flow
/// must be (Ford and Fulkerson), found without one.
Capacity least_cut(std::uint32_t vertices, std::vector<Arc> const& arcs, std::uint32_t source,
                   std::uint32_t sink) {
    Capacity least = std::numeric_limits<Capacity>::max();
    for (std::uint32_t side = 0; side < 1u << vertices; ++side) {
        if ((side >> source & 1) == 0 || (side >> sink & 1) == 1) continue;
        Capacity across = 0;
        for (Arc const& arc : arcs) {
            if ((side >> arc.from & 1) == 1 && (side >> arc.to & 1) == 0) across += arc.capacity;
        }
        least = std::min(least, across);
    }
    return least;
}

/// That paths are simple, from source to sink, shortest first, within the arcs' capacities, and carry
/// the flow's value.
void check_paths(FlowNetwork& network, std::uint32_t source, std::uint32_t sink, Flow const& flow) {
    auto const paths = network.paths(flow, source, sink);
    std::vector<Capacity> used(network.arcs().size(), 0);
    Capacity value = 0;
    std::size_t length = 0;
    for (FlowPath const& path : paths) {
        ASSERT_GT(path.capacity, 0);
        ASSERT_GE(path.vertices.size(), 2u);
        ASSERT_EQ(path.vertices.front(), source);
        ASSERT_EQ(path.vertices.back(), sink);
        ASSERT_GE(path.vertices.size(), length) << "shortest first";
        length = path.vertices.size();
        std::set<std::uint32_t> const distinct(path.vertices.begin(), path.vertices.end());
        ASSERT_EQ(distinct.size(), path.vertices.size()) << "no vertex twice";
        value += path.capacity;
        for (std::size_t i = 0; i + 1 < path.vertices.size(); ++i) {
            Capacity rest = path.capacity;
            for (std::size_t a = 0; a < used.size() && rest > 0; ++a) {
                Arc const& arc = network.arcs()[a];
                if (arc.from != path.vertices[i] || arc.to != path.vertices[i + 1]) continue;
                Capacity const more = std::min(rest, arc.capacity - used[a]);
                used[a] += more;
                rest -= more;
            }
            ASSERT_EQ(rest, 0) << "the paths together keep to the capacities";
        }
    }
    EXPECT_EQ(value, flow.value);
    EXPECT_LE(paths.size(), network.arcs().size());
}

void check_conservation(FlowNetwork const& network, std::uint32_t source, std::uint32_t sink,
                        Flow const& flow) {
    std::vector<Capacity> balance(64, 0);
    for (std::size_t a = 0; a < network.arcs().size(); ++a) {
        Arc const& arc = network.arcs()[a];
        ASSERT_GE(flow.on_arc[a], 0);
        ASSERT_LE(flow.on_arc[a], arc.capacity);
        balance[arc.from] -= flow.on_arc[a];
        balance[arc.to] += flow.on_arc[a];
    }
    for (std::uint32_t v = 0; v < balance.size(); ++v) {
        Capacity const expected = v == source ? -flow.value : v == sink ? flow.value : 0;
        ASSERT_EQ(balance[v], expected) << "vertex " << v;
    }
}

TEST(MaxFlow, IsTheLeastCutOfRandomGraphs) {
    test::Random random(1);
    for (int graph = 0; graph < 10'000; ++graph) {
        SCOPED_TRACE(graph);
        auto const vertices = std::uint32_t(random.between(2, 9));
        std::vector<Arc> arcs;
        for (std::uint64_t i = random.below(4 * vertices); i > 0; --i) {
            // Self loops, parallel arcs, arcs both ways and of no capacity among them.
            arcs.push_back({std::uint32_t(random.below(vertices)),
                            std::uint32_t(random.below(vertices)), random.between(0, 12)});
        }
        FlowNetwork network(vertices, arcs);
        std::uint32_t const source = 0;
        std::uint32_t const sink = vertices - 1;
        Flow const flow = network.max_flow(source, sink);
        ASSERT_EQ(flow.value, least_cut(vertices, arcs, source, sink));
        check_conservation(network, source, sink, flow);
        check_paths(network, source, sink, flow);
        if (HasFatalFailure()) return;
    }
}

TEST(MaxFlow, ClosedVerticesCarryNothing) {
    // 0 -> 1 -> 3 and 0 -> 2 -> 3.
    FlowNetwork network(4, {{0, 1, 5}, {1, 3, 5}, {0, 2, 7}, {2, 3, 6}});
    EXPECT_EQ(network.max_flow_value(0, 3), 11);
    network.close({false, true, false, false});
    EXPECT_EQ(network.max_flow_value(0, 3), 6);
    network.close({});
    EXPECT_EQ(network.max_flow_value(0, 3), 11);
    EXPECT_EQ(network.max_flow_value(3, 0), 0);
    EXPECT_EQ(network.max_flow_value(2, 2), 0);
}

TEST(MaxFlow, WhatCannotBeIsRefused) {
    EXPECT_THROW(FlowNetwork(2, {{0, 2, 1}}), Error);
    EXPECT_THROW(FlowNetwork(2, {{0, 1, -1}}), Error);
    constexpr Capacity kMost = std::numeric_limits<Capacity>::max();
    EXPECT_THROW(FlowNetwork(2, {{0, 1, kMost}, {0, 1, 1}}), Error);
    FlowNetwork network(2, {{0, 1, 1}});
    EXPECT_THROW(static_cast<void>(network.max_flow(0, 2)), Error);
    EXPECT_THROW(network.close({true}), Error);
    EXPECT_THROW(capacity_of(-1), Error);
    EXPECT_THROW(capacity_of(std::numeric_limits<double>::quiet_NaN()), Error);
    EXPECT_THROW(capacity_of(1e10), Error);
    EXPECT_EQ(capacity_of(15.753846), 15'753'846);
    EXPECT_EQ(gbps_of(15'753'846), 15.753846);
}

}  // namespace
}  // namespace mgi::planner
