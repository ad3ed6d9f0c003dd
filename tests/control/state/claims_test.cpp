// What a restarted agent's applications claim again, and what becomes of what they do not.
#include <gtest/gtest.h>

#include "control/state/rig.hpp"

namespace mgi::control::test {
namespace {

using Kind = ControllerMessage::MessageCase;

std::size_t endpoints(Rig const& rig) {
    return rig.cluster.snapshot(Now{rig.time, 0}).endpoints.size();
}

TEST(ControlClaims, ARepeatedRequestClaimsItsEndpoint) {
    Rig rig;
    Agent const a = rig.register_agent("a");
    std::uint32_t const id = rig.answers.at(rig.create_endpoint(a, "request-1")).id;
    rig.close(a);
    // Its answer was lost with the agent; the application asks the next one the same.
    Agent const again = rig.register_agent("a", "instance-2", {}, a.sender);
    EXPECT_EQ(rig.answers.at(rig.create_endpoint(again, "request-1")).id, id);
    Agent const b = rig.register_agent("b");
    std::uint32_t const other = rig.answers.at(rig.create_endpoint(b, "request-2")).id;
    CallId const call = rig.create_channel(again, "request-3", {id}, {other});
    rig.plan();
    rig.accept(again, 1);
    rig.accept(b, 1);
    EXPECT_EQ(rig.answers.at(call).problem, Problem::None) << rig.answers.at(call).text;
    rig.pass(15'000, {&again, &b});
    EXPECT_EQ(endpoints(rig), 2u);
    EXPECT_TRUE(rig.got(again, Kind::kLost).empty());
    EXPECT_TRUE(rig.got(b, Kind::kChannelEnded).empty());
}

TEST(ControlClaims, WhatNobodyClaimsIsToldAsLost) {
    Rig rig;
    Agent const a = rig.register_agent("a");
    std::uint32_t const id = rig.answers.at(rig.create_endpoint(a, "request-1")).id;
    rig.close(a);
    Agent const again = rig.register_agent("a", "instance-2", {}, a.sender);
    rig.pass(10'000, {&again});
    EXPECT_EQ(endpoints(rig), 0u);
    ASSERT_EQ(rig.got(again, Kind::kLost).size(), 1u);
    EXPECT_EQ(rig.got(again, Kind::kLost)[0].lost().endpoints().at(0), id);
}

// Found by the simulation: a request that was long on its way, whose repetition had been answered.
TEST(ControlClaims, ALateRequestMakesNoSecondEndpoint) {
    Rig rig;
    Agent a = rig.register_agent("a");
    std::uint32_t const gone = rig.answers.at(rig.create_endpoint(a, "request-1")).id;
    std::uint32_t const deleted = rig.answers.at(rig.create_endpoint(a, "request-2")).id;
    AgentMessage message;
    message.mutable_endpoints_gone()->add_endpoints(gone);
    rig.say(a, message);
    rig.delete_endpoint(a, deleted);
    for (char const* const request : {"request-1", "request-2"}) {
        EXPECT_EQ(rig.answers.at(rig.create_endpoint(a, request)).problem, Problem::Aborted);
    }
    EXPECT_EQ(endpoints(rig), 0u);
}

TEST(ControlClaims, ARequestWhoseAnswerTheAgentNeverHadIsAnsweredAnew) {
    Rig rig;
    Agent const a = rig.register_agent("a");
    rig.create_endpoint(a, "request-1");
    rig.close(a);
    // It does not name what it does not know of, so that is gone; then it asks again.
    Agent const again = rig.register_agent("a", "instance-1", {}, a.sender);
    EXPECT_EQ(endpoints(rig), 0u);
    EXPECT_EQ(rig.answers.at(rig.create_endpoint(again, "request-1")).problem, Problem::None);
    EXPECT_EQ(endpoints(rig), 1u);
}

}  // namespace
}  // namespace mgi::control::test
