#include "control/local/cbor.hpp"

#include <gtest/gtest.h>

#include <string>

#include "control/local/words.hpp"
#include "support/expect_error.hpp"

namespace mgi::control {
namespace {

using test::expect_error;

std::string body_of(Json const& message) {
    return frame_of(message).substr(4);
}

Json const kMessage = {{"op", "hello"},
                       {"id", 7u},
                       {"deep", {{"list", {1u, 2u, -3}}, {"none", nullptr}, {"yes", true}}},
                       {"number", 0.5},
                       {"bytes", bytes_value(std::string("\0\xff", 2))}};

TEST(Cbor, WhatIsWrittenIsRead) {
    EXPECT_EQ(message_from(body_of(kMessage)), kMessage);
}

TEST(Cbor, EveryCutAndEveryChangedByteIsRefusedOrRead) {
    std::string const body = body_of(kMessage);
    for (std::size_t cut = 0; cut < body.size(); ++cut) {
        expect_error(ErrorCode::InvalidArgument, {"a message that is"},
                     [&] { message_from(body.substr(0, cut)); });
    }
    for (std::size_t at = 0; at < body.size(); ++at) {
        for (int value = 0; value < 256; ++value) {
            std::string changed = body;
            changed[at] = static_cast<char>(value);
            try {
                (void)message_from(changed);
            } catch (Error const& error) {
                EXPECT_EQ(error.code(), ErrorCode::InvalidArgument) << error.what();
            }
        }
    }
}

TEST(Cbor, WhatNoMessageOfOursUsesIsRefused) {
    auto const refuse = [](std::string const& bytes, std::string const& expected) {
        expect_error(ErrorCode::InvalidArgument, {"damaged at byte", expected},
                     [&] { message_from(bytes); });
    };
    expect_error(ErrorCode::InvalidArgument, {"no CBOR map"}, [] { message_from(""); });
    expect_error(ErrorCode::InvalidArgument, {"no CBOR map"},
                 [] { message_from("\x83\x01\x02\x03"); });
    refuse(std::string(1, '\xbf'), "definite length");
    // Strings in pieces nest without an end: a decoder that recurses would not come back.
    refuse("\xa1" + std::string(100'000, '\x7f'), "definite length");
    refuse("\xa1\x61k" + std::string(1'000'000, '\x81'), "at most 16 levels");
    refuse("\xa1\x61k\xc1\x01", "no tag");
    refuse("\xa1\x61k\xfc", "a plain value");
    refuse("\xa1\x61k\x9b\xff\xff\xff\xff\xff\xff\xff\xff", "fewer items");
    refuse("\xa1\x61k\x5b\xff\xff\xff\xff\xff\xff\xff\xff", "rest of a byte string");
    refuse("\xa1\x61k\x01\x02", "the end of the message");
    for (std::string const text : {"\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff\xff"}) {
        refuse("\xa1\x61k" + std::string(1, char(0x60 + text.size())) + text, "UTF-8");
    }
    // A key that is no text, and a map without a value.
    expect_error(ErrorCode::InvalidArgument, {"damaged"}, [] { message_from("\xa1\x01\x02"); });
    refuse("\xa1\x61k", "one more item");
}

// One byte of it may become an item of 16.
TEST(Cbor, MoreItemsThanAnyMessageHasAreRefused) {
    constexpr std::size_t kItems = kMostItems + 1;
    std::string message = {char(0xA1), 0x61, 'a', char(0x9A)};
    for (int i = 3; i >= 0; --i) message += static_cast<char>(kItems >> (8 * i));
    message.append(kItems, '\0');
    expect_error(ErrorCode::InvalidArgument, {"at most 4194304 items"},
                 [&] { (void)message_from(message); });
}

TEST(Frames, ComeInAnyPieces) {
    std::string const stream = frame_of(kMessage) + frame_of({{"op", "x"}}) + frame_of(kMessage);
    for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
        FrameReader reader(1000);
        std::vector<Json> got;
        for (std::size_t at = 0; at < stream.size(); at += piece) {
            std::string const part = stream.substr(at, piece);
            reader.add(part.data(), part.size());
            while (auto message = reader.next()) got.push_back(std::move(*message));
        }
        ASSERT_EQ(got.size(), 3u) << piece;
        EXPECT_EQ(got[0], kMessage);
        EXPECT_EQ(got[1]["op"], "x");
        EXPECT_EQ(reader.held(), 0u);
    }
}

TEST(Frames, LengthsBeyondTheLimitAreRefusedBeforeAnyRoomIsMade) {
    for (std::string const& length : {std::string("\xff\xff\xff\xff"), std::string(4, '\0')}) {
        FrameReader reader(1000);
        reader.add(length.data(), length.size());
        expect_error(ErrorCode::InvalidArgument, {"expected 1 to 1000"}, [&] { reader.next(); });
    }
}

TEST(Fields, NameWhatIsWrong) {
    Json const message = {{"number", 5u}, {"text", "t"}, {"runs", {1u, 2u}}, {"minus", -1}};
    EXPECT_EQ(number_in(message, "number", 5), 5u);
    auto const refuse = [](std::string const& field, std::string const& expected,
                           std::function<void()> const& call) {
        expect_error(ErrorCode::InvalidArgument, {"field '" + field + "'", expected}, call);
    };
    refuse("number", "from 0 to 4", [&] { (void)number_in(message, "number", 4); });
    refuse("minus", "from 0 to 4", [&] { (void)number_in(message, "minus", 4); });
    refuse("absent", "missing", [&] { (void)text_in(message, "absent"); });
    refuse("number", "a text", [&] { (void)text_in(message, "number"); });
    refuse("text", "at most 0 bytes", [&] { (void)text_in(message, "text", 0); });
    refuse("text", "true or false", [&] { (void)flag_in(message, "text"); });
    refuse("text", "a byte string", [&] { (void)bytes_in(message, "text"); });
    refuse("text", "ids as runs", [&] { (void)ids_in(message, "text"); });
    refuse("absent", "missing", [] { (void)text_in(Json(5), "absent"); });
}

TEST(Runs, KeepIdsAndTheirOrder) {
    for (std::vector<std::uint32_t> const& ids : {std::vector<std::uint32_t>{},
                                                  {7},
                                                  {1, 2, 3},
                                                  {3, 2, 1},
                                                  {1, 2, 9, 10, 4},
                                                  {UINT32_MAX - 1, UINT32_MAX, 0}}) {
        EXPECT_EQ(ids_in({{"ids", runs_of(ids)}}, "ids"), ids);
    }
    EXPECT_EQ(runs_of({5, 6, 7, 20}), Json({5u, 3u, 20u, 1u}));
    auto const refuse = [](Json runs, std::string const& expected) {
        expect_error(ErrorCode::InvalidArgument, {"field 'ids'", expected},
                     [&] { (void)ids_in({{"ids", std::move(runs)}}, "ids"); });
    };
    refuse({1u, kMostEndpoints + 1}, "at most 1048576 ids");
    refuse({1u, UINT64_MAX}, "at most 1048576 ids");
    refuse({UINT32_MAX, 2u}, "ids of 32 bits");
    refuse({1u}, "ids as runs");
    refuse({1u, "two"}, "ids as runs");
}

TEST(Words, PlansAndErrorsCross) {
    ClusterPlan plan;
    plan.channel = 9;
    plan.generation = 3;
    plan.spec.name = "lineitem";
    plan.spec.sources = {1, 2, 3};
    plan.spec.destinations = {9};
    plan.spec.routing = 2;
    plan.spec.schema = std::string("s\0s", 3);
    plan.spec.relay_host = false;
    plan.directory = "directory";
    plan.table = std::string(1, '\xff');
    plan.request = "r-1";
    ClusterPlan const read = plan_in(message_from(body_of(json_of(plan))));
    EXPECT_EQ(read.channel, 9u);
    EXPECT_EQ(read.generation, 3u);
    EXPECT_EQ(read.spec.sources, plan.spec.sources);
    EXPECT_EQ(read.spec.destinations, plan.spec.destinations);
    EXPECT_EQ(read.spec.schema, plan.spec.schema);
    EXPECT_TRUE(read.spec.relay_gpus);
    EXPECT_FALSE(read.spec.relay_host);
    EXPECT_EQ(read.table, plan.table);
    EXPECT_EQ(read.request, plan.request);

    Error const error = error_in(error_value(ErrorCode::NotFound, "no such endpoint"));
    EXPECT_EQ(error.code(), ErrorCode::NotFound);
    EXPECT_STREQ(error.what(), "no such endpoint");

    plan.spec.destinations.clear();
    expect_error(ErrorCode::InvalidArgument, {"'lineitem' has no destinations"},
                 [&] { (void)plan_in(json_of(plan)); });
}

}  // namespace
}  // namespace mgi::control
