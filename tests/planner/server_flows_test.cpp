#include <gtest/gtest.h>

#include <mgi/error.hpp>

#include "planner/server_flows.hpp"

namespace mgi::planner {
namespace {

using topology::GraphBuilder;
using topology::Infrastructure;

/// GPUs a and b at cpu 0, c at cpu 1, CPUs joined at 10; a NIC at each CPU, and one at both.
struct TwoSockets {
    TwoSockets() {
        GraphBuilder graph;
        auto const cpu0 = graph.add(VertexKind::Cpu, "cpu0", 0);
        auto const cpu1 = graph.add(VertexKind::Cpu, "cpu1", 0);
        graph.mesh_cpus({{cpu0, 10}, {cpu1, 10}});
        a = graph.add(VertexKind::Gpu, "a", 0);
        b = graph.add(VertexKind::Gpu, "b", 0);
        c = graph.add(VertexKind::Gpu, "c", 0);
        graph.hang(a, cpu0, 12, "pcie");
        graph.hang(b, cpu0, 12, "pcie");
        graph.hang(c, cpu1, 12, "pcie");
        graph.connect(a, b, 20, "nvlink");
        graph.connect(b, c, 5, "nvlink");
        auto const shared = graph.add(VertexKind::Nic, "shared", 0);
        graph.hang(shared, cpu0, 100, "local");
        graph.hang(shared, cpu1, 100, "local");
        graph.connect_network(shared, 8000);
        auto const far = graph.add(VertexKind::Nic, "far", 0);
        graph.hang(far, cpu1, 24, "pcie");
        graph.connect_network(far, 160'000);
        auto const other = graph.add(VertexKind::Gpu, "a", 1);
        graph.connect_both(other, a, 100, "nvlink");
        made = std::move(graph).finish(2);
    }
    Infrastructure made;
    std::uint32_t a, b, c;
};

TEST(ServerFlows, BetweenGpusRelayButNeverCrossANic) {
    TwoSockets const sockets;
    ServerFlows flows(sockets.made, 0);
    EXPECT_EQ(flows.gpus(), (std::vector<std::uint32_t>{sockets.a, sockets.b, sockets.c}));
    EXPECT_EQ(flows.between(sockets.a, sockets.b, Relays::Allowed), capacity_of(32));
    // 10 between the CPUs and, through b, 5.
    EXPECT_EQ(flows.between(sockets.a, sockets.c, Relays::Allowed), capacity_of(15));
    EXPECT_EQ(flows.between(sockets.a, sockets.c, Relays::None), capacity_of(10));
    EXPECT_EQ(flows.between(sockets.c, sockets.a, Relays::Allowed), capacity_of(10));
}

TEST(ServerFlows, ToTheNetworkUseEveryNicTheServerReaches) {
    TwoSockets const sockets;
    ServerFlows flows(sockets.made, 0);
    // 1 by the shared NIC; 10 between the CPUs and 5 through b to c's side.
    EXPECT_EQ(flows.to_network(sockets.a, Relays::Allowed), capacity_of(16));
    EXPECT_EQ(flows.to_network(sockets.a, Relays::None), capacity_of(11));
    EXPECT_EQ(flows.from_network(sockets.a, Relays::Allowed), capacity_of(11));
    EXPECT_EQ(flows.to_network(sockets.c, Relays::None), capacity_of(12));
}

TEST(ServerFlows, OtherServersAreOutOfReach) {
    TwoSockets const sockets;
    ServerFlows flows(sockets.made, 1);
    ASSERT_EQ(flows.gpus().size(), 1u);
    EXPECT_EQ(flows.between(flows.gpus()[0], sockets.a, Relays::Allowed), 0);
    EXPECT_EQ(flows.to_network(flows.gpus()[0], Relays::Allowed), 0);
    EXPECT_THROW(ServerFlows(sockets.made, 2), Error);
}

}  // namespace
}  // namespace mgi::planner
