// What one owner may have of what all share, and that the next one finds room and gets its turn.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <mgi/device/assert.hpp>

#include "control/state/keepsakes.hpp"
#include "control/state/owned.hpp"
#include "control/state/shares.hpp"
#include "control/state/turns.hpp"

namespace mgi::control::test {
namespace {

using Kind = ControllerMessage::MessageCase;

TEST(ControlSharesOfALimit, OneOwnerHasThreeQuartersAtMost) {
    Shares shares("places", 8, "leave some");
    EXPECT_EQ(shares.refusal("a", 6), "");
    shares.add("a", 6);
    EXPECT_EQ(shares.refusal("a"),
              "places: the limit is 8 for all; this one has 6 and asks for 1 more, and may "
              "have 3 times what is left for others; leave some");
    EXPECT_EQ(shares.refusal("b", 2), "");
    shares.add("b", 2);
    EXPECT_NE(shares.refusal("b"), "");
    EXPECT_NE(shares.refusal("c"), "");
    EXPECT_NE(shares.refusal("c", SIZE_MAX), "");
    shares.remove("a", 6);
    shares.remove("b", 2);
    EXPECT_TRUE(shares.by_owner().empty());
    EXPECT_EQ(shares.all(), 0u);
    EXPECT_EQ(Shares("one", 1, "").refusal("a"), "");
}

// Whoever makes himself many owners, each of whom takes all that it gets, leaves room for the next one.
TEST(ControlSharesOfALimit, TheNextOwnerFindsRoomHoweverManyThereAre) {
    Shares shares("bytes", 384u << 20, "");
    std::size_t const piece = 64;
    for (int i = 0; i < 8; ++i) {
        std::string const owner = "greedy " + std::to_string(i);
        std::size_t had = 0;
        for (; shares.refusal(owner, piece).empty(); had += piece) shares.add(owner, piece);
        EXPECT_GE(had, piece);
        if (i == 0) {
            EXPECT_EQ(had, 288u << 20);
        }
    }
    // Two that ask at the same time get as much.
    Shares both("bytes", 7000, "");
    for (bool more = true; more;) {
        more = false;
        for (std::string const owner : {"a", "b"}) {
            if (!both.refusal(owner).empty()) continue;
            both.add(owner);
            more = true;
        }
    }
    EXPECT_EQ(both.of("a"), 3000u);
    EXPECT_EQ(both.of("b"), 3000u);
    EXPECT_EQ(both.refusal("c", 750), "");
}

TEST(ControlKeepsakes, WhoHasTheMostMakesRoom) {
    Keepsakes<int> kept;
    kept.add("b", 1, 5);
    kept.add("a", 2, 4);
    kept.add("a", 3, 4);
    EXPECT_EQ(kept.drop_of_largest(), 2);
    EXPECT_EQ(kept.drop_of_largest(), 1);
    kept.add("b", 4, 1);
    EXPECT_EQ(kept.size(), 5u);
    EXPECT_EQ(kept.oldest(), 3);
    EXPECT_EQ(kept.drop_oldest(), 3);
    EXPECT_EQ(kept.drop_of_largest(), 4);
    EXPECT_TRUE(kept.empty());
    EXPECT_EQ(kept.size(), 0u);
}

TEST(ControlTurns, GoRoundByOwner) {
    Turns turns;
    for (std::uint32_t id : {1u, 2u, 3u}) turns.add("a", id, true);
    turns.add("b", 4, true);
    turns.add("c", 5, true);
    turns.add("c", 5, true);
    turns.remove("b", 9);
    std::vector<std::uint32_t> order;
    order.push_back(turns.take());
    order.push_back(turns.take());
    turns.add("b", 6, true);
    while (!turns.empty()) order.push_back(turns.take());
    EXPECT_EQ(order, (std::vector<std::uint32_t>{1, 4, 5, 2, 6, 3}));
}

TEST(ControlTurns, OneOwnersNewChannelsAndThoseThatRunComeInTurn) {
    Turns turns;
    for (std::uint32_t id : {1u, 2u, 3u}) turns.add("a", id, true);
    for (std::uint32_t id : {7u, 8u, 9u}) turns.add("a", id, false);
    turns.add("b", 4, true);
    turns.remove("a", 2);
    turns.remove("a", 9);
    std::vector<std::uint32_t> order;
    while (!turns.empty()) order.push_back(turns.take());
    EXPECT_EQ(order, (std::vector<std::uint32_t>{7, 4, 1, 8, 3}));
}

Settings little_of_all() {
    Settings made;
    made.limits.endpoints = 8;
    made.limits.channels = 8;
    made.limits.all_channel_endpoints = 32;
    made.limits.preparing = 8;
    made.limits.waiting_calls = 12;
    made.limits.gathers_bytes = made.limits.kept_gathers_bytes = 4000;
    made.limits.remembered = 4;
    made.limits.replanning = 2;
    return made;
}

struct ControlShares : Owned {
    explicit ControlShares(std::uint64_t epoch = 1, std::uint32_t first_id = 1)
        : Owned(little_of_all(), epoch, first_id) {}

