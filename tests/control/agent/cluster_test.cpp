// Agents and controller together, in virtual time: what survives what.
#include <gtest/gtest.h>

#include <string>

#include "control/agent/parties.hpp"
#include "support/cases.hpp"

namespace mgi::control::test {
namespace {

TEST_F(ClusterOfAgents, AChannelIsPlannedPreparedAndCommittedOnItsServers) {
    World world(3);
    Party const a = party(world, 0);
    Party const b = party(world, 1);
    Party const other = party(world, 2);
    EXPECT_NE(a.endpoint, b.endpoint);
    ClusterPlan const plan = channel(world, a, b);
    EXPECT_EQ(plan.generation, 1u);
    EXPECT_EQ(plan.table, "table of " + std::to_string(plan.channel) + ", 1");
    ASSERT_TRUE(world.run_until([&] { return !b.node->notices(b.application, "plan").empty(); }));
    EXPECT_EQ(plan_in(b.node->notices(b.application, "plan")[0]).channel, plan.channel);
    EXPECT_TRUE(other.node->notices(other.application, "plan").empty());
    EXPECT_EQ(state_of(world, plan.channel), "running");
    Json const deleted =
        world.answer(*a.node, a.application, {{"op", "delete_channel"}, {"channel", plan.channel}});
    EXPECT_TRUE(deleted.contains("ok")) << deleted;
    ASSERT_TRUE(
        world.run_until([&] { return !b.node->notices(b.application, "channel_ended").empty(); }));
    EXPECT_EQ(b.node->notices(b.application, "channel_ended")[0]["failed"], false);
    EXPECT_TRUE(
        world.answer(*a.node, a.application, {{"op", "delete_endpoint"}, {"endpoint", a.endpoint}})
            .contains("ok"));
}

TEST_F(ClusterOfAgents, AServerWithoutEndpointsMayCreateAChannelOfOthers) {
    World world(3);
    Party const a = party(world, 0);
    Party const b = party(world, 1);
    Party const creator{&world.node(2), world.node(2).application("planner"), 0, 0};
    Json const answer = world.answer(*creator.node, creator.application, channel_request(a, b));
    ASSERT_TRUE(answer.contains("ok")) << answer;
    EXPECT_EQ(plan_in(answer).table, "");
    EXPECT_EQ(a.node->notices(a.application, "plan").size(), 1u);
    creator.node->leave(creator.application);
    ASSERT_TRUE(
        world.run_until([&] { return !a.node->notices(a.application, "channel_ended").empty(); }));
}

TEST_F(ClusterOfAgents, ACreatorWithoutEndpointsOutlivesRestartsOfAgentAndController) {
    World world(3);
    Party const a = party(world, 0);
    Party const b = party(world, 1);
    Party creator{&world.node(2), world.node(2).application("planner"), 0, 0};
    Json const answer = world.answer(*creator.node, creator.application, channel_request(a, b));
    ASSERT_TRUE(answer.contains("ok")) << answer;
    ClusterPlan const plan = plan_in(answer);
    Json created = held(creator, plan, true);
    created.erase("endpoints");

    creator.node->kill();
    creator.node->start();
    world.run(Milliseconds(300));
    creator.application = creator.node->application("planner", created);
    world.run(Milliseconds(15'000));
    EXPECT_TRUE(nobody_lost({a, b, creator}));
    EXPECT_EQ(state_of(world, plan.channel), "running");

    world.kill_controller();
    world.run(Milliseconds(500));
    world.start_controller();
    world.run(Milliseconds(15'000));
    EXPECT_TRUE(nobody_lost({a, b, creator}));
    EXPECT_EQ(state_of(world, plan.channel), "running");
    Json const over = world.answer(*creator.node, creator.application,
                                   {{"op", "delete_channel"}, {"channel", plan.channel}});
    EXPECT_TRUE(over.contains("ok")) << over;
    ASSERT_TRUE(
        world.run_until([&] { return !a.node->notices(a.application, "channel_ended").empty(); }));
}

TEST_F(ClusterOfAgents, ACreatorWithoutEndpointsIsLearnedFromItsAgent) {
    World world(3);
    Party const a = party(world, 0);
    Party const b = party(world, 1);
    Party const creator{&world.node(2), world.node(2).application("planner"), 0, 0};
    Json const answer = world.answer(*creator.node, creator.application, channel_request(a, b));
    ASSERT_TRUE(answer.contains("ok")) << answer;
    // The agent's process is the same: what it says is what it remembers, not its applications.
    world.kill_controller();
    world.run(Milliseconds(500));
    world.start_controller();
    ASSERT_TRUE(
        world.run_until([&] { return state_of(world, plan_in(answer).channel) == "running"; }));
    Json const over =
        world.answer(*creator.node, creator.application,
                     {{"op", "delete_channel"}, {"channel", plan_in(answer).channel}});
    EXPECT_TRUE(over.contains("ok")) << over;
    ASSERT_TRUE(
        world.run_until([&] { return !a.node->notices(a.application, "channel_ended").empty(); }));
}

// Nobody else deletes it, whichever server the new controller hears of first.
TEST_F(ClusterOfAgents, ACreatorsEndWithoutAControllerEndsItsChannels) {
    for (bool const creator_first : {true, false}) {
        SCOPED_TRACE(creator_first ? "its server first" : "its server last");
        World world(3);
        Party const a = party(world, 0);
        Party const b = party(world, 1);
        Party const creator{&world.node(2), world.node(2).application("planner"), 0, 0};
        Json const answer = world.answer(*creator.node, creator.application, channel_request(a, b));
        ASSERT_TRUE(answer.contains("ok")) << answer;
        std::uint32_t const id = plan_in(answer).channel;
        world.kill_controller();
        world.run(Milliseconds(100));
        creator.node->leave(creator.application);
        auto const part = [&](bool parted) {
            for (Party const& late : {a, b}) late.node->parted = parted && creator_first;
            creator.node->parted = parted && !creator_first;
        };
        part(true);
        world.run(Milliseconds(100));
        world.start_controller();
        ASSERT_TRUE(world.run_until(
            [&] { return server_state(world, creator_first ? "node2" : "node0") == "present"; }));
        part(false);
        ASSERT_TRUE(world.run_until([&] {
            return !a.node->notices(a.application, "channel_ended").empty() &&
                   !b.node->notices(b.application, "channel_ended").empty();
        })) << state_of(world, id);
        world.run(Milliseconds(15'000));
        EXPECT_NE(state_of(world, id), "running");
        EXPECT_EQ(creator.node->core().status()["requests"], 0u);
        EXPECT_EQ(creator.node->core().status()["channels"], 0u);
    }
}

// One server's agent comes back first, and its application goes on at once.
TEST_F(ClusterOfAgents, AChannelAskedForWhileOthersComeBackIsMade) {
    World world(2);
    Party const a = party(world, 0);
    Party const b = party(world, 1);
    world.kill_controller();
    b.node->parted = true;
    world.run(Milliseconds(200));
    std::uint64_t const waits = a.node->ask(a.application, channel_request(a, b));
    world.start_controller();
    ASSERT_TRUE(world.run_until([&] { return server_state(world, "node0") == "present"; }));
    world.run(Milliseconds(500));
    EXPECT_FALSE(a.node->answer(a.application, waits).has_value());
    b.node->parted = false;
    ASSERT_TRUE(world.run_until([&] { return a.node->answer(a.application, waits).has_value(); }));
    EXPECT_TRUE(a.node->answer(a.application, waits)->contains("ok"));
}

TEST_F(ClusterOfAgents, ErrorsComeBackInTheControllersWords) {
    World world(1);
    Party const a = party(world, 0);
    Party nobody = a;
    nobody.endpoint = 999;
    Json const answer = world.answer(*a.node, a.application, channel_request(a, nobody));
    ASSERT_TRUE(answer.contains("error")) << answer;
    EXPECT_NE(answer["error"]["message"].get<std::string>().find("999"), std::string::npos)
        << answer;
    Json const device =
        world.answer(*a.node, a.application, {{"op", "create_endpoint"}, {"device", "gpu9"}});
    EXPECT_NE(device["error"]["message"].get<std::string>().find("cpu0, gpu0, gpu1"),
              std::string::npos)
        << device;
}

TEST_F(ClusterOfAgents, AControllersRestartIsNotNoticedByChannels) {
    World world(2);
    Party const a = party(world, 0);
    Party const b = party(world, 1);
    ClusterPlan const plan = channel(world, a, b);
    world.kill_controller();
    world.run(Milliseconds(500));
    EXPECT_FALSE(a.node->notices(a.application, "controller").empty());
    // A request of that time waits, and so does its answer.
    std::uint64_t const waits = a.node->ask(a.application, {{"op", "create_endpoint"}});
    world.run(Milliseconds(500));
    world.start_controller();
    ASSERT_TRUE(world.run_until([&] { return state_of(world, plan.channel) == "running"; }));
    ASSERT_TRUE(world.run_until([&] { return a.node->answer(a.application, waits).has_value(); }));
    Json const made = *a.node->answer(a.application, waits);
    ASSERT_TRUE(made.contains("endpoint")) << made;
    EXPECT_GT(made["endpoint"].get<std::uint32_t>(), std::max(a.endpoint, b.endpoint));
    world.run(Milliseconds(15'000));
    EXPECT_TRUE(nobody_lost({a, b}));
    EXPECT_EQ(state_of(world, plan.channel), "running");
    ClusterPlan const second = channel(world, b, a);
    EXPECT_GT(second.channel, plan.channel);
}

TEST_F(ClusterOfAgents, AnAgentsRestartIsNotNoticedByChannels) {
    World world(2);
    Party a = party(world, 0);
    Party const b = party(world, 1);
    ClusterPlan const plan = channel(world, a, b);
    a.node->kill();
    ASSERT_TRUE(world.run_until([&] { return !b.node->notices(b.application, "server").empty(); }));
    EXPECT_EQ(b.node->notices(b.application, "server")[0]["state"], "away");
    a.node->start();
    world.run(Milliseconds(300));  // it registers before its application is back
    a.application = a.node->application("query", held(a, plan, true));
    world.run(Milliseconds(15'000));
    EXPECT_TRUE(nobody_lost({a, b}));
    EXPECT_EQ(state_of(world, plan.channel), "running");
    EXPECT_EQ(server_state(world, "node0"), "present");
    // The channel's creator may end it still.
    EXPECT_TRUE(
        world.answer(*a.node, a.application, {{"op", "delete_channel"}, {"channel", plan.channel}})
            .contains("ok"));
}

TEST_F(ClusterOfAgents, AnApplicationThatDoesNotComeBackHasGivenUp) {
    World world(2);
    Party const a = party(world, 0);
    Party const b = party(world, 1);
    ClusterPlan const plan = channel(world, a, b);
    a.node->kill();
    a.node->start();
    ASSERT_TRUE(
        world.run_until([&] { return !b.node->notices(b.application, "channel_ended").empty(); }));
    EXPECT_EQ(b.node->notices(b.application, "channel_ended")[0]["failed"], true);
    EXPECT_EQ(state_of(world, plan.channel), "failed");
}

TEST_F(ClusterOfAgents, APartitionShorterThanTheGraceLosesNothing) {
    World world(2);
    Party const a = party(world, 0);
    Party const b = party(world, 1);
    ClusterPlan const plan = channel(world, a, b);
    a.node->parted = true;
    ASSERT_TRUE(world.run_until([&] { return server_state(world, "node0") == "away"; }));
    ASSERT_TRUE(
        world.run_until([&] { return !a.node->notices(a.application, "controller").empty(); }));
    world.run(Milliseconds(4000));
    a.node->parted = false;
    ASSERT_TRUE(world.run_until([&] { return server_state(world, "node0") == "present"; }));
    world.run(Milliseconds(15'000));
    EXPECT_TRUE(nobody_lost({a, b}));
    EXPECT_EQ(state_of(world, plan.channel), "running");
}

TEST_F(ClusterOfAgents, APartitionLongerThanTheGraceFailsItsChannelsOnBothSides) {
    World world(2);
    Party const a = party(world, 0);
    Party const b = party(world, 1);
    ClusterPlan const plan = channel(world, a, b);
    a.node->parted = true;
    ASSERT_TRUE(
        world.run_until([&] { return !b.node->notices(b.application, "channel_ended").empty(); }));
    Json const ended = b.node->notices(b.application, "channel_ended")[0];
    EXPECT_EQ(ended["failed"], true);
    EXPECT_NE(ended["why"].get<std::string>().find("node0"), std::string::npos) << ended;
    EXPECT_TRUE(a.node->notices(a.application, "channel_ended").empty());
    a.node->parted = false;
    ASSERT_TRUE(
        world.run_until([&] { return !a.node->notices(a.application, "channel_ended").empty(); }));
    EXPECT_EQ(a.node->notices(a.application, "endpoint_lost").size(), 1u);
    EXPECT_EQ(state_of(world, plan.channel), "failed");
    (void)party(world, 0, "another");
}

TEST_F(ClusterOfAgents, AFrozenAgentComesBackWithWhatItHolds) {
    World world(2);
    Party const a = party(world, 0);
    Party const b = party(world, 1);
    ClusterPlan const plan = channel(world, a, b);
    a.node->frozen = true;
    ASSERT_TRUE(world.run_until([&] { return server_state(world, "node0") == "away"; }));
    world.run(Milliseconds(3000));
    a.node->thaw();
    ASSERT_TRUE(world.run_until([&] { return server_state(world, "node0") == "present"; }));
    world.run(Milliseconds(15'000));
    EXPECT_TRUE(nobody_lost({a, b}));
    EXPECT_EQ(state_of(world, plan.channel), "running");
}

TEST_F(ClusterOfAgents, AnApplicationsEndEndsItsChannelsElsewhere) {
    World world(2);
    Party const a = party(world, 0);
    Party const b = party(world, 1);
    (void)channel(world, a, b);
    a.node->leave(a.application);
    ASSERT_TRUE(
        world.run_until([&] { return !b.node->notices(b.application, "channel_ended").empty(); }));
    EXPECT_TRUE(world.run_until([&] { return world.snapshot().endpoints.size() == 1; }));
}

TEST_F(ClusterOfAgents, AnApplicationsEndWhileTheControllerIsAwayIsToldLater) {
    World world(2);
    Party const a = party(world, 0);
    Party const b = party(world, 1);
    (void)channel(world, a, b);
    world.kill_controller();
    world.run(Milliseconds(200));
    a.node->leave(a.application);
    world.run(Milliseconds(200));
    world.start_controller();
    ASSERT_TRUE(
        world.run_until([&] { return !b.node->notices(b.application, "channel_ended").empty(); }));
}

TEST_F(ClusterOfAgents, ALinkThatFailsGivesANewGeneration) {
    World world(2);
    Party const a = party(world, 0);
    Party const b = party(world, 1);
    ClusterPlan const plan = channel(world, a, b);
    a.node->core().link_changed(3, 0, 0);
    ASSERT_TRUE(world.run_until([&] {
        auto const notices = a.node->notices(a.application, "plan");
        return !notices.empty() && plan_in(notices.back()).generation > plan.generation;
    }));
    EXPECT_TRUE(nobody_lost({a, b}));
}

// Whatever happens and in whatever order: requests are answered, and in the end applications, agents
// and controller hold the same.
TEST_F(ClusterOfAgents, SeedsOfFaults) {
    for (std::uint64_t seed = 1; seed <= mgi::test::cases(60U) && !HasFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        World world(3, seed);
        std::vector<Party> parties;
        for (std::size_t n = 0; n < world.size(); ++n) parties.push_back(party(world, n));
        std::vector<std::pair<Party, std::uint64_t>> asked;
        bool controller = true;
        auto const below = [&](std::uint64_t bound) { return world.random() % bound; };
        for (int step = 0; step < 40; ++step) {
            Party const& one = parties[below(parties.size())];
            Party const& two = parties[below(parties.size())];
            switch (below(8)) {
                case 0:
                case 1:
                case 2:
                    if (!one.node->frozen) {
                        asked.emplace_back(
                            one, one.node->ask(one.application, channel_request(one, two)));
                    }
                    break;
                case 3: one.node->parted = !one.node->parted; break;
                case 4:
                    if (one.node->frozen) {
                        one.node->thaw();
                    } else {
                        one.node->frozen = true;
                    }
                    break;
                case 5:
                    if (controller) {
                        world.kill_controller();
                    } else {
                        world.start_controller();
                    }
                    controller = !controller;
                    break;
                default: break;
            }
            world.run(Milliseconds(below(1500)));
        }
        if (!controller) world.start_controller();
        for (Party const& party : parties) {
            party.node->parted = false;
            if (party.node->frozen) party.node->thaw();
        }
        world.run(Milliseconds(60'000));
        std::set<std::uint32_t> expected;
        std::map<std::uint32_t, std::uint32_t> made;
        for (auto const& [who, id] : asked) {
            auto const answer = who.node->answer(who.application, id);
            ASSERT_TRUE(answer) << "request " << id << " of " << who.endpoint << " has no answer";
            if (answer->contains("ok")) made[answer->value("channel", 0u)] = who.endpoint;
        }
        for (Party const& party : parties) {
            for (Json const& ended : party.node->notices(party.application, "channel_ended")) {
                made.erase(ended["channel"].get<std::uint32_t>());
            }
        }
        for (auto const& [id, who] : made) expected.insert(id);
        std::set<std::uint32_t> running;
        for (ChannelView const& view : world.snapshot().channels) {
            if (view.state == "running") running.insert(view.id);
            EXPECT_NE(view.state, "preparing");
            EXPECT_NE(view.state, "recovering");
        }
        EXPECT_EQ(running, expected);
        for (Party const& party : parties) {
            Json const status = party.node->core().status();
            EXPECT_EQ(status["reached"], true);
            EXPECT_EQ(status["requests"], 0u) << status;
        }
    }
}

}  // namespace
}  // namespace mgi::control::test
