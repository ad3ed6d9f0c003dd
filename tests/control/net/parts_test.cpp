// Addresses, and lines that strangers cause in the log.
#include <gtest/gtest.h>

#include <mgi/error.hpp>

#include "control/net/address.hpp"
#include "control/net/bounded_log.hpp"

namespace mgi::control::net {
namespace {

TEST(NetAddress, IsSplitAtItsPort) {
    EXPECT_EQ(split_address("--listen", "node1:7070").host, "node1");
    EXPECT_EQ(split_address("--listen", "node1:7070").port, 7070);
    EXPECT_EQ(split_address("--listen", "[::1]:0").host, "::1");
    for (char const* const wrong :
         {"", "node1", ":1", "node1:", "node1:x", "node1:65536", "::1:1"}) {
        EXPECT_THROW((void)split_address("--listen", wrong), Error) << wrong;
    }
}

TEST(NetAddress, SaysWhoseItIs) {
    auto const one = [](char const* text) {
        return resolve(split_address("address", text), false).at(0);
    };
    EXPECT_EQ(one("10.0.0.5:70").text(), "10.0.0.5:70");
    EXPECT_EQ(one("[fd00::5]:70").text(), "[fd00::5]:70");
    EXPECT_EQ(one("10.0.0.5:70").origin(), one("10.0.0.5:71").origin());
    EXPECT_EQ(one("[::ffff:10.0.0.5]:70").origin(), one("10.0.0.5:71").origin());
    EXPECT_EQ(one("[fd00::5]:70").origin(), one("[fd00::6]:70").origin());
    EXPECT_NE(one("[fd00:0:0:1::5]:70").origin(), one("[fd00::5]:70").origin());
}

TEST(NetBoundedLog, CountsWhatItLeavesOut) {
    BoundedLog log;
    auto now = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < BoundedLog::kLines; ++i) log.warn("a line", now);
    EXPECT_EQ(log.left_out(), 0u);
    for (int i = 0; i < 1000; ++i) log.warn("a line", now);
    EXPECT_EQ(log.left_out(), 1000u);
    now += BoundedLog::kPause;
    log.warn("the next line", now);
    EXPECT_EQ(log.left_out(), 0u);
    log.warn("a line", now);
    EXPECT_EQ(log.left_out(), 1u);
}

}  // namespace
}  // namespace mgi::control::net
