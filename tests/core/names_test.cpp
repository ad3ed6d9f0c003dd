#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include <mgi/channel.hpp>
#include <mgi/error.hpp>
#include <mgi/graph.hpp>
#include <mgi/plan.hpp>
#include <mgi/runtime.hpp>

#include "core/log.hpp"
#include "core/text.hpp"
#include "support/expect_error.hpp"

namespace mgi {
namespace {

TEST(Names, EveryErrorCodeHasItsOwn) {
    std::set<std::string> names;
    for (std::uint32_t code = 0; code <= std::uint32_t(ErrorCode::Internal); ++code) {
        names.insert(to_string(ErrorCode(code)));
    }
    EXPECT_EQ(names.size(), std::size_t(ErrorCode::Internal) + 1);
    EXPECT_FALSE(names.contains("Unknown"));
    EXPECT_STREQ(to_string(ErrorCode(99)), "Unknown");
}

TEST(Names, TransfersAndVertices) {
    EXPECT_STREQ(to_string(Transfer::ByReference), "by reference");
    EXPECT_STREQ(to_string(Transfer::ByCopy), "by copy");
    EXPECT_STREQ(to_string(Transfer::Mixed), "by reference on a server, by copy between servers");
    EXPECT_STREQ(to_string(VertexKind::Cpu), "cpu");
    EXPECT_STREQ(to_string(VertexKind::Network), "network");
}

TEST(Names, BytesAreReadable) {
    EXPECT_EQ(bytes_text(0), "0 bytes");
    EXPECT_EQ(bytes_text(1), "1 byte");
    EXPECT_EQ(bytes_text(1023), "1023 bytes");
    EXPECT_EQ(bytes_text(1024), "1 KiB");
    EXPECT_EQ(bytes_text(1536), "1.5 KiB");
    EXPECT_EQ(bytes_text(std::uint64_t(1) << 30), "1 GiB");
    EXPECT_EQ(bytes_text(~std::uint64_t(0)), "15.9 EiB");
    EXPECT_EQ(bytes_text(2047), "1.9 KiB");
}

TEST(Names, RoutingsSayWhatTheyAre) {
    Routing const one = Routing::partition("k", Hash::Modulo);
    EXPECT_EQ(one.kind, device::RoutingKind::Partition);
    EXPECT_EQ(one.keys, std::vector<std::string>{"k"});
    EXPECT_EQ(one.hash, Hash::Modulo);
    Routing const two = Routing::partition(std::vector<std::string>{"a", "b"});
    EXPECT_EQ(two.keys.size(), 2u);
    EXPECT_EQ(two.hash, Hash::Murmur3);
    EXPECT_EQ(Routing::broadcast().kind, device::RoutingKind::Broadcast);
    EXPECT_EQ(Routing::direct().kind, device::RoutingKind::Direct);
    EXPECT_EQ(Routing::balance().kind, device::RoutingKind::Balance);
}

/// Sets the level back, whatever MGI_LOG said at the start.
class LogLevel : public ::testing::Test {
protected:
    void SetUp() override {
        for (int level = 0; level <= int(log::Level::Error); ++level) {
            if (log::enabled(log::Level(level))) {
                at_start_ = names_[std::size_t(level)];
                break;
            }
        }
    }
    void TearDown() override { set_log_level(at_start_); }

    std::vector<std::string> const names_{"trace", "debug", "info", "warn", "error", "off"};
    std::string at_start_ = "off";
};

TEST_F(LogLevel, SaysWhatIsWritten) {
    for (std::size_t chosen = 0; chosen < names_.size(); ++chosen) {
        set_log_level(names_[chosen]);
        for (std::size_t level = 0; level < names_.size(); ++level) {
            bool const off = names_[level] == "off";
            EXPECT_EQ(log::enabled(log::Level(level)), !off && level >= chosen)
                << names_[level] << " at " << names_[chosen];
        }
    }
}

TEST_F(LogLevel, LinesGoToStandardError) {
    set_log_level("info");
    ::testing::internal::CaptureStderr();
    log::info("segment {} of {}", 3, "lane 4");
    log::debug("not {}", "this");
    std::string const text = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(text.find("mgi info: segment 3 of lane 4\n"), std::string::npos) << text;
    EXPECT_EQ(text.find("not this"), std::string::npos);
}

TEST_F(LogLevel, AnUnknownLevelIsRefusedByName) {
    test::expect_error(ErrorCode::InvalidArgument, {"\"loud\"", "debug"},
                       [] { set_log_level("loud"); });
}

}  // namespace
}  // namespace mgi
