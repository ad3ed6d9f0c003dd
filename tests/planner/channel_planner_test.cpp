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
#include "support/random.hpp"

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

TEST(ChannelPlanner, RefusesAPathOfMoreHopsThanATableHasStages) {
    auto const table = [](std::uint32_t gpus) {
        Shape const chain(0, std::vector<ShapeVertex>(gpus, {VertexKind::Gpu, true, false}), {},
                          kNowhere);
        TableBuilder builder;
        builder.start(chain);
        PathList list;
        for (std::uint32_t g = 0; g < gpus; ++g) list.push(g);
        list.add(1);
        builder.add(list[0]);
        return decode_table(builder.bytes());
    };
    auto const longest = table(257);
    ASSERT_EQ(longest.vertices.size(), 256u);
    EXPECT_EQ(longest.vertices.back().forwards.at(0).stage, 255);
    try {
        table(258);
        FAIL();
    } catch (Error const& error) {
        EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
        EXPECT_STREQ(error.what(),
                     "the path from vertex 0 to vertex 257 has more than 256 hops between GPUs and "
                     "CPUs, which no forwarding table has room for");
    }
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

/// DESIGN section 6: each pair's flow is 1, all together 2.
TEST(ChannelPlanner, CandidatesCarryTheJointFlow) {
    GraphBuilder graph;
    auto const s1 = graph.add(VertexKind::Gpu, "s1", 0);
    auto const s2 = graph.add(VertexKind::Gpu, "s2", 0);
    auto const x = graph.add(VertexKind::Switch, "x", 0);
    auto const y = graph.add(VertexKind::Switch, "y", 0);
    auto const d = graph.add(VertexKind::Gpu, "d", 0);
    graph.connect(s1, x, 1, "pcie");
    graph.connect(s2, x, 1, "pcie");
    graph.connect(x, d, 1, "pcie");
    graph.connect(x, y, 1, "pcie");
    graph.connect(y, d, 1, "pcie");
    Cluster cluster;
    cluster.add_server(std::move(graph).finish(1), "node");
    ChannelPlanner planner(cluster);
    std::vector<Place> const sources{{0, s1}, {0, s2}};
    std::vector<Place> const destinations{{0, d}};
    EXPECT_EQ(planner.paths(sources[0], destinations[0]).size(), 1u);
    ChannelPlan const plan = planner.plan(sources, destinations);
    ServerTable const table = decode_table(plan.servers.at(0).table->bytes);
    std::set<std::vector<LocalVertex>> ways;
    for (VertexTable const& vertex : table.vertices) {
        for (Forward const& forward : vertex.forwards) {
            for (NextHop const& hop : forward.hops) ways.insert(hop.path);
        }
    }
    EXPECT_EQ(ways.size(), 2u);
    EXPECT_TRUE(ways.contains({LocalVertex(x), LocalVertex(y)}));
}

/// Whether a path inside a server stands in its table, hop by hop, by whatever stages.
bool leads(ServerTable const& table, Shape const& shape, std::span<LocalVertex const> path) {
    std::size_t from = 0;
    std::set<std::uint8_t> stages{0};
    for (std::size_t to = 1; to < path.size(); ++to) {
        if (!shape.managed(path[to])) continue;
        std::vector<LocalVertex> const between(path.begin() + std::ptrdiff_t(from) + 1,
                                               path.begin() + std::ptrdiff_t(to));
        std::set<std::uint8_t> next;
        for (VertexTable const& vertex : table.vertices) {
            if (vertex.vertex != path[from]) continue;
            for (Forward const& forward : vertex.forwards) {
                if (!stages.contains(forward.stage) || forward.target.vertex != path.back())
                    continue;
                for (NextHop const& hop : forward.hops) {
                    if (hop.next == path[to] && hop.path == between) next.insert(hop.stage);
                }
            }
        }
        if (next.empty()) return false;
        from = to;
        stages = std::move(next);
    }
    return stages.contains(0);
}

/// A server of vertices of any kind, every second a GPU on average, and the GPUs dealt to sources and
/// destinations.
struct RandomServer {
    explicit RandomServer(test::Random& random) {
        GraphBuilder graph;
        auto const vertices = std::uint32_t(random.between(4, 12));
        for (std::uint32_t v = 0; v < vertices; ++v) {
            bool const gpu = random.below(2) == 0;
            graph.add(gpu ? VertexKind::Gpu : VertexKind::Switch, "v" + std::to_string(v), 0);
            if (gpu) (random.below(2) == 0 ? sources : destinations).push_back({0, v});
        }
        for (std::uint64_t e = 4 * vertices; e > 0; --e) {
            auto const from = std::uint32_t(random.below(vertices));
            auto const to = std::uint32_t(random.below(vertices));
            if (from != to) graph.connect(from, to, double(random.between(1, 9)), "pcie");
        }
        cluster.add_server(std::move(graph).finish(1), "node");
    }
    Cluster cluster;
    std::vector<Place> sources;
    std::vector<Place> destinations;
};

TEST(ChannelPlanner, EveryPathOfTheJointFlowStandsInTheTables) {
    test::Random random(31);
    std::uint32_t planned = 0;
    for (int round = 0; round < 500; ++round) {
        SCOPED_TRACE(round);
        RandomServer server(random);
        Cluster& cluster = server.cluster;
        auto const& sources = server.sources;
        auto const& destinations = server.destinations;
        ChannelPlanner planner(cluster);
        ChannelPlan plan;
        try {
            plan = planner.plan(sources, destinations);
        } catch (Error const&) {
            continue;  // some pair has no way
        }
        ++planned;
        ServerTable const table = decode_table(plan.servers.at(0).table->bytes);
        Role const& role = *plan.servers[0].role;
        SmallFlow flow;
        ShapePaths paths(cluster.shape(0), {});
        PathList const& joint =
            paths.find_joint(flow, role.sources.list(), role.destinations.list());
        for (std::uint32_t p = 0; p < joint.size(); ++p) {
            ASSERT_TRUE(leads(table, *cluster.shape(0), joint[p].vertices));
        }
        for (Place const from : sources) {
            for (Place const to : destinations) {
                PathRange const range = paths.find(flow, from.vertex, to.vertex);
                for (std::uint32_t p = range.begin; p < range.end; ++p) {
                    ASSERT_TRUE(leads(table, *cluster.shape(0), paths.list()[p].vertices));
                }
            }
        }
    }
    EXPECT_GT(planned, 50u);
}

/// Goes every way that a table allows, from one entry on.
class Walks {
public:
    Walks(ServerTable const& table, Target target) : table_(table), target_(target) {}

    /// Whether all walks from here end at the target without a managed vertex twice.
    bool simple(LocalVertex vertex, std::uint8_t stage) {
        if (!met_.insert(vertex).second) return false;
        bool good = false;
        for (VertexTable const& at : table_.vertices) {
            if (at.vertex != vertex) continue;
            for (Forward const& forward : at.forwards) {
                if (forward.target != target_ || forward.stage != stage) continue;
                good = true;
                for (NextHop const& hop : forward.hops) good = good && simple(hop, stage);
            }
        }
        met_.erase(vertex);
        return good;
    }
    bool simple(NextHop const& hop, std::uint8_t stage) {
        bool const arrived = target_.kind != Target::Kind::Local || hop.next == target_.vertex;
        if (hop.stage == 0) return ++count, arrived && !met_.contains(hop.next);
        return hop.stage > stage && simple(hop.next, hop.stage);
    }

    std::uint64_t count = 0;

private:
    ServerTable const& table_;
    Target target_;
    std::set<LocalVertex> met_;
};

/// All walks of a table, from every source and every gateway; 0: one met a vertex twice.
std::uint64_t simple_walks(ServerTable const& table) {
    std::uint64_t count = 0;
    for (VertexTable const& vertex : table.vertices) {
        for (Forward const& forward : vertex.forwards) {
            if (forward.stage != 0) continue;
            Walks walks(table, forward.target);
            if (!walks.simple(vertex.vertex, 0)) return 0;
            count += walks.count;
        }
    }
    for (Arrival const& arrival : table.arrivals) {
        Walks walks(table, {Target::Kind::Local, arrival.destination});
        for (NextHop const& hop : arrival.hops) {
            if (!walks.simple(hop, 0)) return 0;
        }
        count += walks.count;
    }
    return count;
}

/// The smallest case: t needs t a b d beside t a d, and b needs b a d. Were stages the hops behind a
/// segment, both would meet at a's first, where b's segments could go back to b.
TEST(ChannelPlanner, WalksThroughATableMeetNoVertexTwice) {
    GraphBuilder graph;
    auto const t = graph.add(VertexKind::Gpu, "t", 0);
    auto const a = graph.add(VertexKind::Gpu, "a", 0);
    auto const b = graph.add(VertexKind::Gpu, "b", 0);
    auto const d = graph.add(VertexKind::Gpu, "d", 0);
    graph.connect(t, a, 2, "nvlink");
    for (auto const& [from, to] : {std::pair{a, b}, {b, a}, {a, d}, {b, d}}) {
        graph.connect(from, to, 1, "nvlink");
    }
    Cluster cluster;
    cluster.add_server(std::move(graph).finish(1), "node");
    ChannelPlanner planner(cluster);
    std::vector<Place> const sources{{0, t}, {0, b}};
    std::vector<Place> const destinations{{0, d}};
    ChannelPlan const plan = planner.plan(sources, destinations);
    ServerTable const table = decode_table(plan.servers.at(0).table->bytes);
    EXPECT_EQ(simple_walks(table), 4u) << "t a d, t a b d, b d, b a d";
    for (std::vector<std::uint32_t> const& path :
         {std::vector{t, a, d}, {t, a, b, d}, {b, d}, {b, a, d}}) {
        std::vector<LocalVertex> const vertices(path.begin(), path.end());
        EXPECT_TRUE(leads(table, *cluster.shape(0), vertices));
    }
}

TEST(ChannelPlanner, WalksThroughTablesOfAnyServerMeetNoVertexTwice) {
    test::Random random(32);
    std::uint32_t planned = 0;
    std::uint32_t late = 0;
    for (int round = 0; round < 1500 && planned < 500; ++round) {
        SCOPED_TRACE(round);
        RandomServer server(random);
        auto gpus = server.sources;
        gpus.insert(gpus.end(), server.destinations.begin(), server.destinations.end());
        ChannelPlanner planner(server.cluster);
        ChannelPlan plan;
        try {
            plan = planner.plan(gpus, gpus);
        } catch (Error const&) {
            continue;  // some pair has no way
        }
        ++planned;
        ServerTable const table = decode_table(plan.servers.at(0).table->bytes);
        if (gpus.size() > 1) {
            ASSERT_GT(simple_walks(table), 0u);
        }
        for (VertexTable const& vertex : table.vertices) {
            for (Forward const& forward : vertex.forwards) {
                for (NextHop const& hop : forward.hops) {
                    late += hop.stage > forward.stage + 1 ? 1 : 0;
                }
            }
        }
    }
    EXPECT_EQ(planned, 500u);
    EXPECT_GT(late, 0u) << "some path had to keep out of another one's way";
}

/// Two servers of a domain with more vertices together than one server can have.
TEST(ChannelPlanner, PathsBetweenTheLargestServersNameTheRightVertices) {
    GraphBuilder graph;
    auto const a = graph.add(VertexKind::Gpu, "a", 0);
    auto const domain = graph.nvswitch(topology::kEveryServer);
    while (graph.made().sites.size() + 1 < topology::kMostVertices) {
        graph.add(VertexKind::Switch, "s" + std::to_string(graph.made().sites.size()), 0);
    }
    auto const b = graph.add(VertexKind::Gpu, "b", 0);
    ASSERT_EQ(b, 65535u);
    graph.connect_both(a, domain, 900, "nvlink");
    graph.connect_both(b, domain, 400, "nvlink");
    auto const server = std::move(graph).finish(1);
    Cluster cluster;
    cluster.add_server(server, "t0", "rack");
    cluster.add_server(server, "t1", "rack");
    ChannelPlanner planner(cluster);
    auto const paths = planner.paths({0, b}, {1, b});
    ASSERT_EQ(paths.size(), 1u);
    EXPECT_EQ(paths[0].vertices, (std::vector<Place>{{0, b}, {0, domain}, {1, b}}));
    std::vector<Place> const both{{0, a}, {0, b}, {1, b}};
    ServerTable const table = decode_table(planner.plan(both, both).servers.at(0).table->bytes);
    EXPECT_EQ(table.vertices.back().vertex, b);
    EXPECT_EQ(simple_walks(table), 6u);
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

std::string refusal(ChannelPlanner& planner, std::vector<Place> const& from,
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
    EXPECT_EQ(refusal(planner, senders, receivers), "");
    // The network joins t2 and t3; t0 and t1, which have no NIC, still have the domain.
    leave_domain(cluster, 3);
    std::vector<Place> const more{{0, 1}, {2, 1}, {3, 1}};
    EXPECT_EQ(refusal(planner, senders, receivers), "");
    EXPECT_EQ(refusal(planner, {{2, 1}, {3, 1}}, {{2, 1}, {3, 1}}), "");
    // t3 and t0 both only send, t1 receives from t0, and t2 from both.
    EXPECT_EQ(refusal(planner, {{3, 1}, {2, 2}}, {{2, 1}}), "");
    EXPECT_EQ(refusal(planner, {{0, 1}, {3, 1}}, {{2, 1}}), "");
    // Only t1, which t3 has to reach, lacks the network.
    EXPECT_EQ(refusal(planner, more, receivers),
              "no way from the network to t1/a, and other servers have sources");
    EXPECT_EQ(refusal(planner, receivers, more),
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
