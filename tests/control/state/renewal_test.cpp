// New generations of running channels: nothing that changed meanwhile is forgotten.
#include <gtest/gtest.h>

#include <string>

#include "control/state/rig.hpp"

namespace mgi::control::test {
namespace {

using Kind = ControllerMessage::MessageCase;

struct Renewed : ::testing::Test {
    Settings settings = [] {
        Settings made;
        made.limits.replanning = 2;
        return made;
    }();
    Rig rig{settings};
    Agent a = rig.register_agent("a");
    Agent b = rig.register_agent("b");
    std::uint32_t const ea = rig.endpoint(a);
    std::uint32_t const eb = rig.endpoint(b, 2);

    void change_link(double gbps) {
        AgentMessage message;
        Link& link = *message.mutable_link_change()->mutable_link();
        link.set_from(1);
        link.set_to(0);
        link.set_gbps(gbps);
        rig.say(a, message);
    }
};
using ControlRenewal = Renewed;

TEST_F(ControlRenewal, AChangeWhileAPlanIsMadeIsPlannedForAlthoughThatCameOutTheSame) {
    rig.running(a, b);
    change_link(5);
    ASSERT_EQ(rig.plans.size(), 1u);
    change_link(6);
    rig.plan();
    ASSERT_EQ(rig.plans.size(), 1u);
    EXPECT_EQ(rig.plans[0].generation, 3u);
    rig.plan();
    EXPECT_TRUE(rig.plans.empty());
}

TEST_F(ControlRenewal, AChangeWhileAPlanIsMadeIsPlannedForAlthoughThatFailed) {
    rig.running(a, b);
    change_link(0);
    change_link(6);
    rig.plan("no way");
    ASSERT_EQ(rig.plans.size(), 1u);
    EXPECT_EQ(rig.plans[0].generation, 3u);
}

TEST_F(ControlRenewal, AServerWithoutAPlanIsNotForgottenWhenPlanningFails) {
    std::uint32_t const id = rig.running(a, b);
    change_link(5);
    rig.plan({}, "other table");
    rig.accept(a, id, 2);
    rig.accept(b, id, 2);
    // b did not get the commit: it comes back by generation 1.
    rig.close(b);
    Register held;
    *held.add_endpoints() = held_endpoint(eb, 2);
    *held.add_channels() = held_channel(id, {ea}, {eb}, 1, true);
    Agent const again = rig.register_agent("b", "instance-1", held, b.sender);
    ASSERT_EQ(rig.plans.size(), 1u);
    rig.plan("no memory");
    EXPECT_TRUE(rig.plans.empty());
    rig.pass(2000, {&a, &again});
    ASSERT_EQ(rig.plans.size(), 1u);
    rig.plan({}, "other table");  // as it was, and yet b gets it
    EXPECT_EQ(rig.got(again, Kind::kPreparePlan).size(), 1u);
}

TEST_F(ControlRenewal, AChannelThatEndsMakesRoomForOthers) {
    std::uint32_t const first = rig.running(a, b);
    rig.running(a, b, "request-2");
    std::uint32_t const last = rig.running(a, b, "request-3");
    change_link(5);
    ASSERT_EQ(rig.plans.size(), 2u);  // so many at once
    rig.delete_channel(a, first);
    rig.plan({}, "another table");
    ASSERT_EQ(rig.plans.size(), 1u);
    EXPECT_EQ(rig.plans[0].channel, last);
}

}  // namespace
}  // namespace mgi::control::test
