// Whose endpoints, channels and meetings are.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "control/state/owned.hpp"

namespace mgi::control::test {
namespace {

using Kind = ControllerMessage::MessageCase;

using ControlOwners = Owned;

TEST_F(ControlOwners, AChannelHasEndpointsOfItsOwnerAlone) {
    Agent const a = rig.register_agent("a");
    std::uint32_t const mine = rig.answers.at(endpoint(a, "request-m", "me")).id;
    std::uint32_t const others = rig.answers.at(endpoint(a, "request-o", "them")).id;
    CallId const wrong = channel(a, "request-1", mine, others, "me");
    EXPECT_EQ(problem(wrong), Problem::NotFound);
    // As where there is none.
    CallId const nowhere = channel(a, "request-2", mine, 99, "me");
    std::string expected = rig.answers.at(nowhere).text;
    expected.replace(expected.find("99"), 2, std::to_string(others));
    EXPECT_EQ(rig.answers.at(wrong).text, expected);
    CallId const right = channel(a, "request-3", others, others, "them");
    rig.plan();
    EXPECT_EQ(rig.got(a, Kind::kPreparePlan).at(0).prepare_plan().owner(), "them");
    EXPECT_FALSE(rig.answers.contains(right));
}

TEST_F(ControlOwners, ARequestsNameIsItsOwnersAlone) {
    Agent const a = rig.register_agent("a");
    std::uint32_t const mine = rig.answers.at(endpoint(a, "request-m", "me")).id;
    EXPECT_EQ(problem(endpoint(a, "request-m", "them")), Problem::InvalidArgument);
    EXPECT_EQ(rig.answers.at(endpoint(a, "request-m", "me")).id, mine);
    (void)channel(a, "request-c", mine, mine, "me");
    EXPECT_EQ(problem(channel(a, "request-c", mine, mine, "them")), Problem::InvalidArgument);
    EXPECT_EQ(problem(endpoint(a, "request-x", std::string(65, 'x'))), Problem::InvalidArgument);
}

TEST_F(ControlOwners, StrangersMeetNobody) {
    Agent const a = rig.register_agent("a");
    CallId const first = gather(a, "request-1", 0, "me");
    CallId const stranger = gather(a, "request-2", 1, "them");
    EXPECT_FALSE(rig.answers.contains(first));
    EXPECT_FALSE(rig.answers.contains(stranger));
    gather(a, "request-3", 1, "me");
    ASSERT_TRUE(rig.answers.contains(first));
    auto const& all = rig.answers.at(first).gathered->data();
    EXPECT_EQ(std::vector<std::string>(all.begin(), all.end()),
              (std::vector<std::string>{"me", "me"}));
    EXPECT_FALSE(rig.answers.contains(stranger));
    // Nor do they get an answer by its request's name: they meet each other.
    CallId const again = gather(a, "request-1", 0, "them");
    ASSERT_TRUE(rig.answers.contains(again));
    EXPECT_EQ(rig.answers.at(again).gathered->data(0), "them");
}

TEST_F(ControlOwners, WhatAnAgentHoldsForAnotherOwnerIsLostAndEndsNothing) {
    Agent const a = rig.register_agent("a");
    std::uint32_t const mine = rig.answers.at(endpoint(a, "request-m", "me")).id;
    AgentMessage word;
    HeldEndpoint& held = *word.mutable_held()->add_endpoints();
    held = held_endpoint(mine);
    held.set_owner("them");
    rig.say(a, std::move(word));
    EXPECT_EQ(rig.last(a.session).lost().endpoints(0), mine);
    EXPECT_EQ(rig.cluster.snapshot({rig.time, 0}).endpoints.at(0).owner, "me");
}

/// Ids below 100 were given by an earlier controller.
struct ControlOwnersAgain : Owned {
    ControlOwnersAgain() : Owned({}, 2, 100) {}

    static HeldEndpoint endpoint_of(std::uint32_t id, std::string const& owner) {
        HeldEndpoint held = held_endpoint(id);
        held.set_owner(owner);
        return held;
    }
    static HeldChannel channel_of(std::string const& owner) {
        HeldChannel held = held_channel(3, {1}, {2}, 1, true);
        held.set_owner(owner);
        return held;
    }
};

TEST_F(ControlOwnersAgain, AChannelIsLearnedFromItsOwnersEndpointsAlone) {
    Register of_a;
    *of_a.add_endpoints() = endpoint_of(1, "me");
    *of_a.add_channels() = channel_of("me");
    Agent const a = rig.register_agent("a", "instance-1", of_a);
    Register of_b;
    *of_b.add_endpoints() = endpoint_of(2, "them");
    *of_b.add_channels() = channel_of("them");
    Agent const b = rig.register_agent("b", "instance-2", of_b);
    auto const& registered = rig.got(b, Kind::kRegistered).at(0).registered();
    ASSERT_EQ(registered.lost_endpoints_size(), 1);
    ASSERT_EQ(registered.lost_channels_size(), 1);
    auto const snapshot = rig.cluster.snapshot({rig.time, 0});
    ASSERT_EQ(snapshot.channels.size(), 1u);
    EXPECT_EQ(snapshot.channels[0].state, "recovering");
    EXPECT_EQ(snapshot.channels[0].owner, "me");
    (void)a;
}

}  // namespace
}  // namespace mgi::control::test
