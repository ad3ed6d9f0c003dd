#include "planner/small_flow.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "planner/joint_flow.hpp"
#include "support/random.hpp"

namespace mgi::planner {
namespace {

std::vector<Arc> random_arcs(test::Random& random, std::uint32_t vertices, std::uint64_t most) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, Capacity> arcs;
    for (std::uint64_t i = random.below(most) + vertices; i > 0; --i) {
        auto const from = std::uint32_t(random.below(vertices));
        auto const to = std::uint32_t(random.below(vertices));
        if (from != to) arcs[{from, to}] = random.between(1, 12);
    }
    std::vector<Arc> list;
    for (auto const& [pair, capacity] : arcs) list.push_back({pair.first, pair.second, capacity});
    return list;
}

/// That paths are simple, within the arcs' capacities and open vertices; what they carry.
Capacity check_paths(std::vector<Arc> const& arcs, PathList const& paths, std::uint64_t open) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, Capacity> left;
    for (Arc const& arc : arcs) left[{arc.from, arc.to}] += arc.capacity;
    Capacity sum = 0;
    for (std::uint32_t p = 0; p < paths.size(); ++p) {
        auto const vertices = paths[p].vertices;
        EXPECT_GT(paths[p].capacity, 0);
        EXPECT_GE(vertices.size(), 2u);
        EXPECT_EQ(std::set<LocalVertex>(vertices.begin(), vertices.end()).size(), vertices.size());
        for (std::size_t i = 0; i + 1 < vertices.size(); ++i) {
            EXPECT_GE(
                left[std::make_pair(std::uint32_t(vertices[i]), std::uint32_t(vertices[i + 1]))] -=
                paths[p].capacity,
                0);
        }
        for (LocalVertex const v : vertices) EXPECT_EQ(open >> v & 1, 1u);
        sum += paths[p].capacity;
    }
    return sum;
}

TEST(SmallFlow, AgreesWithTheNetworkOnRandomGraphs) {
    test::Random random(11);
    SmallFlow flow;
    for (int round = 0; round < 10'000 && !HasFailure(); ++round) {
        SCOPED_TRACE(round);
        auto const vertices = std::uint32_t(random.between(2, round % 50 == 0 ? 64 : 12));
        auto const arcs = random_arcs(random, vertices, 5 * vertices);
        SmallGraph graph;
        graph.reset(vertices);
        for (Arc const& arc : arcs) graph.add(arc.from, arc.to, arc.capacity);
        FlowNetwork network(vertices, arcs);
        flow.load(graph);
        // The same graph several times: what one flow changes must be undone for the next.
        for (int pair = 0; pair < 4; ++pair) {
            auto const from = std::uint32_t(random.below(vertices));
            auto const to = std::uint32_t(random.below(vertices));
            std::uint64_t open = ~std::uint64_t(0);
            std::vector<bool> closed(vertices, false);
            for (std::uint32_t v = 0; v < vertices; ++v) {
                if (v == from || v == to || !random.one_in(5)) continue;
                open &= ~(std::uint64_t(1) << v);
                closed[v] = true;
            }
            network.close(closed);
            PathList paths;
            Capacity const value = flow.run(from, to, open, paths);
            ASSERT_EQ(value, network.max_flow_value(from, to));
            ASSERT_EQ(check_paths(arcs, paths, open), value);
            for (std::uint32_t p = 0; p < paths.size(); ++p) {
                ASSERT_EQ(paths[p].vertices.front(), from);
                ASSERT_EQ(paths[p].vertices.back(), to);
                if (p > 0) {
                    ASSERT_GE(paths[p].vertices.size(), paths[p - 1].vertices.size());
                }
            }
        }
    }
}

