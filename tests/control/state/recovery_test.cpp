// The way back after a restart, of the controller or of an agent.
#include <gtest/gtest.h>

#include "control/state/rig.hpp"

namespace mgi::control::test {
namespace {

using Kind = ControllerMessage::MessageCase;

/// A controller that starts anew and knows only that ids below 1000 are given. Agents 1 and 2 hold
/// endpoints 11 and 12, and channel 5 between them.
struct Restarted : ::testing::Test {
    Rig rig{{}, 2, 1000};

    static Sender earlier(std::uint32_t agent) {
        Sender sender;
        sender.set_agent(agent);
        sender.set_epoch(1);
        sender.set_incarnation(1);
        return sender;
    }
    Agent come(std::uint32_t agent, std::uint64_t generation, bool committed,
               std::uint64_t prepared = 0, std::string const& instance = "instance-1") {
        Register held;
        *held.add_endpoints() = held_endpoint(10 + agent);
        *held.add_channels() = held_channel(5, {11}, {12}, generation, committed);
        if (prepared != 0) *held.add_channels() = held_channel(5, {11}, {12}, prepared, false);
        return rig.register_agent(agent == 1 ? "a" : "b", instance, held, earlier(agent));
    }
    std::string channel_state() const {
        std::string state = "none";
        for (ChannelView const& view : rig.cluster.snapshot(Now{rig.time, 0}).channels) {
            if (view.id == 5) state = view.state;
        }
        return state;
    }
};
using ControlRecovery = Restarted;

TEST_F(ControlRecovery, AChannelIsWholeWhenAllItsServersAreBack) {
    Agent const a = come(1, 3, true);
    EXPECT_EQ(channel_state(), "recovering");
    EXPECT_TRUE(rig.got(a, Kind::kRegistered).at(0).registered().lost_channels().empty());
    Agent const b = come(2, 3, true);
    EXPECT_EQ(channel_state(), "running");
    EXPECT_TRUE(rig.got(b, Kind::kCommitPlan).empty());
    // What happened to links meanwhile is not known: its plan is made anew.
    ASSERT_EQ(rig.plans.size(), 1u);
    EXPECT_EQ(rig.plans[0].generation, 4u);
    rig.plan();
    rig.accept(a, 5, 4);
    rig.accept(b, 5, 4);
    EXPECT_EQ(rig.got(b, Kind::kCommitPlan).size(), 1u);
    EXPECT_EQ(rig.cluster.timers(), 2u);
}

TEST_F(ControlRecovery, ACommitThatSomeHaveIsCompleted) {
    Agent const a = come(1, 1, false);
    Agent const b = come(2, 1, true);
    EXPECT_EQ(rig.got(a, Kind::kCommitPlan).at(0).commit_plan().generation(), 1u);
    EXPECT_TRUE(rig.got(b, Kind::kCommitPlan).empty());
    EXPECT_EQ(channel_state(), "running");
    // Its creator repeats the request whose answer got lost.
    EXPECT_EQ(rig.answers.at(rig.create_channel(a, "request-1", {11}, {12})).id, 5u);
}

TEST_F(ControlRecovery, ACreationThatNobodyCommittedIsOver) {
    Agent const a = come(1, 1, false);
    CallId const call = rig.create_channel(a, "request-1", {11}, {12});
    Agent const b = come(2, 1, false);
    EXPECT_EQ(channel_state(), "failed");
    EXPECT_EQ(rig.got(a, Kind::kChannelEnded).size(), 1u);
    EXPECT_EQ(rig.got(b, Kind::kChannelEnded).size(), 1u);
    EXPECT_EQ(rig.answers.at(call).problem, Problem::Aborted);
}

TEST_F(ControlRecovery, ARenewalThatWasCutShortIsGivenUp) {
    Agent const a = come(1, 3, true, 4);
    Agent const b = come(2, 3, true, 4);
    EXPECT_EQ(rig.got(a, Kind::kAbortPlan).at(0).abort_plan().generation(), 4u);
    EXPECT_EQ(rig.got(b, Kind::kAbortPlan).at(0).abort_plan().generation(), 4u);
    EXPECT_EQ(channel_state(), "running");
}

TEST_F(ControlRecovery, ARenewalThatSomeCommittedIsCompleted) {
    Agent const a = come(1, 3, true, 4);
    Agent const b = come(2, 4, true);
    EXPECT_EQ(rig.got(a, Kind::kCommitPlan).at(0).commit_plan().generation(), 4u);
    EXPECT_TRUE(rig.got(a, Kind::kAbortPlan).empty());
}

TEST_F(ControlRecovery, AServerThatLostItsPlanGetsANewOne) {
    come(1, 3, true);
    come(2, 2, true);
    ASSERT_EQ(rig.plans.size(), 1u);
    EXPECT_EQ(rig.plans[0].generation, 4u);
}

TEST_F(ControlRecovery, AServerThatDoesNotComeBackFailsIt) {
    Agent const a = come(1, 3, true);
    rig.pass(9999, {&a});
    EXPECT_EQ(channel_state(), "recovering");
    rig.pass(1, {&a});
    EXPECT_EQ(channel_state(), "failed");
    EXPECT_EQ(rig.got(a, Kind::kChannelEnded).size(), 1u);
    // It comes too late: the channel has failed everywhere, so here, too.
    Agent const b = come(2, 3, true);
    EXPECT_EQ(rig.got(b, Kind::kRegistered).at(0).registered().lost_channels().at(0), 5u);
    EXPECT_EQ(channel_state(), "failed");
}

TEST_F(ControlRecovery, IdsOfNobodyAreLost) {
    Register held;
    *held.add_endpoints() = held_endpoint(1000);
    *held.add_endpoints() = held_endpoint(0);
    *held.add_endpoints() = held_endpoint(12, 9);  // a vertex that there is not
    *held.add_channels() = held_channel(1000, {11}, {12}, 1, true);
    Agent const a = rig.register_agent("a", "instance-1", held, earlier(1));
    auto const registered = rig.got(a, Kind::kRegistered).at(0).registered();
    EXPECT_EQ(registered.lost_endpoints_size(), 3);
    EXPECT_EQ(registered.lost_channels_size(), 1);
}

TEST_F(ControlRecovery, ServersThatDisagreeFailIt) {
    Agent const a = come(1, 3, true);
    Register held;
    *held.add_endpoints() = held_endpoint(12);
    *held.add_channels() = held_channel(5, {11}, {12, 13}, 3, true);
    Agent const b = rig.register_agent("b", "instance-1", held, earlier(2));
    EXPECT_EQ(rig.got(a, Kind::kChannelEnded).size(), 1u);
    EXPECT_EQ(rig.got(b, Kind::kRegistered).at(0).registered().lost_channels().at(0), 5u);
}

TEST_F(ControlRecovery, ARestartedAgentsApplicationsMayComeLater) {
    come(1, 3, true);
    Agent const b = come(2, 3, true);
    rig.close(b);
    Agent const again = rig.register_agent("b", "instance-2");
    EXPECT_EQ(channel_state(), "running");
    rig.pass(5000, {&again});
    AgentMessage message;
    *message.mutable_held()->add_endpoints() = held_endpoint(12);
    *message.mutable_held()->add_endpoints() = held_endpoint(2000);
    *message.mutable_held()->add_channels() = held_channel(5, {11}, {12}, 3, true);
    rig.say(again, message);
    auto const lost = rig.got(again, Kind::kLost).at(0).lost();
    EXPECT_EQ(lost.endpoints().at(0), 2000u);
    EXPECT_TRUE(lost.channels().empty());
    Agent const* const beating[] = {&again};
    rig.pass(6000, {beating[0]});
    EXPECT_EQ(rig.state("b"), "present");
}

TEST_F(ControlRecovery, ApplicationsThatDoNotComeBackAreGoneAfterTheGrace) {
    Agent const a = come(1, 3, true);
    Agent const b = come(2, 3, true);
    rig.close(b);
    Agent const again = rig.register_agent("b", "instance-2");
    rig.pass(9999, {&a, &again});
    EXPECT_EQ(channel_state(), "running");
    rig.pass(1, {&a, &again});
    EXPECT_EQ(channel_state(), "failed");
    EXPECT_EQ(rig.got(a, Kind::kChannelEnded).size(), 1u);
    EXPECT_EQ(rig.got(again, Kind::kChannelEnded).size(), 1u);
}

TEST_F(ControlRecovery, TheSameInstancesWordIsTheWholeTruth) {
    Agent const a = come(1, 3, true);
    Agent const b = come(2, 3, true);
    rig.close(b);
    rig.register_agent("b", "instance-1", {}, b.sender);
    EXPECT_EQ(channel_state(), "failed");
    EXPECT_EQ(rig.got(a, Kind::kChannelEnded).size(), 1u);
}

TEST_F(ControlRecovery, ALostCommitIsSentAgain) {
    Agent const a = come(1, 3, true);
    Agent const b = come(2, 3, true);
    rig.close(b);
    Agent const again = come(2, 3, false);
    EXPECT_EQ(rig.got(again, Kind::kCommitPlan).at(0).commit_plan().generation(), 3u);
}

// Found by the simulation: what a restarted agent named, while the word was on its way to it that nobody
// had claimed it in time.
TEST_F(ControlRecovery, AnEndpointThatEndedIsNotLearnedAgain) {
    Register held;
    *held.add_endpoints() = held_endpoint(11);
    Agent a = rig.register_agent("a", "instance-1", held, earlier(1));
    rig.close(a);
    a = rig.register_agent("a", "instance-2", {}, a.sender);
    rig.pass(10'000, {&a});
    ASSERT_EQ(rig.got(a, Kind::kLost).size(), 1u);
    AgentMessage message;
    *message.mutable_held()->add_endpoints() = held_endpoint(11);
    rig.say(a, message);
    ASSERT_EQ(rig.got(a, Kind::kLost).size(), 2u);
    EXPECT_EQ(rig.got(a, Kind::kLost)[1].lost().endpoints().at(0), 11u);
    EXPECT_TRUE(rig.cluster.snapshot(Now{rig.time, 0}).endpoints.empty());
}

// Some servers come later than others: what they hold may be named before they are there.
TEST_F(ControlRecovery, AnEndpointThatIsNotRegisteredYetIsWaitedFor) {
    Register held;
    *held.add_endpoints() = held_endpoint(11);
    Agent const a = rig.register_agent("a", "instance-1", held, earlier(1));
    auto const create = [&] { return rig.create_channel(a, "request-2", {11}, {12}); };
    Answer const early = rig.answers.at(create());
    EXPECT_EQ(early.problem, Problem::Unavailable) << early.text;
    EXPECT_NE(early.text.find("endpoint 12"), std::string::npos) << early.text;
    held.mutable_endpoints(0)->set_id(12);
    Agent const b = rig.register_agent("b", "instance-1", held, earlier(2));
    CallId const call = create();
    EXPECT_FALSE(rig.answers.contains(call));
    EXPECT_EQ(rig.plans.size(), 1u);
    // What was given up under this controller, or given to nobody, is not there.
    EXPECT_EQ(rig.answers.at(rig.create_channel(a, "request-3", {11}, {2000})).problem,
              Problem::NotFound);
    rig.pass(10'000, {&a, &b});
    EXPECT_EQ(rig.answers.at(rig.create_channel(a, "request-4", {11}, {13})).problem,
              Problem::NotFound);
}

TEST_F(ControlRecovery, AnEndpointThatWasGivenBackIsNotWaitedFor) {
    Agent const a = come(1, 3, true);
    Agent const b = come(2, 3, true);
    EXPECT_EQ(rig.answers.at(rig.delete_channel(b, 5)).problem, Problem::None);
    EXPECT_EQ(rig.answers.at(rig.delete_endpoint(b, 12)).problem, Problem::None);
    EXPECT_EQ(rig.answers.at(rig.create_channel(a, "request-3", {11}, {12})).problem,
              Problem::NotFound);
}

}  // namespace
}  // namespace mgi::control::test
