#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mgi/error.hpp>

#include "perf/plan_cluster.hpp"
#include "planner/channel_planner.hpp"
#include "planner/directory.hpp"
#include "planner/server_flows.hpp"
#include "planner/table_codec.hpp"

namespace mgi::planner {
namespace {

using perf::dgx_cluster;
using perf::dgx_server;
using perf::gpu_places;
using topology::GraphBuilder;

std::string text_of(Cluster const& cluster, ClusterPath const& path) {
    std::string text;
    for (Place const place : path.vertices) {
        text += (text.empty() ? "" : " ") + cluster.vertex_name(place);
    }
    return text;
}

Capacity sum_of(std::vector<ClusterPath> const& paths) {
    Capacity sum = 0;
    for (ClusterPath const& path : paths) sum += path.capacity;
    return sum;
}

TEST(ChannelPlanner, PathsOfAPairCarryTheMaximumFlowShortestFirst) {
    Cluster const cluster = dgx_cluster(16, 8, 1);
    ChannelPlanner planner(cluster);
    auto const gpus = gpu_places(cluster, 16);
    auto const near = planner.paths(gpus[0], gpus[1]);
    ASSERT_EQ(near.size(), 2u);
    std::set<std::string> const ways{text_of(cluster, near[0]), text_of(cluster, near[1])};
    EXPECT_EQ(ways, (std::set<std::string>{"gpu0 nvswitch gpu1", "gpu0 pcie0 gpu1"}));
    EXPECT_EQ(sum_of(near), capacity_of(370.8) + capacity_of(48));
    EXPECT_FALSE(near[0].nic_direct);

    auto const far = planner.paths(gpus[0], gpus[8]);
    ASSERT_FALSE(far.empty());
    EXPECT_EQ(text_of(cluster, far[0]), "gpu0 pcie0 nic0 network nic0 pcie0 gpu0");
    EXPECT_TRUE(far[0].nic_direct);
    ServerFlows flows(dgx_server(8, 0), 0);
    EXPECT_EQ(sum_of(far), std::min(flows.to_network(gpus[0].vertex, Relays::Allowed),
                                    flows.from_network(gpus[0].vertex, Relays::Allowed)));
    EXPECT_TRUE(std::is_sorted(far.begin(), far.end(), [](auto const& a, auto const& b) {
        return a.vertices.size() < b.vertices.size();
    }));
    EXPECT_TRUE(planner.paths(gpus[0], gpus[0]).empty());
}

TEST(ChannelPlanner, APathIsNicDirectWhereBothNicsAre) {
    auto const server = [](bool direct) {
        GraphBuilder graph;
        auto const gpu = graph.add(VertexKind::Gpu, "gpu", 0);
        auto const nic = graph.add(VertexKind::Nic, "nic", 0);
        graph.connect_both(gpu, nic, 20, "pcie");
        graph.connect_network(nic, 80'000);
        graph.set_nic_direct(nic, direct);
        return std::move(graph).finish(1);
    };
    Cluster cluster;
    for (bool const direct : {true, true, false}) {
        cluster.add_server(server(direct), "node" + std::to_string(cluster.size()));
    }
    EXPECT_EQ(cluster.shapes(), 2u) << "a NIC that is not direct is another shape's";
    ChannelPlanner planner(cluster);
    EXPECT_TRUE(planner.paths({0, 0}, {1, 0}).at(0).nic_direct);
    EXPECT_FALSE(planner.paths({0, 0}, {2, 0}).at(0).nic_direct);
    EXPECT_FALSE(planner.paths({2, 0}, {0, 0}).at(0).nic_direct);
}

TEST(ChannelPlanner, RulesCloseRelaysAndNics) {
    Cluster const cluster = dgx_cluster(16, 8, 1);
    ChannelPlanner planner(cluster);
    auto const gpus = gpu_places(cluster, 16);
    PathRules rules;
    rules.relay_gpus = false;
    rules.relay_host = false;
    EXPECT_EQ(sum_of(planner.paths(gpus[0], gpus[8], rules)), capacity_of(48));
    rules = {};
    rules.max_nics = 1;
    auto const one = planner.paths(gpus[0], gpus[8], rules);
    for (ClusterPath const& path : one) {
        EXPECT_NE(text_of(cluster, path).find("nic0 network nic0"), std::string::npos);
    }
    EXPECT_LE(sum_of(one), capacity_of(50));
}

TEST(ChannelPlanner, EqualServersShareOneTable) {
    Cluster const cluster = dgx_cluster(800, 8, 2);
    EXPECT_EQ(cluster.shapes(), 2u);
    ChannelPlanner planner(cluster);
    auto const gpus = gpu_places(cluster, 800);
    ChannelPlan const plan = planner.plan(gpus, gpus);
    ASSERT_EQ(plan.servers.size(), 100u);
    std::set<EncodedTable const*> tables;
    for (ServerPlan const& server : plan.servers) tables.insert(server.table.get());
    EXPECT_EQ(tables.size(), 2u);
    auto const directory = decode_directory(*plan.directory);
    EXPECT_EQ(directory.sources.blocks().size(), 1u);
    for (std::size_t i = 0; i < gpus.size(); ++i) ASSERT_EQ(directory.sources.at(i), gpus[i]);
    EXPECT_TRUE(plan.lanes.two_level);
    EXPECT_EQ(plan.lanes.count, 100u);
    EXPECT_EQ(plan.lanes.group_size, 8u);
    EXPECT_LT(plan.distinct_bytes(), plan.sent_bytes() / 40);
}

TEST(ChannelPlanner, ANicThatFailsChangesItsServerAlone) {
    Cluster cluster = dgx_cluster(32, 8, 1);
    ChannelPlanner planner(cluster);
    auto const gpus = gpu_places(cluster, 32);
    ChannelPlan const before = planner.plan(gpus, gpus);
    std::uint32_t nic = 0;
    while (!cluster.shape(2)->is(nic, VertexKind::Nic)) ++nic;
    cluster.set_nic(2, nic, false);
    EXPECT_EQ(cluster.shapes(), 2u);
    std::vector<ServerId> const changed{2};
    ChannelPlan const failed = planner.replan(before, changed);
    for (ServerId s = 0; s < 4; ++s) {
        EXPECT_EQ(failed.servers[s].table == before.servers[s].table, s != 2) << s;
    }
    ServerTable const table = decode_table(failed.servers[2].table->bytes);
    for (Arrival const& arrival : table.arrivals) {
        for (NextHop const& hop : arrival.hops) EXPECT_NE(hop.path.front(), nic);
    }
    EXPECT_EQ(failed.servers[2].table, planner.plan(gpus, gpus).servers[2].table);
    cluster.set_nic(2, nic, true);
    EXPECT_EQ(cluster.shapes(), 1u);
    EXPECT_EQ(planner.replan(failed, changed).servers[2].table, before.servers[2].table);
}

TEST(ChannelPlanner, RefusesWhatCannotBe) {
    Cluster cluster = dgx_cluster(16, 8, 1);
    ChannelPlanner planner(cluster);
    auto const gpus = gpu_places(cluster, 16);
    std::vector<Place> const none;
    auto const message = [&](auto&& call) -> std::string {
        try {
            call();
        } catch (Error const& error) {
            return error.what();
        }
        return "no error";
    };
    EXPECT_EQ(message([&] { planner.plan(none, gpus); }), "a channel without a source");
    EXPECT_EQ(message([&] { planner.plan(gpus, none); }), "a channel without a destination");
    std::vector<Place> const many(kMostEndpoints + 1, gpus[0]);
    EXPECT_NE(message([&] { planner.plan(gpus, many); }).find("at most 1048576"),
              std::string::npos);
    std::vector<Place> const nowhere{{7, 0}};
    EXPECT_EQ(message([&] { planner.plan(gpus, nowhere); }), "there is no server 7");
    std::vector<Place> const nic{{1, 0xff}};
    EXPECT_EQ(message([&] { planner.plan(nic, gpus); }), "server 'node1' has no vertex 255");
    std::vector<Place> const unmanaged{{1, 2}};
    EXPECT_EQ(message([&] { planner.plan(unmanaged, gpus); }),
              "no endpoint can be at node1/pcie0, which MGI does not manage");
    for (std::uint32_t v = 0; v < cluster.shape(1)->vertices().size(); ++v) {
        if (cluster.shape(1)->is(v, VertexKind::Nic)) cluster.set_nic(1, v, false);
    }
    EXPECT_EQ(message([&] { planner.plan(gpus, gpus); }),
              "no way from node1/gpu0 to the network, and other servers have destinations");
}

/// Two GPUs with an NVLink each to the domain's switch; a NIC for both, unless there is none.
topology::Infrastructure tray(bool nic, bool second_link = true) {
    GraphBuilder graph;
    auto const cpu = graph.add(VertexKind::Cpu, "cpu", 0);
    auto const a = graph.add(VertexKind::Gpu, "a", 0);
    auto const b = graph.add(VertexKind::Gpu, "b", 0);
    graph.hang(a, cpu, 50, "c2c");
    graph.hang(b, cpu, 50, "c2c");
    auto const domain = graph.nvswitch(topology::kEveryServer);
    graph.connect_both(a, domain, 900, "nvlink");
    if (second_link) graph.connect_both(b, domain, 900, "nvlink");
    if (nic) {
        auto const card = graph.add(VertexKind::Nic, "nic", 0);
        graph.hang(card, cpu, 40, "pcie");
        graph.connect_network(card, 240'000);
    }
    return std::move(graph).finish(1);
}

TEST(ChannelPlanner, ServersOfOneDomainUseLinksAndNics) {
    Cluster cluster;
    cluster.add_server(tray(true), "t0", "rack");
    cluster.add_server(tray(true), "t1", "rack");
    cluster.add_server(tray(true), "t2", "other rack");
    EXPECT_EQ(cluster.shapes(), 1u);
    ChannelPlanner planner(cluster);
    auto const gpus = gpu_places(cluster, 6);
    auto const near = planner.paths(gpus[0], gpus[2]);
    ASSERT_FALSE(near.empty());
    EXPECT_EQ(text_of(cluster, near[0]), "a nvlink domain a");
    EXPECT_EQ(near[0].capacity, capacity_of(900));
    // And all that the link to the CPU takes: 30 by the NICs, 20 by the other GPU's NVLink.
    EXPECT_EQ(sum_of(near), capacity_of(950));
    EXPECT_EQ(sum_of(planner.paths(gpus[0], gpus[4])), capacity_of(30));
    ChannelPlan const plan = planner.plan(gpus, gpus);
    EXPECT_EQ(plan.servers[0].table, plan.servers[1].table);
    ServerTable const in_rack = decode_table(plan.servers[0].table->bytes);
    ServerTable const alone = decode_table(plan.servers[2].table->bytes);
    auto const has = [](ServerTable const& table, Target::Kind kind) {
        for (Forward const& forward : table.vertices.back().forwards) {
            if (forward.target.kind == kind) return true;
        }
        return false;
    };
    EXPECT_TRUE(has(in_rack, Target::Kind::Domain));
    EXPECT_TRUE(has(in_rack, Target::Kind::Network));
    EXPECT_FALSE(has(alone, Target::Kind::Domain));
    EXPECT_TRUE(has(alone, Target::Kind::Network));
}

/// Every link of a tray's GPU b fails.
void isolate_b(Cluster& cluster, ServerId server) {
    auto const arcs = cluster.shape(server)->arcs();
    for (Arc const arc : arcs) {
        if (arc.from == 2 || arc.to == 2) cluster.set_link(server, arc.from, arc.to, 0);
    }
}

/// GPU a's link to the domain fails; the domain is vertex 3.
void leave_domain(Cluster& cluster, ServerId server) {
    auto const arcs = cluster.shape(server)->arcs();
    for (Arc const arc : arcs) {
        if (arc.from == 3 || arc.to == 3) cluster.set_link(server, arc.from, arc.to, 0);
    }
}

std::string refused_channel(ChannelPlanner& planner, std::vector<Place> const& from,
                            std::vector<Place> const& to) {
    try {
        planner.plan(from, to);
    } catch (Error const& error) {
        return error.what();
    }
    return {};
}

TEST(ChannelPlanner, OnlyPairsWithABrokenLinkToTheDomainNeedTheNetwork) {
    Cluster cluster;
    cluster.add_server(tray(false), "t0", "rack");
    cluster.add_server(tray(false), "t1", "rack");
    cluster.add_server(tray(true), "t2", "rack");
    cluster.add_server(tray(true), "t3", "rack");
    ChannelPlanner planner(cluster);
    std::vector<Place> const senders{{0, 1}, {2, 1}};
    std::vector<Place> const receivers{{1, 1}};
    EXPECT_EQ(refused_channel(planner, senders, receivers), "");
    // The network joins t2 and t3; t0 and t1, which have no NIC, still have the domain.
    leave_domain(cluster, 3);
    std::vector<Place> const more{{0, 1}, {2, 1}, {3, 1}};
    EXPECT_EQ(refused_channel(planner, senders, receivers), "");
    EXPECT_EQ(refused_channel(planner, {{2, 1}, {3, 1}}, {{2, 1}, {3, 1}}), "");
    // t3 and t0 both only send, t1 receives from t0, and t2 from both.
    EXPECT_EQ(refused_channel(planner, {{3, 1}, {2, 2}}, {{2, 1}}), "");
    EXPECT_EQ(refused_channel(planner, {{0, 1}, {3, 1}}, {{2, 1}}), "");
    // Only t1, which t3 has to reach, lacks the network.
    EXPECT_EQ(refused_channel(planner, more, receivers),
              "no way from the network to t1/a, and other servers have sources");
    EXPECT_EQ(refused_channel(planner, receivers, more),
              "no way from t1/a to the network, and other servers have destinations");
    // Ways are the endpoints' own: a is off the domain, and has a NIC; b has no link but the domain.
    cluster.recover_link(3, 2, 3);
    cluster.recover_link(3, 3, 2);
    cluster.set_link(3, 2, 0, 0);
    cluster.set_link(3, 0, 2, 0);
    PathRules no_relay;
    no_relay.relay_gpus = false;
    ChannelPlan const mixed =
        planner.plan(std::vector<Place>{{2, 1}}, std::vector<Place>{{3, 1}, {3, 2}}, no_relay);
    EXPECT_EQ(mixed.servers.size(), 2u);
}

TEST(ChannelPlanner, WithoutNicsADomainMustReachAll) {
    Cluster cluster;
    cluster.add_server(tray(false), "t0", "rack");
    cluster.add_server(tray(false), "t1", "rack");
    ChannelPlanner planner(cluster);
    auto const gpus = gpu_places(cluster, 4);
    EXPECT_EQ(planner.plan(gpus, gpus).servers.size(), 2u);
    for (ServerId const server : {0u, 1u}) isolate_b(cluster, server);
    EXPECT_THROW(planner.plan(gpus, gpus), Error);
    cluster.add_server(tray(false), "t2", "other rack");
    std::vector<Place> const from{{0, 1}};
    std::vector<Place> const to{{2, 1}};
    try {
        planner.plan(from, to);
        FAIL() << "no network joins the two";
    } catch (Error const& error) {
        EXPECT_STREQ(error.what(),
                     "no way from t0/a to the network, and other servers have destinations");
    }
}

TEST(ChannelPlanner, KeepsNoMoreThanItsLimits) {
    Cluster const cluster = dgx_cluster(400, 8, 0);
    PlannerLimits limits;
    limits.path_bytes = limits.table_bytes = 100'000;
    limits.plan_bytes = 400'000;
    ChannelPlanner planner(cluster, limits);
    auto const gpus = gpu_places(cluster, 400);
    ChannelPlan const plan = planner.plan(gpus, gpus);
    EXPECT_LT(planner.kept_bytes(), 700'000u);
    ChannelPlan const again = planner.plan(gpus, gpus);
    for (std::size_t s = 0; s < plan.servers.size(); ++s) {
        ASSERT_EQ(again.servers[s].table->bytes, plan.servers[s].table->bytes);
    }
    planner.clear();
    EXPECT_EQ(planner.kept_bytes(), 0u);
}

/// What the planner keeps may be kept by plans alone: their tables count.
TEST(ChannelPlanner, CountsTheTablesThatKeptPlansHold) {
    Cluster const cluster = dgx_cluster(800, 8, 0);
    PlannerLimits limits;
    limits.path_bytes = limits.table_bytes = 0;
    ChannelPlanner planner(cluster, limits);
    auto const gpus = gpu_places(cluster, 800);
    std::weak_ptr<EncodedTable const> first;
    std::uint64_t tables = 0;
    for (std::size_t n = 0; n < 4; ++n) {
        std::span<Place const> const some(gpus.data(), gpus.size() - 8 * n);
        ChannelPlan const plan = planner.plan(some, some);
        tables += plan.distinct_bytes();
        if (n == 0) first = plan.servers[0].table;
        EXPECT_GE(planner.kept_bytes(), tables);
    }
    EXPECT_FALSE(first.expired());
    limits.plan_bytes = tables / 2;
    ChannelPlanner frugal(cluster, limits);
    for (std::size_t n = 0; n < 4; ++n) {
        std::span<Place const> const some(gpus.data(), gpus.size() - 8 * n);
        ChannelPlan const plan = frugal.plan(some, some);
        if (n == 0) first = plan.servers[0].table;
    }
    EXPECT_TRUE(first.expired()) << "dropped with its plan";
}

}  // namespace
}  // namespace mgi::planner