/// What all sources send to all sinks at once: with a source and a sink above them all.
Capacity most_together(std::uint32_t vertices, std::vector<Arc> arcs,
                       std::vector<std::uint32_t> const& sources,
                       std::vector<std::uint32_t> const& sinks) {
    constexpr Capacity kPlenty = 1'000'000;
    for (std::uint32_t const s : sources) arcs.push_back({vertices, s, kPlenty});
    for (std::uint32_t const d : sinks) arcs.push_back({d, vertices + 1, kPlenty});
    return FlowNetwork(vertices + 2, std::move(arcs)).max_flow_value(vertices, vertices + 1);
}

TEST(JointFlow, CarriesWhatAllSourcesSendToAllSinksTogether) {
    test::Random random(12);
    SmallFlow flow;
    JointFlow joint;
    for (int round = 0; round < 10'000 && !HasFailure(); ++round) {
        SCOPED_TRACE(round);
        auto const vertices = std::uint32_t(random.between(3, round % 100 == 0 ? 70 : 12));
        auto const arcs = random_arcs(random, vertices, 4 * vertices);
        std::vector<std::uint32_t> sources;
        std::vector<std::uint32_t> sinks;
        for (std::uint32_t v = 0; v < vertices; ++v) {
            std::uint64_t const role = random.below(3);
            if (role == 0) sources.push_back(v);
            if (role == 1) sinks.push_back(v);
        }
        JointQuestion question{vertices, arcs, sources, sinks, [](std::uint32_t) { return false; }};
        PathList paths;
        joint.find(question, flow, paths);
        // Capacities above hold for graphs of any size; bits only for 64 vertices.
        std::uint64_t const open = vertices <= 64 ? ~std::uint64_t(0) : 0;
        Capacity const sum = vertices <= 64 ? check_paths(arcs, paths, open) : [&] {
            Capacity all = 0;
            for (std::uint32_t p = 0; p < paths.size(); ++p) all += paths[p].capacity;
            return all;
        }();
        ASSERT_EQ(sum, most_together(vertices, arcs, sources, sinks));
    }
}

TEST(JointFlow, OfThoseThatAreBothNothingComesBack) {
    // All send and receive through one switch.
    for (std::uint32_t ends = 2; ends <= 7; ++ends) {
        std::vector<Arc> arcs;
        std::vector<std::uint32_t> all;
        for (std::uint32_t v = 1; v <= ends; ++v) {
            arcs.push_back({v, 0, 5});
            arcs.push_back({0, v, 5});
            all.push_back(v);
        }
        SmallFlow flow;
        PathList paths;
        JointFlow().find({ends + 1, arcs, all, all, [](std::uint32_t) { return false; }}, flow,
                         paths);
        // Half of them send to the other half, and back.
        if (ends % 2 == 0) {
            EXPECT_EQ(check_paths(arcs, paths, ~std::uint64_t(0)), 5 * Capacity(ends));
        }
        EXPECT_GE(paths.size(), ends);
        for (std::uint32_t p = 0; p < paths.size(); ++p) {
            EXPECT_NE(paths[p].vertices.front(), paths[p].vertices.back());
        }
    }
}

TEST(JointFlow, ClosedSourcesPassNothingOn) {
    // 0 -> 1 -> 2 and both 0 and 1 send: with 1 closed, 0 gets nothing through it.
    std::vector<Arc> const arcs{{0, 1, 5}, {1, 2, 9}};
    std::vector<std::uint32_t> const sources{0, 1};
    std::vector<std::uint32_t> const sinks{2};
    SmallFlow flow;
    PathList open;
    JointFlow().find({3, arcs, sources, sinks, [](std::uint32_t) { return false; }}, flow, open);
    PathList closed;
    JointFlow().find({3, arcs, sources, sinks, [](std::uint32_t v) { return v == 1; }}, flow,
                     closed);
    EXPECT_EQ(check_paths(arcs, open, ~std::uint64_t(0)), 9);
    EXPECT_EQ(check_paths(arcs, closed, ~std::uint64_t(0)), 9);
    for (std::uint32_t p = 0; p < closed.size(); ++p) EXPECT_EQ(closed[p].vertices.front(), 1);
}

}  // namespace
}  // namespace mgi::planner
