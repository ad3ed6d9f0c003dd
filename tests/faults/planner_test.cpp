// A planner that ran out of memory in a search finds all paths when it is asked again.
#include <gtest/gtest.h>

#include <new>
#include <string>

#include "faults/failing_allocations.hpp"
#include "planner/channel_planner.hpp"

namespace mgi::faults {
namespace {

using planner::capacity_of;

/// Two GPUs with `relays` other ways between them, each by a switch of its own.
planner::Cluster ladder(std::uint32_t relays) {
    topology::GraphBuilder graph;
    auto const a = graph.add(VertexKind::Gpu, "a", 0);
    auto const b = graph.add(VertexKind::Gpu, "b", 0);
    for (std::uint32_t r = 0; r < relays; ++r) {
        auto const relay = graph.add(VertexKind::Switch, "s" + std::to_string(r), 0);
        graph.connect_both(a, relay, 1, "nvlink");
        graph.connect_both(relay, b, 1, "nvlink");
    }
    planner::Cluster cluster;
    cluster.add_server(std::move(graph).finish(1), "node");
    return cluster;
}

class Planner : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(Planner, FindsAllPathsAfterASearchThatFailed) {
    planner::Cluster const cluster = ladder(GetParam());
    fail_each_allocation([&] {
        planner::ChannelPlanner planner(cluster);
        try {
            static_cast<void>(planner.paths({0, 0}, {0, 1}));
        } catch (std::bad_alloc const&) {
        }
        auto const paths = planner.paths({0, 0}, {0, 1});
        EXPECT_EQ(paths.size(), GetParam());
        for (auto const& path : paths) {
            EXPECT_EQ(path.vertices.size(), 3u);
            EXPECT_EQ(path.capacity, capacity_of(1));
        }
    });
}

INSTANTIATE_TEST_SUITE_P(SmallAndLargeShapes, Planner, ::testing::Values(5u, 80u));

}  // namespace
}  // namespace mgi::faults
