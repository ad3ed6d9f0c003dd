// Registrations in parts: an agent that holds more than one message has room for.
#include <gtest/gtest.h>

#include "control/state/rig.hpp"

namespace mgi::control::test {
namespace {

using Kind = ControllerMessage::MessageCase;

struct Parts : ::testing::Test {
    Rig rig;
    Agent a = rig.register_agent("a");
    Agent b = rig.register_agent("b");
    std::uint32_t const first = rig.endpoint(a);
    std::uint32_t const second = rig.endpoint(a);
    std::uint32_t const other = rig.endpoint(b);
    std::uint32_t const channel = rig.running(a, b);

    /// The agent comes back and names its first endpoint; the rest follows.
    Agent come_back() {
        rig.close(a);
        Register part;
        *part.add_endpoints() = held_endpoint(first);
        part.set_more(true);
        return rig.register_agent("a", "instance-1", part, a.sender);
    }
    void tell(Agent const& agent, bool with_second, bool with_channel, bool last) {
        AgentMessage message;
        Held& held = *message.mutable_held();
        if (with_second) *held.add_endpoints() = held_endpoint(second);
        if (with_channel) {
            *held.add_channels() = held_channel(channel, {first}, {other}, 1, true);
        }
        held.set_last(last);
        rig.say(agent, message);
    }
    Snapshot shown() const { return rig.cluster.snapshot(Now{rig.time, 0}); }
};
using ControlParts = Parts;

TEST_F(ControlParts, WhatFollowsCounts) {
    Agent const back = come_back();
    EXPECT_EQ(shown().endpoints.size(), 3u);
    tell(back, true, false, false);
    tell(back, false, true, true);
    rig.pass(15'000, {&back, &b});
    EXPECT_EQ(shown().endpoints.size(), 3u);
    EXPECT_EQ(shown().channels.at(0).state, "running");
    for (ControllerMessage const& answer : rig.got(back, Kind::kLost)) {
        EXPECT_EQ(answer.lost().endpoints_size() + answer.lost().channels_size(), 0);
    }
}

TEST_F(ControlParts, WhatNoPartNamesIsGoneAfterTheLast) {
    Agent const back = come_back();
    std::uint32_t const fresh = rig.answers.at(rig.create_endpoint(back, "request-fresh")).id;
    tell(back, false, false, false);
    EXPECT_EQ(shown().endpoints.size(), 4u);
    tell(back, false, false, true);
    Snapshot const left = shown();
    ASSERT_EQ(left.endpoints.size(), 3u);
    for (EndpointView const& endpoint : left.endpoints) EXPECT_NE(endpoint.id, second);
    EXPECT_EQ(rig.answers.at(rig.create_endpoint(back, "request-fresh")).id, fresh);
    EXPECT_EQ(left.channels.at(0).state, "failed");
    EXPECT_EQ(rig.got(b, Kind::kChannelEnded).size(), 1u);
}

// A call may overtake the parts.
TEST_F(ControlParts, ARequestOfWhatIsNotNamedYetWaits) {
    CallId const made = rig.create_endpoint(a, "request-fresh");  // whose answer is lost
    Agent const back = come_back();
    EXPECT_EQ(rig.answers.at(rig.create_endpoint(back, "request-fresh")).problem,
              Problem::Unavailable);
    CallId const call = rig.create_channel(back, "request-1", {first}, {other});
    EXPECT_EQ(rig.answers.at(call).problem, Problem::Unavailable);
    tell(back, true, true, true);
    Answer const again = rig.answers.at(rig.create_endpoint(back, "request-fresh"));
    EXPECT_EQ(again.problem, Problem::None) << again.text;
    EXPECT_NE(again.id, rig.answers.at(made).id);
    EXPECT_EQ(rig.answers.at(rig.create_channel(back, "request-1", {first}, {other})).id, channel);
}

TEST_F(ControlParts, AChannelIsRenewedOnceItIsNamed) {
    rig.close(a);
    Register part;
    *part.add_endpoints() = held_endpoint(first);
    *part.mutable_graph() = server_graph();
    part.mutable_graph()->mutable_links(0)->set_gbps(3);
    part.set_more(true);
    Agent const back = rig.register_agent("a", "instance-1", part, a.sender);
    EXPECT_TRUE(rig.plans.empty());
    tell(back, true, true, true);
    EXPECT_EQ(rig.plans.size(), 1u);
}

TEST_F(ControlParts, ARegistrationThatBreaksOffIsForgotten) {
    rig.close(come_back());
    Register whole;
    *whole.add_endpoints() = held_endpoint(first);
    *whole.add_endpoints() = held_endpoint(second);
    *whole.add_channels() = held_channel(channel, {first}, {other}, 1, true);
    Agent const again = rig.register_agent("a", "instance-1", whole, a.sender);
    tell(again, false, false, true);
    EXPECT_EQ(shown().endpoints.size(), 3u);
    EXPECT_EQ(shown().channels.at(0).state, "running");
}

TEST(ControlPartsAfterRestart, AControllerLearnsFromAllOfThem) {
    Rig rig{{}, 2, 1000};
    auto const come = [&](std::string const& name, std::uint32_t agent, std::uint32_t endpoint) {
        Sender earlier;
        earlier.set_agent(agent);
        earlier.set_epoch(1);
        earlier.set_incarnation(1);
        Register part;
        *part.add_channels() = held_channel(5, {11}, {12}, 3, true);  // before its endpoint
        part.set_more(true);
        Agent const made = rig.register_agent(name, "instance-1", part, earlier);
        AgentMessage message;
        *message.mutable_held()->add_endpoints() = held_endpoint(endpoint);
        message.mutable_held()->set_last(true);
        rig.say(made, message);
        return made;
    };
    come("a", 1, 11);
    Agent const b = come("b", 2, 12);
    Snapshot const shown = rig.cluster.snapshot(Now{rig.time, 0});
    ASSERT_EQ(shown.channels.size(), 1u);
    EXPECT_EQ(shown.channels[0].state, "running");
    EXPECT_EQ(shown.channels[0].generation, 3u);
    EXPECT_TRUE(rig.got(b, Kind::kChannelEnded).empty());
}

}  // namespace
}  // namespace mgi::control::test
