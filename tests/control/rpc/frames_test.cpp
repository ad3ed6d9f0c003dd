// Frames in pieces, too long, and of nothing.
#include "control/rpc/frames.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include <mgi/error.hpp>

#include "control/proto/control.pb.h"
#include "fuzz/targets.hpp"
#include "support/random.hpp"

namespace mgi::control {
namespace {

std::string frame_of(std::string const& token) {
    Hello hello;
    hello.set_token(token);
    return frame_with(hello);
}

std::string token_in(std::string_view bytes) {
    Hello hello;
    parse_frame(bytes, hello);
    return hello.token();
}

TEST(Frames, ComeInAnyPieces) {
    std::string const bytes = frame_of("one") + frame_of("") + frame_of(std::string(300, 'x'));
    for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
        FrameBuffer frames(1000);
        std::string heard;
        for (std::size_t at = 0; at < bytes.size(); at += piece) {
            frames.add(std::string_view(bytes).substr(at, piece));
            while (auto const frame = frames.next()) heard += token_in(*frame) + ";";
        }
        EXPECT_EQ(heard, "one;;" + std::string(300, 'x') + ";") << piece;
        EXPECT_FALSE(frames.has_part());
    }
}

TEST(Frames, OneThatIsTooLongIsRefusedBeforeItComes) {
    FrameBuffer frames(1000);
    frames.add(frame_of("one"));
    frames.add(std::string("\xe9\x03\x00\x00", 4));  // 1001
    EXPECT_TRUE(frames.next().has_value());
    EXPECT_THROW((void)frames.next(), Error);
    frames.limit(2000);
    EXPECT_FALSE(frames.next().has_value());
    EXPECT_TRUE(frames.has_part());
}

TEST(Frames, WhatIsNoMessageIsRefused) {
    Hello hello;
    EXPECT_THROW(parse_frame("\xff\xff\xff", hello), Error);
    EXPECT_THROW(parse_frame("\x12\x7f", hello), Error);  // a string that is not there
}

/// As tests/fuzz/replay_test.cpp does for the other targets.
TEST(Frames, BytesFromSeedsBreakNoPromise) {
    for (std::uint64_t seed = 0; seed < 5000; ++seed) {
        mgi::test::Random random{seed};
        std::vector<std::uint8_t> bytes(random.below(400));
        for (std::uint8_t& byte : bytes) byte = std::uint8_t(random.next());
        // Lengths that are, now and then.
        if (bytes.size() > 8 && seed % 2 == 0) bytes[5] = bytes[6] = bytes[7] = 0;
        EXPECT_NO_THROW(fuzz::control_frames(fuzz::Input(bytes.data(), bytes.size()))) << seed;
    }
}

}  // namespace
}  // namespace mgi::control
