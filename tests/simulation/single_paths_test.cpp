#include "simulation/single_paths.hpp"

#include <gtest/gtest.h>

#include <string>

#include "topology/presets.hpp"

namespace mgi::simulation {
namespace {

using topology::GraphBuilder;
using topology::Infrastructure;

std::string text(Infrastructure const& infrastructure, std::optional<Route> const& route) {
    if (!route) return "none";
    std::string names;
    for (std::uint32_t const edge : *route) {
        auto const& [from, to, gbps, kind] = infrastructure.graph.edges[edge];
        if (names.empty()) names = infrastructure.graph.vertices[from].name;
        names += " " + infrastructure.graph.vertices[to].name;
    }
    return names;
}

/// a and b at cpu0, c at cpu1; NVLinks a-b (5, narrower than PCIe) and b-c (20); two servers, in each
/// a narrow NIC before a wide one at cpu0.
struct TwoServers {
    TwoServers() {
        GraphBuilder graph;
        for (std::uint32_t server = 0; server < 2; ++server) {
            auto const cpu0 = graph.add(VertexKind::Cpu, "cpu0", server);
            auto const cpu1 = graph.add(VertexKind::Cpu, "cpu1", server);
            graph.mesh_cpus({{cpu0, 10}, {cpu1, 10}});
            auto const a = graph.add(VertexKind::Gpu, "a", server);
            auto const b = graph.add(VertexKind::Gpu, "b", server);
            auto const c = graph.add(VertexKind::Gpu, "c", server);
            graph.hang(a, cpu0, 12, "pcie");
            graph.hang(b, cpu0, 12, "pcie");
            graph.hang(c, cpu1, 12, "pcie");
            graph.connect_both(a, b, 5, "nvlink");
            graph.connect_both(b, c, 20, "nvlink");
            auto const narrow = graph.add(VertexKind::Nic, "narrow", server);
            graph.hang(narrow, cpu0, 24, "pcie");
            graph.connect_network(narrow, 8'000);
            auto const wide = graph.add(VertexKind::Nic, "wide", server);
            graph.hang(wide, cpu0, 24, "pcie");
            graph.connect_network(wide, 80'000);
            gpus.insert(gpus.end(), {a, b, c});
        }
        made = std::move(graph).finish(2);
    }

    [[nodiscard]] std::string path(SinglePathRules rules, std::size_t from, std::size_t to) const {
        return text(made, SinglePaths(made, rules).find(gpus[from], {gpus[to]})[0]);
    }

    Infrastructure made;
    std::vector<std::uint32_t> gpus;
};

TEST(SinglePaths, ShortestHasTheFewestLinksAndThenTheWidest) {
    TwoServers const two;
    EXPECT_EQ(two.path({}, 0, 1), "a b");
    EXPECT_EQ(two.path({}, 0, 2), "a cpu0 cpu1 c");
    EXPECT_EQ(two.path({}, 0, 3), "a cpu0 wide network h1/wide h1/cpu0 h1/a");
}

TEST(SinglePaths, WidestHasTheWidestNarrowestLinkAndThenTheFewest) {
    TwoServers const two;
    EXPECT_EQ(two.path({.prefer = Prefer::Wide}, 0, 1), "a cpu0 b");
    EXPECT_EQ(two.path({.prefer = Prefer::Wide}, 0, 2), "a cpu0 cpu1 c");
    EXPECT_EQ(two.path({.prefer = Prefer::Wide, .relay_gpus = true}, 0, 2), "a cpu0 b c");
    EXPECT_EQ(two.path({.prefer = Prefer::Wide}, 2, 3),
              "c cpu1 cpu0 wide network h1/wide h1/cpu0 h1/a");
}

TEST(SinglePaths, RulesLeaveOutRelaysAndNics) {
    TwoServers const two;
    EXPECT_EQ(two.path({.relay_gpus = true}, 0, 2), "a b c");
    EXPECT_EQ(two.path({.relay_host = false}, 0, 2), "none");
    EXPECT_EQ(two.path({.relay_host = false}, 0, 3), "none");
    EXPECT_EQ(two.path({.nics = 1}, 0, 3), "a cpu0 narrow network h1/narrow h1/cpu0 h1/a");
}

TEST(SinglePaths, ToItselfIsNoLink) {
    TwoServers const two;
    auto const found = SinglePaths(two.made, {}).find(two.gpus[0], {two.gpus[0]});
    ASSERT_TRUE(found[0]);
    EXPECT_TRUE(found[0]->empty());
}

TEST(SinglePaths, AnNvlinkDomainIsShorterAndWiderThanTheNetwork) {
    auto const trays = topology::preset("gb200-nvl72", 2);
    std::vector<std::uint32_t> gpus;
    for (Vertex const& vertex : trays.graph.vertices) {
        if (vertex.kind == VertexKind::Gpu) gpus.push_back(vertex.id);
    }
    for (Prefer const prefer : {Prefer::Short, Prefer::Wide}) {
        auto const found = SinglePaths(trays, {.prefer = prefer}).find(gpus[0], {gpus.back()});
        ASSERT_TRUE(found[0]);
        EXPECT_EQ(found[0]->size(), 2);
    }
}

}  // namespace
}  // namespace mgi::simulation
