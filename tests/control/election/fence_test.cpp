// What a leader says leaves while its term runs, and not a moment later.
#include "control/election/fence.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "heard.hpp"

namespace mgi::control {
namespace {

using std::chrono::hours;

class FenceTest : public ::testing::Test {
protected:
    void say() {
        fence_.carry_out(Send{});
        fence_.carry_out(Answer{});
        fence_.carry_out(Close{});
    }
    mgi::test::Heard heard_;
    Fence fence_{heard_};
};

TEST_F(FenceTest, IsOpenWhileTheTermRuns) {
    say();
    EXPECT_EQ(heard_.sends, 0) << "no term has begun";
    fence_.open(BootClock::now() + hours(1));
    say();
    EXPECT_TRUE(fence_.renew(BootClock::now() + hours(2)));
    say();
    EXPECT_EQ(heard_.sends, 2);
    EXPECT_EQ(heard_.answers, 2);
    fence_.shut();
    say();
    EXPECT_EQ(heard_.sends, 2);
    EXPECT_EQ(heard_.answers, 2);
    EXPECT_EQ(heard_.closes, 4) << "sessions may end at any time";
}

TEST_F(FenceTest, ATermThatIsOverCannotBeRenewed) {
    fence_.open(BootClock::now());
    say();
    EXPECT_EQ(heard_.sends + heard_.answers, 0);
    EXPECT_FALSE(fence_.renew(BootClock::now() + hours(1)));
    say();
    EXPECT_EQ(heard_.sends + heard_.answers, 0);
    fence_.open(BootClock::now() + hours(1));
    EXPECT_TRUE(fence_.stands()) << "the next term";
}

TEST_F(FenceTest, ATermThatEndedUnnoticedCannotBeRenewed) {
    fence_.open(BootClock::now());
    EXPECT_FALSE(fence_.renew(BootClock::now() + hours(1)));
    EXPECT_FALSE(fence_.stands());
}

}  // namespace
}  // namespace mgi::control