    void expect_refused(CallId call, Problem expected, std::string const& text) {
        ASSERT_TRUE(rig.answers.contains(call));
        EXPECT_EQ(problem(call), expected);
        EXPECT_NE(rig.answers.at(call).text.find(text), std::string::npos)
            << rig.answers.at(call).text;
    }
    /// Nobody is remembered for what is over.
    void expect_nothing() const {
        for (Shares const* shares : rig.cluster.shares()) {
            EXPECT_EQ(shares->all(), 0u);
            EXPECT_TRUE(shares->by_owner().empty());
        }
    }
};

TEST_F(ControlShares, OfEndpoints) {
    Agent const a = rig.register_agent("a");
    std::vector<std::uint32_t> ids;
    for (int i = 0; i < 6; ++i)
        ids.push_back(made(endpoint(a, "greedy--" + std::to_string(i), "greedy")));
    expect_refused(endpoint(a, "greedy--6", "greedy"), Problem::ResourceExhausted,
                   "endpoints: the limit is 8 for all; this one has 6 and asks for 1 more");
    std::uint32_t const one = made(endpoint(a, "modest--1", "modest"));
    std::uint32_t const two = made(endpoint(a, "modest--2", "modest"));
    expect_refused(endpoint(a, "modest--3", "modest"), Problem::ResourceExhausted,
                   "this one has 2 and asks for 1 more");
    // What is given back is for whoever has less, first of all.
    EXPECT_EQ(problem(rig.delete_endpoint(a, ids[0])), Problem::None);
    expect_refused(endpoint(a, "greedy--7", "greedy"), Problem::ResourceExhausted, "has 5");
    for (std::uint32_t const id : {one, two}) {
        EXPECT_EQ(problem(rig.delete_endpoint(a, id)), Problem::None);
    }
    made(endpoint(a, "greedy--7", "greedy"));
}

TEST_F(ControlShares, OfChannelsAndTheirCreation) {
    Agent const a = rig.register_agent("a");
    std::uint32_t const theirs = made(endpoint(a, "endpoint-g", "greedy"));
    std::uint32_t const mine = made(endpoint(a, "endpoint-m", "modest"));
    for (int i = 0; i < 6; ++i) {
        (void)channel(a, "greedy--" + std::to_string(i), theirs, theirs, "greedy");
    }
    CallId const one_more = channel(a, "greedy--6", theirs, theirs, "greedy");
    expect_refused(one_more, Problem::ResourceExhausted, "channels: the limit is 8");
    CallId const first = channel(a, "modest--1", mine, mine, "modest");
    EXPECT_FALSE(rig.answers.contains(first));
    settle(a);
    made(first);
    // The same requests again are the same channels, whatever the share.
    made(channel(a, "greedy--3", theirs, theirs, "greedy"));
}

TEST_F(ControlShares, OfCallsThatWait) {
    Agent const a = rig.register_agent("a");
    std::uint32_t const theirs = made(endpoint(a, "endpoint-g", "greedy"));
    std::uint32_t const mine = made(endpoint(a, "endpoint-m", "modest"));
    for (int i = 0; i < 9; ++i) (void)channel(a, "greedy--1", theirs, theirs, "greedy");
    expect_refused(channel(a, "greedy--1", theirs, theirs, "greedy"), Problem::Unavailable,
                   "calls that wait for a channel: the limit is 12 for all; this one has 9");
    EXPECT_FALSE(rig.answers.contains(channel(a, "modest--1", mine, mine, "modest")));
}

TEST_F(ControlShares, OfGathers) {
    Agent const a = rig.register_agent("a");
    CallId last = 0;
    for (int i = 0; i < 12; ++i) {
        std::string const name = "greedy--" + std::to_string(i);
        last = gather(a, name, 0, "greedy", name);
    }
    ASSERT_TRUE(rig.answers.contains(last));
    CallId const one = gather(a, "modest--0", 0, "modest");
    CallId const two = gather(a, "modest--1", 1, "modest");
    EXPECT_EQ(problem(one), Problem::None);
    EXPECT_EQ(problem(two), Problem::None);
}

TEST_F(ControlShares, AnAnswerThatIsKeptIsNotDroppedForAnotherOwnersMany) {
    Agent const a = rig.register_agent("a");
    (void)gather(a, "modest--0", 0, "modest", "key", 1);
    for (int i = 0; i < 40; ++i) {
        EXPECT_EQ(problem(gather(a, "greedy--" + std::to_string(i), 0, "greedy", "key", 1)),
                  Problem::None);
    }
    // It is the same call again: not one that waits for a second rank.
    EXPECT_TRUE(rig.answers.contains(gather(a, "modest--0", 0, "modest", "key", 2)));
    // Several owners may have all of it together.
    for (int i = 0; i < 40; ++i) {
        std::string const owner = "greedy " + std::to_string(i % 3);
        EXPECT_EQ(problem(gather(a, "another-" + std::to_string(i), 0, owner, "key", 1)),
                  Problem::None);
    }
    EXPECT_TRUE(rig.answers.contains(gather(a, "modest--0", 0, "modest", "key", 2)));
    EXPECT_LE(rig.cluster.gathers().kept_bytes(), 4000u);
    rig.pass(10'000, {&a});
    EXPECT_EQ(rig.cluster.gathers().kept_bytes(), 0u);
}

TEST_F(ControlShares, ARequestThatIsOverIsRememberedBesideAnotherOwnersMany) {
    Agent const a = rig.register_agent("a");
    std::uint32_t const theirs = made(endpoint(a, "endpoint-g", "greedy"));
    std::uint32_t const mine = made(endpoint(a, "endpoint-m", "modest"));
    (void)channel(a, "modest--1", mine, mine, "modest");
    rig.plan("no way");
    for (int i = 0; i < 10; ++i) {
        (void)channel(a, "greedy--" + std::to_string(i), theirs, theirs, "greedy");
        rig.plan("no way");
    }
    expect_refused(channel(a, "modest--1", mine, mine, "modest"), Problem::InvalidArgument,
                   "no way");
    EXPECT_TRUE(rig.plans.empty());
    // The other one's last ones, too, and not its first.
    EXPECT_TRUE(rig.answers.contains(channel(a, "greedy--9", theirs, theirs, "greedy")));
    EXPECT_FALSE(rig.answers.contains(channel(a, "greedy--0", theirs, theirs, "greedy")));
    // The same for endpoints that were given back.
    EXPECT_EQ(problem(rig.delete_endpoint(a, mine)), Problem::None);
    for (int i = 0; i < 10; ++i) {
        std::uint32_t const id = made(endpoint(a, "churn---" + std::to_string(i), "greedy"));
        EXPECT_EQ(problem(rig.delete_endpoint(a, id)), Problem::None);
    }
    expect_refused(endpoint(a, "endpoint-m", "modest"), Problem::Aborted, "gone again");
}

TEST_F(ControlShares, AChannelIsPlannedAfterFewOfAnotherOwners) {
    Agent const a = rig.register_agent("a");
    std::uint32_t const theirs = made(endpoint(a, "endpoint-g", "greedy"));
    std::uint32_t const mine = made(endpoint(a, "endpoint-m", "modest"));
    for (int i = 0; i < 6; ++i) {
        (void)channel(a, "greedy--" + std::to_string(i), theirs, theirs, "greedy");
    }
    ASSERT_EQ(rig.plans.size(), 2u);  // that the planner has before it
    CallId const call = channel(a, "modest--1", mine, mine, "modest");
    EXPECT_EQ(rig.plans.size(), 2u);
    rig.plan();
    ASSERT_EQ(rig.plans.size(), 2u);
    EXPECT_TRUE(std::any_of(rig.plans.begin(), rig.plans.end(), [&](MakePlan const& plan) {
        return plan.sources.at(0).endpoint == mine;
    }));
    settle(a);
    made(call);
}

TEST_F(ControlShares, APlanIsRenewedAfterFewOfAnotherOwners) {
    Agent const a = rig.register_agent("a");
    std::uint32_t const theirs = made(endpoint(a, "endpoint-g", "greedy"));
    std::uint32_t const mine = made(endpoint(a, "endpoint-m", "modest"));
    for (int i = 0; i < 6; ++i) {
        (void)channel(a, "greedy--" + std::to_string(i), theirs, theirs, "greedy");
    }
    (void)channel(a, "modest--1", mine, mine, "modest");
    settle(a);
    change_link(a, 12);
    ASSERT_EQ(rig.plans.size(), 2u);
    EXPECT_TRUE(std::any_of(rig.plans.begin(), rig.plans.end(), [&](MakePlan const& plan) {
        return plan.sources.at(0).endpoint == mine;
    }));
}

/// With the controller's own limits.
struct ControlTurnsOfOneOwner : Owned {};

TEST_F(ControlTurnsOfOneOwner, ANewChannelWaitsForFewOfManyRenewals) {
    // Builds with assertions look at all channels again and again.
    constexpr int kMany = MGI_ASSERTIONS_ACTIVE ? 1'000 : 10'000;
    constexpr int kAtOnce = 500;
    Agent const a = rig.register_agent("a");
    std::uint32_t const mine = made(endpoint(a, "endpoint-m", "me"));
    rig.cluster.ids_reserved(IdKind::Channel, {100'001, 20'000});
    for (int i = 1; i <= kMany; ++i) {
        (void)channel(a, "request-" + std::to_string(i), mine, mine, "me");
        if (i % kAtOnce == 0) settle(a);
    }
    change_link(a, 12);
    ASSERT_EQ(rig.plans.size(), 2u);  // that the planner has before it
    CallId const call = channel(a, "request-new", mine, mine, "me");
    ASSERT_FALSE(rig.answers.contains(call)) << rig.answers.at(call).text;
    std::size_t before = 0;
    auto const is_new = [](MakePlan const& plan) { return plan.generation == 1; };
    while (std::none_of(rig.plans.begin(), rig.plans.end(), is_new)) {
        ASSERT_LE(before, 4u);
        before += rig.plans.size();
        settle_some(a);
    }
    // And the renewals are not kept waiting by as many new channels.
    for (int i = 0; i < kAtOnce; ++i) {
        (void)channel(a, "request-more-" + std::to_string(i), mine, mine, "me");
    }
    int renewals = 0;
    for (int i = 0; i < 10; ++i) {
        settle_some(a);
        renewals += int(rig.plans.size() -
                        std::size_t(std::count_if(rig.plans.begin(), rig.plans.end(), is_new)));
    }
    EXPECT_GE(renewals, 8);
    settle(a);
    made(call);
}

TEST_F(ControlShares, APlanThatWaitsIsMadeFromWhatIsKnownWhenItsTurnComes) {
    Agent a = rig.register_agent("a");
    Agent b = rig.register_agent("b");
    std::uint32_t const one = made(endpoint(a, "endpoint-1", "me"));
    std::uint32_t const two = made(endpoint(b, "endpoint-2", "me"));
    (void)channel(a, "request-1", one, one, "me");
    (void)channel(a, "request-2", one, one, "me");
    CallId const waits = channel(a, "request-3", one, two, "me");
    CallId const last = channel(a, "request-4", one, one, "me");
    rig.close(b);
    ASSERT_TRUE(rig.answers.contains(waits));
    EXPECT_EQ(problem(waits), Problem::Aborted);
    EXPECT_NE(rig.answers.at(waits).text.find("server b is away"), std::string::npos);
    rig.plan();
    ASSERT_EQ(rig.plans.size(), 1u);
    settle(a);
    made(last);
}

TEST_F(ControlShares, NobodyIsRememberedForWhatIsOver) {
    Agent const a = rig.register_agent("a");
    Agent const b = rig.register_agent("b");
    for (std::string const owner : {"greedy", "modest"}) {
        std::uint32_t const from = made(endpoint(a, "from----" + owner, owner));
        std::uint32_t const to = made(endpoint(b, "to------" + owner, owner));
        (void)channel(a, "running-" + owner, from, to, owner);
        settle(a);
        settle(b);
        (void)channel(a, "waiting-" + owner, from, to, owner);
        (void)gather(a, "gather--" + owner, 0, owner);
        (void)gather(a, "alone---" + owner, 0, owner, "alone", 1);
    }
    // One agent leaves the cluster, the other one is silent for longer than the grace.
    AgentMessage leave;
    leave.mutable_leave()->set_why("stopped");
    rig.say(b, leave);
    rig.close(a);
    rig.pass(30'000);
    expect_nothing();
    rig.plan();  // what nobody waits for any more
    expect_nothing();
}

TEST_F(ControlShares, CallersThatGiveUpLeaveNothing) {
    Agent const a = rig.register_agent("a");
    std::uint32_t const mine = made(endpoint(a, "endpoint-m", "me"));
    std::vector<CallId> const calls{channel(a, "request-1", mine, mine, "me"),
                                    channel(a, "request-1", mine, mine, "me"),
                                    gather(a, "request-2", 0, "me")};
    for (CallId const call : calls) {
        rig.apply([&](Now now, Effects& effects) { rig.cluster.call_gone(call, now, effects); });
    }
    rig.pass(6'000, {&a});
    EXPECT_EQ(problem(rig.delete_endpoint(a, mine)), Problem::None);
    expect_nothing();
}

/// Ids below 100 were given by an earlier controller.
struct ControlSharesAgain : ControlShares {
    ControlSharesAgain() : ControlShares(2, 100) {}
};

TEST_F(ControlSharesAgain, WhatAgentsHoldCounts) {
    Register held;
    for (std::uint32_t id = 1; id <= 7;
         ++id) {  // more than a share: of a controller that had more room
        *held.add_endpoints() = held_endpoint(id);
        held.mutable_endpoints()->rbegin()->set_owner("greedy");
    }
    *held.add_channels() = held_channel(3, {1}, {2}, 1, true);
    held.mutable_channels(0)->set_owner("greedy");
    Agent const a = rig.register_agent("a", "instance-1", held);
    auto const& registered = rig.got(a, Kind::kRegistered).at(0).registered();
    EXPECT_EQ(registered.lost_endpoints_size() + registered.lost_channels_size(), 0);
    EXPECT_EQ(rig.cluster.shares()[0]->of("greedy"), 7u);
    EXPECT_EQ(rig.cluster.shares()[1]->of("greedy"), 1u);
    EXPECT_EQ(rig.cluster.shares()[2]->of("greedy"), 2u);
    expect_refused(endpoint(a, "request-g", "greedy"), Problem::ResourceExhausted,
                   "this one has 7 and asks for 1 more");
    made(endpoint(a, "request-m", "modest"));
}

}  // namespace
}  // namespace mgi::control::test
