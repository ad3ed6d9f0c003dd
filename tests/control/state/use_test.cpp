// Rates of channels, from figures that applications bring about once a second.
#include <gtest/gtest.h>

#include "control/state/rig.hpp"

namespace mgi::control::test {
namespace {

struct Used : ::testing::Test {
    Rig rig;
    Agent a = rig.register_agent("a");
    Agent b = rig.register_agent("b");
    std::uint32_t const ea = rig.endpoint(a);
    std::uint32_t const eb = rig.endpoint(b);
    std::uint32_t const id = rig.running(a, b);

    double gbps() const {
        Snapshot shown = rig.cluster.snapshot(Now{rig.time, 0});
        complete(shown);
        return shown.channels.at(0).gbps;
    }
    void beat(std::uint64_t bytes) {
        rig.pass(100, {&b});
        AgentMessage message;
        ChannelUse& use = *message.mutable_heartbeat()->add_channels();
        use.set_channel(id);
        use.set_bytes(bytes);
        rig.say(a, message);
    }
};
using ControlUse = Used;

TEST_F(ControlUse, RatesDoNotFlickerBetweenReports) {
    constexpr std::uint64_t kGigabyte = 1'000'000'000;
    for (int tenth = 1; tenth <= 300; ++tenth) {
        beat(static_cast<std::uint64_t>(tenth / 10) * kGigabyte);  // 1 GB/s, said once a second
        if (tenth < 60) continue;
        ASSERT_GT(gbps(), 0.6) << tenth;
        ASSERT_LT(gbps(), 1.4) << tenth;
    }
    for (int tenth = 0; tenth < 65; ++tenth) beat(30 * kGigabyte);
    EXPECT_EQ(gbps(), 0);
}

TEST_F(ControlUse, ANewChannelsRateIsSeenSoon) {
    beat(0);
    beat(100'000'000);
    EXPECT_NEAR(gbps(), 1, 1e-9);
}

TEST_F(ControlUse, AnApplicationThatBeginsAgainHasNoNegativeRate) {
    for (int tenth = 1; tenth <= 60; ++tenth) {
        beat(static_cast<std::uint64_t>(tenth) * 100'000'000);
    }
    beat(5);
    EXPECT_EQ(gbps(), 0);
}

}  // namespace
}  // namespace mgi::control::test
