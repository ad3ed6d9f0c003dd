#include "simulation/prediction.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include <mgi/error.hpp>

#include "perf/plan_cluster.hpp"
#include "topology/cluster.hpp"
#include "topology/presets.hpp"

namespace mgi::simulation {
namespace {

using topology::GraphBuilder;
using topology::Infrastructure;

constexpr double kTolerance = 2e-3;  ///< a little more than the splits' own

/// What has a preset's GPUs, and patterns between them.
struct System {
    explicit System(Infrastructure infrastructure) : made(std::move(infrastructure)) {
        for (Vertex const& vertex : made.graph.vertices) {
            if (vertex.kind == VertexKind::Gpu) gpus.push_back(vertex.id);
        }
    }
    explicit System(char const* preset) : System(topology::preset(preset)) {}

    [[nodiscard]] std::vector<Demand> all_to_all(double gigabytes) const {
        std::vector<Demand> demands;
        for (std::uint32_t const a : gpus) {
            for (std::uint32_t const b : gpus) demands.push_back({a, b, gigabytes});
        }
        return demands;
    }

    [[nodiscard]] double seconds(Policy policy, std::vector<Demand> const& demands,
                                 Conditions const& conditions = {}) const {
        return predict(made, policy, demands, conditions).seconds;
    }

