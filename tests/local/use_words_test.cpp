// What an application says of its channels, there and back.
#include "control/local/use_words.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace mgi::control {
namespace {

using test::expect_error;

ClusterUse full() {
    ClusterUse use;
    use.channel = 7;
    use.flow = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    use.queued = 10;
    ClusterPathUse path;
    path.source = 11;
    path.destination = 12;
    path.by = "copy";
    path.flow.bytes = 13;
    use.paths = {path, path};
    use.paths[1].source = use.paths[1].destination = ClusterPathUse::kAll;
    use.paths[1].nic = "nic0";
    use.paths[1].peer = "rank 3 on server b";
    use.more_paths = 14;
    use.nics.push_back({"nic0", {}});
    use.nics[0].flow.resends = 19;
    use.waits = {{ClusterWait::For::Mover, 15, {1, 2, 9}, 16, 17, "why"}};
    use.more_waits = 18;
    return use;
}

TEST(UseWords, ThereAndBack) {
    std::string const frame = frame_of(json_of(full()));
    ClusterUse const use = use_in(message_from(std::string_view(frame).substr(4)));
    EXPECT_EQ(use.channel, 7u);
    EXPECT_EQ(use.flow.rows, 1u);
    EXPECT_EQ(use.flow.bytes, 2u);
    EXPECT_EQ(use.flow.segments, 3u);
    EXPECT_EQ(use.flow.in_flight, 4u);
    EXPECT_EQ(use.flow.waiting, 5u);
    EXPECT_EQ(use.flow.waits, 6u);
    EXPECT_EQ(use.flow.waited_ms, 7u);
    EXPECT_EQ(use.flow.longest_wait_ms, 8u);
    EXPECT_EQ(use.flow.resends, 9u);
    EXPECT_EQ(use.queued, 10u);
    ASSERT_EQ(use.paths.size(), 2u);
    EXPECT_EQ(use.paths[0].source, 11u);
    EXPECT_EQ(use.paths[0].destination, 12u);
    EXPECT_EQ(use.paths[0].by, "copy");
    EXPECT_EQ(use.paths[0].flow.bytes, 13u);
    EXPECT_EQ(use.paths[1].source, ClusterPathUse::kAll);
    EXPECT_EQ(use.paths[1].destination, ClusterPathUse::kAll);
    EXPECT_EQ(use.paths[1].nic, "nic0");
    EXPECT_EQ(use.paths[1].peer, "rank 3 on server b");
    EXPECT_EQ(use.more_paths, 14u);
    ASSERT_EQ(use.nics.size(), 1u);
    EXPECT_EQ(use.nics[0].nic, "nic0");
    EXPECT_EQ(use.nics[0].flow.resends, 19u);
    ASSERT_EQ(use.waits.size(), 1u);
    EXPECT_EQ(use.waits[0].what, ClusterWait::For::Mover);
    EXPECT_EQ(use.waits[0].who, 15u);
    EXPECT_EQ(use.waits[0].whom, (std::vector<std::uint32_t>{1, 2, 9}));
    EXPECT_EQ(use.waits[0].more, 16u);
    EXPECT_EQ(use.waits[0].ms, 17u);
    EXPECT_EQ(use.waits[0].why, "why");
    EXPECT_EQ(use.more_waits, 18u);
}

TEST(UseWords, OlderApplicationsSayLess) {
    ClusterUse const use = use_in({{"channel", 7u}, {"rows", 1u}, {"bytes", 2u}});
    EXPECT_EQ(use.flow.bytes, 2u);
    EXPECT_TRUE(use.paths.empty());
}

TEST(UseWords, WhatIsWrongIsNamed) {
    auto const refused = [](char const* field, Json const& value) {
        Json message = json_of(full());
        message[field] = value;
        expect_error(ErrorCode::InvalidArgument, {field}, [&] { (void)use_in(message); });
    };
    refused("channel", "seven");
    refused("rows", -1);
    refused("paths", 3u);
    refused("paths", Json::array({1u}));
    refused("paths", Json(Json::array_t(17, {{"by", "copy"}})));
    refused("nics", Json(Json::array_t(65, {{"nic", "nic0"}})));
    refused("who_waits", Json(Json::array_t(9, {{"what", 0u}})));
    Json message = json_of(full());
    message["who_waits"][0]["what"] = 4u;
    expect_error(ErrorCode::InvalidArgument, {"what"}, [&] { (void)use_in(message); });
    message = json_of(full());
    message["who_waits"][0]["whom"] = {1u, 9u};
    expect_error(ErrorCode::InvalidArgument, {"whom"}, [&] { (void)use_in(message); });
    message = json_of(full());
    message["paths"][0]["nic"] = std::string(129, 'n');
    expect_error(ErrorCode::InvalidArgument, {"nic"}, [&] { (void)use_in(message); });
}

// The agent takes no text that is too long, and none that is not UTF-8.
TEST(UseWords, LongNamesAreCutBetweenCharacters) {
    ClusterUse use = full();
    use.paths[0].peer = std::string(127, 'p') + "\u00e9" + "tail";
    use.waits[0].why = std::string(510, 'w') + "\u20ac" + "tail";
    std::string const frame = frame_of(json_of(use));
    ClusterUse const read = use_in(message_from(std::string_view(frame).substr(4)));
    EXPECT_EQ(read.paths[0].peer, std::string(127, 'p'));
    EXPECT_EQ(read.waits[0].why, std::string(510, 'w'));
}

// A request has at most kMostRequestBytes, beyond which the agent closes the connection.
TEST(UseWords, TheFullestMessageIsSmallEnough) {
    ClusterUse use = full();
    use.channel = UINT32_MAX;
    use.flow = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
                UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    use.paths[0].flow = use.flow;
    use.paths[0].by = use.paths[0].nic = use.paths[0].peer = std::string(128, 'n');
    use.nics.assign(ClusterUse::kMostNics, {std::string(128, 'n'), use.flow});
    use.paths.assign(ClusterUse::kMostPaths, use.paths[0]);
    use.waits[0].whom = {1, 3, 5, 7, 9, 11, 13, 15};
    use.waits[0].why = std::string(512, 'w');
    use.waits.assign(ClusterUse::kMostWaits, use.waits[0]);
    Json const message = {{"op", "use"}, {"channels", Json(kMostUsesAtOnce, json_of(use))}};
    EXPECT_LT(frame_of(message).size(), kMostRequestBytes);
}

}  // namespace
}  // namespace mgi::control
