// Endpoints that leave a channel: it goes on without them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "control/state/rig.hpp"

namespace mgi::control::test {
namespace {

using Kind = ControllerMessage::MessageCase;

struct Left : ::testing::Test {
    Rig rig;
    Agent a = rig.register_agent("a");
    Agent b = rig.register_agent("b");
    std::uint32_t const ea = rig.endpoint(a);
    std::uint32_t const eb = rig.endpoint(b);
    std::uint32_t const id = rig.running(a, b);  // created by a

    std::string state() const {
        for (ChannelView const& view : rig.cluster.snapshot(Now{rig.time, 0}).channels) {
            if (view.id == id) return view.state;
        }
        return "none";
    }
    void gone(Agent const& agent, std::uint32_t endpoint) {
        AgentMessage message;
        message.mutable_endpoints_gone()->add_endpoints(endpoint);
        message.mutable_endpoints_gone()->set_why("its application has ended");
        rig.say(agent, message);
    }
    std::vector<ControllerMessage> ended(Agent const& agent) const {
        return rig.got(agent, Kind::kChannelEnded);
    }
    /// As an agent says it when it registers.
    Register held(std::uint32_t endpoint, std::vector<std::uint32_t> const& left,
                  bool creator = false) const {
        Register word;
        if (endpoint != 0) *word.add_endpoints() = held_endpoint(endpoint);
        HeldChannel& channel = *word.add_channels();
        channel = held_channel(id, {ea}, {eb}, 1, true);
        channel.set_creator(creator);
        channel.mutable_left()->Assign(left.begin(), left.end());
        return word;
    }
};
using ControlLeaving = Left;

TEST_F(ControlLeaving, WhoHasLeftMayEndWithoutTheChannelsEnd) {
    rig.leave(a, id, {ea}, true);
    ASSERT_EQ(ended(a).size(), 1u);
    EXPECT_FALSE(ended(a)[0].channel_ended().failed());
    ASSERT_EQ(rig.got(b, Kind::kChannelLeft).size(), 1u);
    EXPECT_EQ(rig.got(b, Kind::kChannelLeft)[0].channel_left().endpoints(0), ea);
    gone(a, ea);
    rig.close(a);
    rig.pass(30'000, {&b});  // its server fails, too
    EXPECT_EQ(state(), "running");
    EXPECT_TRUE(ended(b).empty());
    rig.leave(b, id, {eb});
    EXPECT_EQ(state(), "deleted");
    ASSERT_EQ(ended(b).size(), 1u);
    EXPECT_FALSE(ended(b)[0].channel_ended().failed());
}

TEST_F(ControlLeaving, AnEndpointThatHasLeftMayBeDeleted) {
    EXPECT_EQ(rig.answers.at(rig.delete_endpoint(b, eb)).problem, Problem::FailedPrecondition);
    rig.leave(b, id, {eb});
    EXPECT_EQ(rig.answers.at(rig.delete_endpoint(b, eb)).problem, Problem::None);
    EXPECT_EQ(state(), "running");
}

// By another way than the word that it has left.
TEST_F(ControlLeaving, AnEndpointsDeletionMaySayWhatItHasLeft) {
    DeleteEndpointRequest message;
    *message.mutable_sender() = b.sender;
    message.set_endpoint(eb);
    message.add_left(id);
    message.add_left(id + 100);
    rig.apply([&](Now now, Effects& effects) {
        rig.cluster.delete_endpoint(1'000'000, message, now, effects);
    });
    EXPECT_EQ(rig.answers.at(1'000'000).problem, Problem::None);
    EXPECT_EQ(state(), "running");
    rig.leave(b, id, {eb});  // and then it comes
    EXPECT_EQ(rig.got(a, Kind::kChannelLeft).size(), 1u);
}

TEST_F(ControlLeaving, WhoHasNotLeftEndsItAsBefore) {
    rig.leave(a, id, {ea}, true);
    gone(b, eb);
    EXPECT_EQ(state(), "failed");
}

// Its creator may be another application of the server than the one whose endpoint has left.
TEST_F(ControlLeaving, TheCreatorStaysItUntilItLeaves) {
    rig.leave(a, id, {ea});
    EXPECT_TRUE(ended(a).empty());
    rig.leave(b, id, {eb});
    EXPECT_EQ(state(), "deleted");
    EXPECT_EQ(ended(a).size(), 1u);
}

TEST_F(ControlLeaving, ACreatorWithoutEndpointsLeavesItToTheOthers) {
    Agent const c = rig.register_agent("c");
    CallId const call = rig.create_channel(c, "request-2", {ea}, {eb});
    std::uint32_t const other = rig.plans.at(0).channel;
    rig.plan();
    rig.accept(a, other);
    rig.accept(b, other);
    EXPECT_EQ(rig.answers.at(call).id, other);
    rig.leave(c, other, {}, true);
    EXPECT_EQ(ended(c).size(), 1u);
    rig.close(c);
    rig.pass(30'000, {&a, &b});
    EXPECT_TRUE(ended(a).empty());
}

TEST_F(ControlLeaving, NobodyLeavesForOthersOrFromWhatHeIsNotIn) {
    rig.leave(b, id, {ea});
    rig.leave(a, id, {ea + 100, eb});
    rig.leave(a, id + 100, {ea});
    EXPECT_TRUE(rig.got(b, Kind::kChannelLeft).empty());
    gone(a, ea);
    EXPECT_EQ(state(), "failed");
}

TEST_F(ControlLeaving, SaidTwiceItIsTheSame) {
    rig.leave(a, id, {ea}, true);
    rig.leave(a, id, {ea}, true);
    EXPECT_EQ(rig.got(b, Kind::kChannelLeft).size(), 1u);
    EXPECT_EQ(ended(a).size(), 1u);
}

// A plan is for those who are there; where one side has left there is nothing to plan.
TEST_F(ControlLeaving, PlansAreMadeWithoutWhoHasLeft) {
    Agent c = rig.register_agent("c");
    std::uint32_t const ec = rig.endpoint(c);
    CallId const call = rig.create_channel(a, "request-2", {ea, ec}, {eb});
    std::uint32_t const other = rig.plans.at(0).channel;
    rig.plan();
    for (Agent const* agent : {&a, &b, &c}) rig.accept(*agent, other);
    ASSERT_EQ(rig.answers.at(call).problem, Problem::None);
    rig.leave(c, other, {ec});
    gone(c, ec);
    AgentMessage change;
    Link& link = *change.mutable_link_change()->mutable_link();
    link.set_from(0);
    link.set_to(1);
    link.set_gbps(12);
    rig.say(a, change);
    auto const plan = std::find_if(rig.plans.begin(), rig.plans.end(),
                                   [&](MakePlan const& asked) { return asked.channel == other; });
    ASSERT_NE(plan, rig.plans.end());
    ASSERT_EQ(plan->sources.size(), 1u);
    EXPECT_EQ(plan->sources[0].endpoint, ea);
    rig.plan({}, "another");
    rig.accept(a, other, 2);
    rig.leave(b, other, {eb});  // it was still to accept
    rig.plan({}, "another");
    link.set_gbps(6);
    rig.say(a, change);
    for (MakePlan const& asked : rig.plans) EXPECT_NE(asked.channel, other);
    EXPECT_EQ(rig.got(a, Kind::kCommitPlan).back().commit_plan().generation(), 2u);
}

TEST_F(ControlLeaving, AnAgentThatRegistersAgainSaysIt) {
    rig.close(a);
    Agent const again = rig.register_agent("a", "instance-1", held(ea, {ea}), a.sender);
    EXPECT_EQ(rig.got(b, Kind::kChannelLeft).size(), 1u);
    // It has left, and its creator's word still counts.
    EXPECT_TRUE(rig.got(again, Kind::kChannelEnded).empty());
    Register word = held(ea, {ea});
    word.mutable_channels(0)->set_creator_left(true);
    rig.close(again);
    Agent const last = rig.register_agent("a", "instance-1", word, again.sender);
    EXPECT_EQ(rig.got(last, Kind::kRegistered)[0].registered().lost_channels_size(), 1);
    rig.close(last);
    rig.pass(30'000, {&b});
    EXPECT_EQ(state(), "running");
}

// Its applications have forgotten it, and so does it.
TEST_F(ControlLeaving, ARestartedAgentOwesNothingOfWhatItsApplicationsLeft) {
    rig.leave(a, id, {ea}, true);
    rig.close(a);
    Agent const again = rig.register_agent("a", "instance-2", {}, a.sender);
    rig.pass(30'000, {&again, &b});
    EXPECT_EQ(state(), "running");
    EXPECT_TRUE(ended(b).empty());
}

TEST_F(ControlLeaving, ARestartedAgentHearsWhoHasLeft) {
    rig.leave(a, id, {ea}, true);
    rig.close(b);
    Agent const again = rig.register_agent("b", "instance-2", held(eb, {}), b.sender);
    ASSERT_EQ(rig.got(again, Kind::kChannelLeft).size(), 1u);
    EXPECT_EQ(rig.got(again, Kind::kChannelLeft)[0].channel_left().endpoints(0), ea);
}

struct ControlLeavingLater : ::testing::Test {
    Rig rig{{}, 2, 1000};
    static constexpr std::uint32_t kId = 5, kA = 11, kB = 12;

    static Sender earlier(std::uint32_t agent) {
        Sender sender;
        sender.set_agent(agent);
        sender.set_epoch(1);
        sender.set_incarnation(1);
        return sender;
    }
    static Register held(std::uint32_t endpoint, std::vector<std::uint32_t> const& left) {
        Register word;
        if (endpoint != 0) *word.add_endpoints() = held_endpoint(endpoint);
        HeldChannel& channel = *word.add_channels();
        channel = held_channel(kId, {kA}, {kB}, 3, true);
        channel.mutable_left()->Assign(left.begin(), left.end());
        return word;
    }
    std::string state() const {
        Snapshot const shown = rig.cluster.snapshot(Now{rig.time, 0});
        for (ChannelView const& view : shown.channels) {
            if (view.id == kId) return view.state;
        }
        return "none";
    }
};

TEST_F(ControlLeavingLater, ANewControllerWaitsForNobodyWhoHasLeft) {
    Agent const b = rig.register_agent("b", "instance-1", held(kB, {kA}), earlier(2));
    EXPECT_EQ(state(), "running");
    // Whoever has left may still hold the endpoint, and not the channel.
    Register word;
    *word.add_endpoints() = held_endpoint(kA);
    Agent const a = rig.register_agent("a", "instance-1", word, earlier(1));
    rig.pass(30'000, {&a, &b});
    EXPECT_EQ(state(), "running");
    rig.leave(b, kId, {kB});
    EXPECT_EQ(state(), "deleted");
}

// Only the server that was left behind knows: the controller died before it told the others.
TEST_F(ControlLeavingLater, WhatAllHaveLeftIsOver) {
    Agent const a = rig.register_agent("a", "instance-1", held(0, {kA}), earlier(1));
    EXPECT_EQ(state(), "recovering");
    Agent const b = rig.register_agent("b", "instance-1", held(kB, {kB}), earlier(2));
    EXPECT_NE(state(), "running");
    EXPECT_NE(state(), "failed");
    EXPECT_EQ(rig.got(a, Kind::kChannelEnded).size(), 1u);
    rig.pass(30'000, {&a, &b});
    EXPECT_NE(state(), "failed");
}

TEST(ControlLeavingTold, AnyServersWordIsEnough) {
    using Later = ControlLeavingLater;
    for (bool const knows_first : {true, false}) {
        Rig rig({}, 2, 1000);
        auto const state = [&] {
            return rig.cluster.snapshot(Now{rig.time, 0}).channels.at(0).state;
        };
        Agent a, b;
        auto const come = [&](bool first) {
            if (first) {
                a = rig.register_agent("a", "instance-1", Later::held(Later::kA, {Later::kA}),
                                       Later::earlier(1));
            } else {
                b = rig.register_agent("b", "instance-1", Later::held(Later::kB, {}),
                                       Later::earlier(2));
            }
        };
        come(knows_first);
        come(!knows_first);
        EXPECT_EQ(state(), "running") << knows_first;
        ASSERT_EQ(
            rig.got(a, Kind::kChannelEnded).size() +
                std::size_t(rig.got(a, Kind::kRegistered)[0].registered().lost_channels_size()),
            1u);
        EXPECT_FALSE(rig.got(b, Kind::kChannelLeft).empty()) << knows_first;
        rig.close(a);
        rig.pass(30'000, {&b});
        EXPECT_EQ(state(), "running");
    }
}

}  // namespace
}  // namespace mgi::control::test