    Infrastructure made;
    std::vector<std::uint32_t> gpus;
};

/// Three GPUs with links of 10 from each to each, and no other way.
System triangle() {
    GraphBuilder graph;
    auto const a = graph.add(VertexKind::Gpu, "a", 0);
    auto const b = graph.add(VertexKind::Gpu, "b", 0);
    auto const c = graph.add(VertexKind::Gpu, "c", 0);
    graph.connect_both(a, b, 10, "nvlink");
    graph.connect_both(b, c, 10, "nvlink");
    graph.connect_both(a, c, 10, "nvlink");
    return System(std::move(graph).finish(1));
}

TEST(Prediction, OneGpuUsesEveryNicOfItsServer) {
    auto const server = perf::dgx_server(8, 0);
    System const system(topology::join_servers({&server, &server}));
    std::vector<Demand> demands;
    // Its own NIC alone would take 20 ms.
    for (std::size_t j = 8; j < 16; ++j) {
        demands.push_back({system.gpus[0], system.gpus[j], 0.125});
    }
    EXPECT_LT(system.seconds(Policy::Mgi, demands), 0.005);
}

TEST(Prediction, APairAloneTakesEveryPathAndOthersOne) {
    System const system = triangle();
    std::vector<Demand> const demands{{system.gpus[0], system.gpus[1], 20}};
    EXPECT_NEAR(system.seconds(Policy::Mgi, demands), 1, kTolerance);
    EXPECT_NEAR(system.seconds(Policy::Ucx, demands), 2, 1e-9);
    EXPECT_NEAR(system.seconds(Policy::Nccl, demands), 2, 1e-9);
    Conditions none;
    none.rules.relay_gpus = false;
    EXPECT_NEAR(system.seconds(Policy::Mgi, demands, none), 2, 2 * kTolerance);
}

TEST(Prediction, PartitioningOverlapsAPlansTransferAndPrecedesOthers) {
    System const system = triangle();
    // Every GPU has 30 GB, of which 10 stay; each link carries 10 in a second.
    auto const demands = system.all_to_all(10);
    Conditions conditions;
    conditions.partition_gbps = 40;
    EXPECT_NEAR(system.seconds(Policy::Mgi, demands, conditions), 1, kTolerance);
    EXPECT_NEAR(system.seconds(Policy::Ucx, demands, conditions), 0.75 + 1, 1e-9);
    conditions.partition_gbps = 15;
    EXPECT_NEAR(system.seconds(Policy::Mgi, demands, conditions), 2, 2 * kTolerance);
    EXPECT_NEAR(system.seconds(Policy::Nccl, demands, conditions), 2 + 1, 1e-9);
}

TEST(Prediction, WhatStaysIsOnlyPartitioned) {
    System const system = triangle();
    std::vector<Demand> const demands{{system.gpus[0], system.gpus[0], 20}};
    for (Policy const policy : {Policy::Mgi, Policy::Ucx, Policy::Nccl}) {
        EXPECT_EQ(system.seconds(policy, demands), 0);
        Conditions conditions;
        conditions.partition_gbps = 10;
        EXPECT_NEAR(system.seconds(policy, demands, conditions), 2, 1e-9);
    }
}

TEST(Prediction, SkewLeavesAPlansThroughputAsItIs) {
    // One source has 20 GB for two destinations, both links of which a plan fills whatever goes where.
    System const system = triangle();
    for (double const most : {10.0, 14.0, 18.0}) {
        std::vector<Demand> const demands{{system.gpus[0], system.gpus[1], most},
                                          {system.gpus[0], system.gpus[2], 20 - most}};
        EXPECT_NEAR(system.seconds(Policy::Mgi, demands), 1, kTolerance);
        EXPECT_NEAR(system.seconds(Policy::Ucx, demands), most / 10, 1e-9);
    }
}

TEST(Prediction, AllNicsOfAServerAgainstOne) {
    // Testbed3: 4 NICs of 25 GB/s. A pair takes them all; every pair between two servers shares them.
    System const system("testbed3");
    std::vector<Demand> const one{{system.gpus.front(), system.gpus.back(), 100}};
    EXPECT_NEAR(system.seconds(Policy::Mgi, one), 1, kTolerance);
    EXPECT_NEAR(system.seconds(Policy::Ucx, one), 4, 1e-9);
    auto const all = system.all_to_all(1);
    EXPECT_NEAR(system.seconds(Policy::Mgi, all), 0.32, 0.32 * kTolerance);
    EXPECT_NEAR(system.seconds(Policy::Nccl, all), 1.28, 1e-9);
    Conditions every;
    every.other_nics = 0;
    EXPECT_NEAR(system.seconds(Policy::Nccl, all, every), 0.32, 1e-9) << "each GPU's own NIC";
    Conditions limited;
    limited.rules.max_nics = 1;
    EXPECT_NEAR(system.seconds(Policy::Mgi, one, limited), 4, 4 * kTolerance);
}

TEST(Prediction, NcclRelaysWhereThatAvoidsACpu) {
    // In the cube GPU 0 has no NVLink to 5: shortest is PCIe and both CPUs, a relay has NVLinks.
    System const system("hybrid-cube-mesh");
    std::vector<Demand> const demands{{system.gpus[0], system.gpus[5], 1}};
    EXPECT_GT(system.seconds(Policy::Ucx, demands), system.seconds(Policy::Nccl, demands) * 2);
}

TEST(Prediction, AnNvlinkDomainHasTheNetworkBesideIt) {
    System const system(topology::preset("gb200-nvl72", 2));
    std::vector<Demand> const demands{{system.gpus.front(), system.gpus.back(), 100}};
    double const by_links = 100 / (18 * 40.1);
    EXPECT_NEAR(system.seconds(Policy::Ucx, demands), by_links, 1e-9);
    EXPECT_LT(system.seconds(Policy::Mgi, demands), by_links * 0.95);
}

TEST(Prediction, RandomPatternsKeepToEveryLink) {
    char const* const presets[] = {"testbed1", "testbed2",  "testbed3",  "topo4",
                                   "dgx-1",    "pcie-numa", "multi-rdma"};
    for (std::uint32_t seed = 0; seed < 40; ++seed) {
        std::mt19937 random(seed);
        System const system(presets[seed % std::size(presets)]);
        std::vector<Demand> demands;
        double all = 0;
        for (Demand demand : system.all_to_all(0)) {
            if (random() % 3 == 0) continue;
            demand.gigabytes = double(random() % 100) / 10;
            if (demand.source != demand.destination) all += demand.gigabytes;
            demands.push_back(demand);
        }
        Conditions conditions;
        conditions.partition_gbps = seed % 2 == 0 ? 0 : 50;
        for (Policy const policy : {Policy::Mgi, Policy::Ucx, Policy::Nccl}) {
            Prediction const made = predict(system.made, policy, demands, conditions);
            auto const& edges = system.made.graph.edges;
            double into_gpus = 0, out_of_gpus = 0;
            for (std::size_t e = 0; e < edges.size(); ++e) {
                ASSERT_LE(made.gigabytes[e], edges[e].gbps * made.seconds * (1 + 1e-6))
                    << "seed " << seed << ", " << to_string(policy);
                auto const kind = [&](std::uint32_t v) {
                    return system.made.graph.vertices[v].kind;
                };
                if (kind(edges[e].to) == VertexKind::Gpu) into_gpus += made.gigabytes[e];
                if (kind(edges[e].from) == VertexKind::Gpu) out_of_gpus += made.gigabytes[e];
            }
            // What relays pass on enters and leaves them alike.
            ASSERT_NEAR(into_gpus, out_of_gpus, 1e-6 * (1 + all));
            ASSERT_GE(into_gpus, all * (1 - 1e-6));
            if (policy != Policy::Mgi) continue;
            ASSERT_GE(made.seconds, made.least_seconds * (1 - 1e-9));
            ASSERT_LE(made.seconds, made.least_seconds * (1 + kTolerance)) << "seed " << seed;
        }
    }
}

TEST(Prediction, WhatCannotBeIsRefused) {
    System const system = triangle();
    std::uint32_t const a = system.gpus[0], b = system.gpus[1];
    Conditions const any;
    EXPECT_THROW(predict(system.made, Policy::Mgi, {{a, 99, 1}}, any), Error);
    EXPECT_THROW(predict(system.made, Policy::Mgi, {{a, b, -1}}, any), Error);
    Conditions negative;
    negative.partition_gbps = -1;
    EXPECT_THROW(predict(system.made, Policy::Ucx, {{a, b, 1}}, negative), Error);

    // A server and a GPU that nothing joins.
    GraphBuilder graph;
    auto const alone = graph.add(VertexKind::Gpu, "alone", 0);
    auto const other = graph.add(VertexKind::Gpu, "other", 1);
    Infrastructure const apart = std::move(graph).finish(2);
    for (Policy const policy : {Policy::Mgi, Policy::Ucx, Policy::Nccl}) {
        try {
            predict(apart, policy, {{alone, other, 1}}, any);
            FAIL() << to_string(policy);
        } catch (Error const& error) {
            EXPECT_EQ(std::string(error.what()).find("no path from alone to h1/other"), 0)
                << error.what();
        }
    }
}

}  // namespace
}  // namespace mgi::simulation
