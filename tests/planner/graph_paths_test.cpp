#include "planner/graph_paths.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include <mgi/error.hpp>

#include "perf/plan_cluster.hpp"
#include "planner/plan.hpp"

namespace mgi::planner {
namespace {

TEST(GraphPaths, DevicesThatShareMemoryAreOneHopApart) {
    Graph graph;
    for (std::uint32_t d = 0; d < 3; ++d) {
        graph.vertices.push_back({d, "cpu:" + std::to_string(d), VertexKind::Cpu, true});
        for (std::uint32_t e = 0; e < 3; ++e) graph.edges.push_back({d, e, 10, kMemoryEdge});
    }
    std::vector<std::uint32_t> const all{2, 0, 1, 0};
    auto const found = GraphPaths().find(graph, all, all);
    auto const expected = MemoryPaths().find(graph, all, all);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t t = 0; t < found.size(); ++t) {
        EXPECT_EQ(found[t].vertex, expected[t].vertex);
        ASSERT_EQ(found[t].hops.size(), expected[t].hops.size());
        for (std::size_t h = 0; h < found[t].hops.size(); ++h) {
            EXPECT_EQ(found[t].hops[h].destination, expected[t].hops[h].destination);
            EXPECT_EQ(found[t].hops[h].next, expected[t].hops[h].next);
            EXPECT_EQ(found[t].hops[h].path, expected[t].hops[h].path);
            EXPECT_EQ(found[t].hops[h].gbps, expected[t].hops[h].gbps);
        }
    }
}

TEST(GraphPaths, GpusGetEveryPathAndRelaysATable) {
    auto const server = perf::dgx_server(8, 0);
    std::uint32_t first = 0;
    while (server.graph.vertices[first].kind != VertexKind::Gpu) ++first;
    std::uint32_t last = first;
    for (Vertex const& vertex : server.graph.vertices) {
        if (vertex.kind == VertexKind::Gpu) last = vertex.id;
    }
    auto const tables = GraphPaths().find(server.graph, {first}, {last});
    // By the NVSwitch, by both CPUs as much as their link takes, and the rest of PCIe by other GPUs.
    EXPECT_GE(tables.size(), 3u);
    double widest = 0;
    for (ForwardingTable const& table : tables) {
        for (Hop const& hop : table.hops) {
            EXPECT_EQ(hop.destination, last);
            if (table.vertex == first) widest = std::max(widest, hop.gbps);
        }
    }
    EXPECT_DOUBLE_EQ(widest, 370.8);
    EXPECT_THROW(static_cast<void>(GraphPaths().find(server.graph, {first}, {99})), Error);
}

TEST(GraphPaths, ServeMakePlan) {
    PlanRequest request;
    request.graph = perf::dgx_server(2, 0).graph;
    for (Vertex const& vertex : request.graph.vertices) {
        if (vertex.kind == VertexKind::Gpu) request.sources.push_back(vertex.id);
    }
    request.destinations = request.sources;
    request.schema = Schema({{"key", {TypeId::Int64}, false}});
    request.memory_limit = request.memory_left = std::uint64_t(1) << 30;
    Plan const plan = make_plan(request, GraphPaths());
    EXPECT_EQ(plan.transfer, Transfer::ByCopy);
    EXPECT_GE(plan.tables.size(), 2u);
}

}  // namespace
}  // namespace mgi::planner
