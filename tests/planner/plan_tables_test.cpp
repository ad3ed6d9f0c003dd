#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mgi/error.hpp>

#include "planner/channel_planner.hpp"
#include "planner/table_builder.hpp"
#include "planner/table_codec.hpp"
#include "support/random.hpp"

// Which walks the tables of a plan allow: every path that a flow needs, and no vertex twice.
namespace mgi::planner {
namespace {

using topology::GraphBuilder;

TEST(PlanTables, RefusesAPathOfMoreHopsThanATableHasStages) {
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

/// DESIGN section 6: each pair's flow is 1, all together 2.
TEST(PlanTables, CandidatesCarryTheJointFlow) {
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

TEST(PlanTables, EveryPathOfTheJointFlowStandsInTheTables) {
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
TEST(PlanTables, WalksThroughATableMeetNoVertexTwice) {
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

TEST(PlanTables, WalksThroughTablesOfAnyServerMeetNoVertexTwice) {
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
TEST(PlanTables, PathsBetweenTheLargestServersNameTheRightVertices) {
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

}  // namespace
}  // namespace mgi::planner
