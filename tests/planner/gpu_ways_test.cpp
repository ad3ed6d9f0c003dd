// Which ways the planner finds between the GPUs of a process.
#include "planner/gpu_ways.hpp"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include <mgi/error.hpp>

#include "support/expect_error.hpp"

namespace mgi::planner {
namespace {

using Link = std::tuple<std::uint32_t, std::uint32_t, double, char const*>;

// cpu:0 is vertex 0, cuda:N vertex N + 1; `links` both ways. Each GPU has PCIe of 50 GB/s to the CPU.
Graph server(std::uint32_t gpus, std::vector<Link> const& links, bool with_switch = false) {
    Graph graph;
    graph.vertices.push_back({0, "cpu:0", VertexKind::Cpu, true});
    for (std::uint32_t g = 0; g < gpus; ++g) {
        graph.vertices.push_back({g + 1, "cuda:" + std::to_string(g), VertexKind::Gpu, true});
        graph.edges.push_back({g + 1, g + 1, 1000, "memory"});
        graph.edges.push_back({g + 1, 0, 50, "pcie"});
        graph.edges.push_back({0, g + 1, 50, "pcie"});
    }
    if (with_switch) graph.vertices.push_back({gpus + 1, "nvswitch", VertexKind::Switch, false});
    for (auto const& [one, other, gbps, kind] : links) {
        graph.edges.push_back({one, other, gbps, kind});
        graph.edges.push_back({other, one, gbps, kind});
    }
    return graph;
}

using Stops = std::vector<std::uint32_t>;

std::vector<Stops> stops(std::vector<GpuWay> const& ways) {
    std::vector<Stops> all;
    for (GpuWay const& way : ways) all.push_back(way.stops);
    return all;
}

TEST(GpuWays, PeersByPcieAloneHaveOneWay) {
    // What they could send through the host, or a third one, would take the same link.
    GpuWays const ways(server(3, {{1, 2, 50, "pcie"}, {1, 3, 50, "pcie"}, {2, 3, 50, "pcie"}}));
    EXPECT_EQ(ways.find(1, 2), (std::vector<GpuWay>{{{1, 2}, capacity_of(50)}}));
}

TEST(GpuWays, GpusThatAreNoPeersGoThroughTheHost) {
    GpuWays const ways(server(2, {}));
    EXPECT_EQ(ways.find(1, 2), (std::vector<GpuWay>{{{1, kHostStop, 2}, capacity_of(50)}}));
    EXPECT_EQ(ways.find(1, 2, {false, false, 0}), ways.find(1, 2));
}

TEST(GpuWays, AThirdGpuRelaysWhereBothReachIt) {
    GpuWays const ways(server(3, {{1, 3, 80, "nvlink"}, {2, 3, 80, "nvlink"}}));
    EXPECT_EQ(stops(ways.find(1, 2)), (std::vector<Stops>{{1, 3, 2}, {1, kHostStop, 2}}));
    EXPECT_EQ(stops(ways.find(1, 2, {false, true, 0})), (std::vector<Stops>{{1, kHostStop, 2}}));
    EXPECT_EQ(stops(ways.find(1, 2, {true, false, 0})), (std::vector<Stops>{{1, 3, 2}}));
}

TEST(GpuWays, AFullMeshHasTheDirectWayFirstAndARelayByEachOther) {
    GpuWays const ways(server(4, {{1, 2, 80, "nvlink"},
                                  {1, 3, 80, "nvlink"},
                                  {1, 4, 80, "nvlink"},
                                  {2, 3, 80, "nvlink"},
                                  {2, 4, 80, "nvlink"},
                                  {3, 4, 80, "nvlink"}}));
    EXPECT_EQ(stops(ways.find(1, 2)),
              (std::vector<Stops>{{1, 2}, {1, 3, 2}, {1, 4, 2}, {1, kHostStop, 2}}));
    EXPECT_EQ(stops(ways.find(1, 2, {false, false, 0})), (std::vector<Stops>{{1, 2}}));
}

TEST(GpuWays, ASwitchLeavesNothingForRelaysAndTheHostIsNotWorthIt) {
    GpuWays const ways(
        server(3, {{1, 4, 370, "nvlink"}, {2, 4, 370, "nvlink"}, {3, 4, 370, "nvlink"}}, true));
    std::vector<GpuWay> const found = ways.find(1, 2);
    EXPECT_EQ(found, (std::vector<GpuWay>{{{1, 2}, capacity_of(370)}}));
}

TEST(GpuWays, WhatIsRefusedIsDoneWithout) {
    GpuWays ways(server(3, {{1, 2, 80, "nvlink"}, {1, 3, 80, "nvlink"}, {2, 3, 80, "nvlink"}}));
    ways.refuse(1, 2);
    EXPECT_EQ(stops(ways.find(1, 2)), (std::vector<Stops>{{1, 3, 2}, {1, kHostStop, 2}}));
    EXPECT_EQ(stops(ways.find(2, 1)).front(), (Stops{2, 1}));
    ways.refuse(3, 2);
    EXPECT_EQ(stops(ways.find(1, 2)), (std::vector<Stops>{{1, kHostStop, 2}}));
}

TEST(GpuWays, LongChainsOnlyWhereThereIsNothingShorter) {
    Graph graph = server(
        5,
        {{1, 3, 80, "nvlink"}, {3, 4, 80, "nvlink"}, {4, 5, 80, "nvlink"}, {5, 2, 80, "nvlink"}});
    EXPECT_EQ(stops(GpuWays(graph).find(1, 2)), (std::vector<Stops>{{1, kHostStop, 2}}));
    EXPECT_EQ(stops(GpuWays(graph).find(1, 2, {true, false, 0})),
              (std::vector<Stops>{{1, 3, 4, 5, 2}}));
    // A chain that is too long does not make the short way look not worth it.
    for (Edge& edge : graph.edges) {
        if (edge.kind == "pcie") edge.gbps = 15;
    }
    EXPECT_EQ(stops(GpuWays(graph).find(1, 2)), (std::vector<Stops>{{1, kHostStop, 2}}));
}

TEST(GpuWays, NoWayIsAnErrorThatNamesBoth) {
    Graph graph = server(2, {});
    std::erase_if(graph.edges, [](Edge const& edge) { return edge.kind == "pcie"; });
    test::expect_error(ErrorCode::InvalidArgument, {"no copy can go from cuda:0 to cuda:1"},
                       [&] { (void)GpuWays(graph).find(1, 2); });
}

}  // namespace
}  // namespace mgi::planner
