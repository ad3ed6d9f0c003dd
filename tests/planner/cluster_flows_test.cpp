#include <gtest/gtest.h>

#include <utility>

#include <mgi/error.hpp>

#include "planner/cluster_flows.hpp"

namespace mgi::planner {
namespace {

using topology::GraphBuilder;
using topology::Infrastructure;

struct Two {
    explicit Two(bool spanning) {
        GraphBuilder graph;
        for (std::uint32_t server = 0; server < 2; ++server) {
            auto const cpu = graph.add(VertexKind::Cpu, "cpu0", server);
            gpus[server] = graph.add(VertexKind::Gpu, "a", server);
            graph.hang(gpus[server], cpu, 24, "pcie");
            auto const nic = graph.add(VertexKind::Nic, "nic", server);
            graph.hang(nic, cpu, 12, "pcie");
            graph.connect_network(nic, server == 0 ? 200'000 : 40'000);
            graph.connect_both(gpus[server],
                               graph.nvswitch(spanning ? topology::kEveryServer : server), 450,
                               "nvlink");
        }
        made = std::move(graph).finish(2);
    }
    Infrastructure made;
    std::uint32_t gpus[2] = {0, 0};
};

TEST(ClusterFlows, ByNetworkTheNarrowerEndDecides) {
    Two const two(false);
    ClusterFlows flows(two.made);
    EXPECT_EQ(flows.by_network(two.gpus[0], two.gpus[1]), capacity_of(5));
    EXPECT_EQ(flows.by_links(two.gpus[0], two.gpus[1]), 0);
}

TEST(ClusterFlows, ByLinksWhereTheySpanServers) {
    Two const two(true);
    ClusterFlows flows(two.made);
    EXPECT_EQ(flows.by_links(two.gpus[0], two.gpus[1]), capacity_of(450));
    EXPECT_EQ(flows.by_network(two.gpus[1], two.gpus[0]), capacity_of(5));
    EXPECT_THROW(static_cast<void>(flows.by_network(0, two.gpus[1])), Error);
    EXPECT_THROW(static_cast<void>(flows.by_links(two.gpus[0], 1000)), Error);
}

}  // namespace
}  // namespace mgi::planner
