// Channels whose creator has no endpoint of them on its server: a coordinator's process.
#include <gtest/gtest.h>

#include <string>

#include "control/state/rig.hpp"

namespace mgi::control::test {
namespace {

using Kind = ControllerMessage::MessageCase;

struct Coordinated : ::testing::Test {
    Rig rig;
    Agent a = rig.register_agent("a");
    Agent b = rig.register_agent("b");
    Agent c = rig.register_agent("c");
    std::uint32_t const ea = rig.endpoint(a);
    std::uint32_t const eb = rig.endpoint(b);

    std::uint32_t running() {
        CallId const call = rig.create_channel(c, "request-1", {ea}, {eb});
        std::uint32_t const id = rig.plans.at(0).channel;
        rig.plan();
        rig.accept(a, id);
        rig.accept(b, id);
        EXPECT_EQ(rig.answers.at(call).id, id);
        return id;
    }
    /// The creator's agent is another process now.
    Agent restarted() {
        rig.close(c);
        return rig.register_agent("c", "instance-2", {}, c.sender);
    }
    HeldChannel created(std::uint32_t id, std::uint64_t generation = 1) const {
        HeldChannel held = held_channel(id, {ea}, {eb}, generation, true);
        held.set_creator(true);
        return held;
    }
    std::string channel_state(std::uint32_t id) const {
        for (ChannelView const& view : rig.cluster.snapshot(Now{rig.time, 0}).channels) {
            if (view.id == id) return view.state;
        }
        return "none";
    }
};
using ControlCreators = Coordinated;

TEST_F(ControlCreators, AreKnownAgainAfterTheirAgentsRestart) {
    std::uint32_t const id = running();
    Agent const again = restarted();
    AgentMessage word;
    *word.mutable_held()->add_channels() = created(id);
    rig.say(again, word);
    EXPECT_TRUE(rig.got(again, Kind::kLost).at(0).lost().channels().empty());
    rig.pass(15'000, {&a, &b, &again});
    EXPECT_EQ(channel_state(id), "running");
    EXPECT_TRUE(rig.got(a, Kind::kChannelEnded).empty());
    EXPECT_EQ(rig.answers.at(rig.delete_channel(again, id)).problem, Problem::None);
    EXPECT_EQ(rig.got(a, Kind::kChannelEnded).size(), 1u);
}

TEST_F(ControlCreators, WhoRepeatTheirRequestHaveComeBack) {
    std::uint32_t const id = running();
    Agent const again = restarted();
    EXPECT_EQ(rig.answers.at(rig.create_channel(again, "request-1", {ea}, {eb})).id, id);
    rig.pass(15'000, {&a, &b, &again});
    EXPECT_EQ(channel_state(id), "running");
}

TEST_F(ControlCreators, WhoDoNotComeBackTakeTheirChannelsAlong) {
    std::uint32_t const id = running();
    Agent const again = restarted();
    rig.pass(9999, {&a, &b, &again});
    EXPECT_EQ(channel_state(id), "running");
    rig.pass(1, {&a, &b, &again});
    EXPECT_EQ(channel_state(id), "failed");
    EXPECT_EQ(rig.got(a, Kind::kChannelEnded).size(), 1u);
}

TEST_F(ControlCreators, WhoseServerFailsTakeTheirChannelsAlong) {
    std::uint32_t const id = running();
    rig.close(c);
    rig.pass(10'000, {&a, &b});
    EXPECT_EQ(channel_state(id), "failed");
    EXPECT_NE(rig.got(b, Kind::kChannelEnded).at(0).channel_ended().why().find("server c"),
              std::string::npos);
}

TEST_F(ControlCreators, OnlyWhoSaysThatItIsOneIsTaken) {
    std::uint32_t const id = running();
    AgentMessage word;
    *word.mutable_held()->add_channels() = held_channel(id, {ea}, {eb}, 1, true);
    Agent const d = rig.register_agent("d");
    rig.say(d, word);
    EXPECT_EQ(rig.got(d, Kind::kLost).at(0).lost().channels().at(0), id);
    *word.mutable_held()->mutable_channels(0) = created(id);  // but another server is
    rig.say(d, word);
    EXPECT_EQ(rig.got(d, Kind::kLost).at(1).lost().channels().at(0), id);
    EXPECT_EQ(rig.answers.at(rig.delete_channel(d, id)).problem, Problem::NotFound);
}

/// What an agent knows from an earlier controller.
Sender earlier(std::uint32_t agent) {
    Sender sender;
    sender.set_agent(agent);
    sender.set_epoch(1);
    sender.set_incarnation(1);
    return sender;
}

TEST(ControlRecoveredCreators, AreLearnedByANewController) {
    Rig rig({}, 2, 1000);
    auto const state = [&] {
        Snapshot const shown = rig.cluster.snapshot(Now{rig.time, 0});
        return shown.channels.empty() ? std::string("none") : shown.channels.at(0).state;
    };
    // The creator comes first, and by a generation that is long gone: it gets no plans.
    Register held;
    *held.add_channels() = held_channel(5, {11}, {12}, 1, true);
    held.mutable_channels(0)->set_creator(true);
    Agent const c = rig.register_agent("c", "instance-1", held, earlier(3));
    EXPECT_TRUE(rig.got(c, Kind::kRegistered).at(0).registered().lost_channels().empty());
    EXPECT_EQ(state(), "recovering");
    for (std::uint32_t agent : {1u, 2u}) {
        Register word;
        *word.add_endpoints() = held_endpoint(10 + agent);
        *word.add_channels() = held_channel(5, {11}, {12}, 3, true);
        rig.register_agent(agent == 1 ? "a" : "b", "instance-1", word, earlier(agent));
    }
    EXPECT_EQ(state(), "running");
    EXPECT_TRUE(rig.got(c, Kind::kCommitPlan).empty());
    EXPECT_TRUE(rig.got(c, Kind::kAbortPlan).empty());
    rig.plan();  // it comes out as nobody knows yet, so all are asked
    EXPECT_TRUE(rig.got(c, Kind::kPreparePlan).empty());
    EXPECT_EQ(rig.answers.at(rig.delete_channel(c, 5)).problem, Problem::None);
    EXPECT_EQ(rig.got(c, Kind::kChannelEnded).size(), 1u);
}

// Its agent was restarted, and its application says that it has given the channel up.
TEST_F(ControlCreators, WhoseAgentDoesNotNameThemTakeTheirChannelsAlong) {
    std::uint32_t const id = running();
    Agent const again = restarted();
    AgentMessage word;
    *word.mutable_held()->add_channels() = held_channel(id, {ea}, {eb}, 1, true);
    rig.say(again, word);
    EXPECT_EQ(rig.got(again, Kind::kLost).at(0).lost().channels().at(0), id);
    rig.pass(10'000, {&a, &b, &again});
    EXPECT_EQ(channel_state(id), "failed");
}

// A channel's own servers may come after its creator's word that it is over.
TEST(ControlRecoveredCreators, ADeletionIsRememberedOfWhatIsNotKnownYet) {
    Rig rig({}, 2, 1000);
    Agent const c = rig.register_agent("c", "instance-1", {}, earlier(3));
    EXPECT_EQ(rig.answers.at(rig.delete_channel(c, 5)).problem, Problem::None);
    EXPECT_EQ(rig.answers.at(rig.delete_endpoint(c, 12)).problem, Problem::None);
    for (std::uint32_t agent : {1u, 2u}) {
        Register word;
        *word.add_endpoints() = held_endpoint(10 + agent);
        *word.add_channels() = held_channel(5, {11}, {12}, 3, true);
        Agent const came =
            rig.register_agent(agent == 1 ? "a" : "b", "instance-1", word, earlier(agent));
        Registered const told = rig.got(came, Kind::kRegistered).at(0).registered();
        EXPECT_EQ(told.lost_channels_size(), 1);
        EXPECT_EQ(told.lost_endpoints_size(), agent == 1 ? 0 : 1);
    }
    EXPECT_TRUE(rig.cluster.snapshot(Now{rig.time, 0}).channels.empty());
}

// The call may overtake the word by which its agent's part in the channel is known.
TEST(ControlRecoveredCreators, ADeletionWaitsUntilItIsKnownWhoseChannelItIs) {
    Rig rig({}, 2, 1000);
    for (std::uint32_t agent : {1u, 2u}) {
        Register word;
        *word.add_endpoints() = held_endpoint(10 + agent);
        *word.add_channels() = held_channel(5, {11}, {12}, 3, true);
        rig.register_agent(agent == 1 ? "a" : "b", "instance-1", word, earlier(agent));
    }
    Agent const c = rig.register_agent("c", "instance-2", {}, earlier(3));
    EXPECT_EQ(rig.answers.at(rig.delete_channel(c, 5)).problem, Problem::Unavailable);
    AgentMessage word;
    *word.mutable_held()->add_channels() = held_channel(5, {11}, {12}, 3, true);
    word.mutable_held()->mutable_channels(0)->set_creator(true);
    rig.say(c, word);
    EXPECT_EQ(rig.answers.at(rig.delete_channel(c, 5)).problem, Problem::None);
}

}  // namespace
}  // namespace mgi::control::test
