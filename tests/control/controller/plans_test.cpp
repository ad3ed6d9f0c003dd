// The planner as the controller drives it: servers come, change, fail and come back.
#include <gtest/gtest.h>

#include "control/controller/plans.hpp"
#include "control/state/rig.hpp"
#include "planner/directory.hpp"
#include "planner/table_codec.hpp"
#include "support/expect_error.hpp"

namespace mgi::control::test {
namespace {

using mgi::test::expect_error;

MakePlan request(std::uint32_t from, std::uint32_t to) {
    MakePlan made;
    made.channel = 1;
    made.generation = 1;
    made.sources = {{1, from, 1}};
    made.destinations = {{2, to, 2}};
    return made;
}

ServerGraph networked() {
    ServerGraph graph = server_graph();
    Vertex& network = *graph.add_vertices();
    network.set_name("network");
    network.set_kind(4);
    Vertex& nic = *graph.add_vertices();
    nic.set_name("nic0");
    nic.set_kind(2);
    auto const link = [&](std::uint32_t a, std::uint32_t b) {
        for (bool const there : {true, false}) {
            Link& one = *graph.add_links();
            one.set_from(there ? a : b);
            one.set_to(there ? b : a);
            one.set_gbps(12.5);
            one.set_kind("pcie");
        }
    };
    link(4, 0);
    link(4, 3);
    return graph;
}

TEST(ControlPlans, NamesServersAsAgentsDo) {
    auto const plans = make_plans();
    plans->learn(LearnServer{40, "b", networked()});
    plans->learn(LearnServer{7, "a", networked()});
    PlanMade const made = plans->plan(request(7, 40));
    ASSERT_EQ(made.tables.size(), 2u);
    EXPECT_FALSE(planner::decode_table(made.tables.at(7)).vertices.empty());
    EXPECT_TRUE(made.tables.contains(40));
    auto const directory = planner::decode_directory(made.directory);
    EXPECT_EQ(directory.sources.at(0), (planner::Place{7, 1}));
    EXPECT_EQ(directory.destinations.at(0), (planner::Place{40, 2}));
}

TEST(ControlPlans, FollowsLinksAndServers) {
    auto const plans = make_plans();
    plans->learn(LearnServer{1, "a", networked()});
    plans->learn(LearnServer{2, "b", networked()});
    PlanMade const whole = plans->plan(request(1, 2));
    Link down;
    down.set_from(4);
    down.set_to(3);
    plans->learn(LearnLink{1, down});
    expect_error(ErrorCode::InvalidArgument, {"a"}, [&] { plans->plan(request(1, 2)); });
    down.set_gbps(12.5);
    plans->learn(LearnLink{1, down});
    EXPECT_EQ(plans->plan(request(1, 2)).tables, whole.tables);
    Link fresh;  // a link that was not there when the server came
    fresh.set_from(1);
    fresh.set_to(2);
    fresh.set_gbps(300);
    plans->learn(LearnLink{1, fresh});
    EXPECT_NE(plans->plan(request(1, 1)).tables, whole.tables);
    plans->forget(2);
    expect_error(ErrorCode::NotFound, {"agent 2"}, [&] { plans->plan(request(1, 2)); });
    plans->learn(LearnServer{2, "b", networked()});
    EXPECT_EQ(plans->plan(request(2, 2)).tables.size(), 1u);
}

TEST(ControlPlans, AServerThatThePlannerRefusesSpoilsItsOwnPlansOnly) {
    auto const plans = make_plans();
    ServerGraph two = networked();
    two.mutable_vertices(4)->set_kind(4);
    EXPECT_THROW(plans->learn(LearnServer{1, "a", two}), Error);
    plans->learn(LearnServer{2, "b", networked()});
    expect_error(ErrorCode::InvalidArgument, {"two networks"}, [&] { plans->plan(request(1, 2)); });
    EXPECT_EQ(plans->plan(request(2, 2)).tables.size(), 1u);
    plans->learn(LearnServer{1, "a", networked()});
    EXPECT_EQ(plans->plan(request(1, 2)).tables.size(), 2u);
}

}  // namespace
}  // namespace mgi::control::test
