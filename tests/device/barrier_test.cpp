// Groups: the barrier, agreement, scratch.
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "support/groups.hpp"

namespace mgi::device {
namespace {

TEST(DeviceGroup, BarrierOrdersWritesOfAllThreads) {
    for (u32 threads : {1U, 2U, 4U}) {
        std::vector<u64> slots(threads);
        test::run_groups(1, threads, 256, [&](Group const& group, Shared&) {
            for (u64 round = 1; round <= 500; ++round) {
                slots[group.thread] = round;  // plain: a race if the barrier did not order it
                group.sync();
                for (u64 value : slots) ASSERT_EQ(value, round);
                group.sync();
            }
        });
    }
}

TEST(DeviceGroup, AgreementIsTheLeadersValue) {
    test::run_groups(2, 3, 256, [&](Group const& group, Shared& shared) {
        auto* const word = reinterpret_cast<u32*>(shared.data);
        for (u32 round = 0; round < 200; ++round) {
            ASSERT_EQ(agree(group, word, group.leads() ? round : 9999), round);
        }
    });
}

TEST(DeviceGroup, AllAgreeOnlyWhenEveryThreadDoes) {
    test::run_groups(2, 3, 256, [&](Group const& group, Shared& shared) {
        auto* const word = reinterpret_cast<u32*>(shared.data);
        for (u32 round = 0; round < 200; ++round) {
            ASSERT_EQ(all_agree(group, word, round % 4 != group.thread), round % 4 == 3);
        }
    });
}

TEST(DeviceGroup, BrokenBarrierReleasesEveryThread) {
    for (int round = 0; round < 50; ++round) {
        EXPECT_THROW(test::run_groups(2, 3, 256,
                                      [&](Group const& group, Shared&) {
                                          for (int i = 0; i < 5; ++i) group.sync();
                                          if (group.block == 1 && group.thread == 2) {
                                              throw std::runtime_error("a user's mistake");
                                          }
                                          for (int i = 0; i < 5; ++i) group.sync();
                                      }),
                     std::runtime_error);
    }
}

TEST(DeviceGroup, BarrierOutlivesTheWrapOfItsCount) {
    // The count of phases takes 31 bits; a run of a few minutes passes it. Two threads that only meet
    // here take too long for a test, one alone shows the same.
    HostBarrier barrier(1);
    for (u64 i = 0; i < 5'000'000; ++i) barrier.arrive_and_wait();
    barrier.leave();
    EXPECT_THROW(barrier.arrive_and_wait(), GroupAborted);
}

TEST(DeviceGroup, SliceRenumbersGroups) {
    Group group;
    group.block = 5;
    group.blocks = 8;
    Group const part = group.slice(4, 3);
    EXPECT_EQ(part.block, 1U);
    EXPECT_EQ(part.blocks, 3U);
}

TEST(DeviceGroup, ScratchIsTakenFromTheEnd) {
    test::Scratch scratch(256);
    Shared shared = scratch.shared();
    std::byte* const start = shared.data;
    auto* const counters = shared.take<u64>(4, 128);
    ASSERT_NE(counters, nullptr);
    EXPECT_EQ(reinterpret_cast<std::byte*>(counters), start + 224);
    EXPECT_EQ(shared.bytes, 224U);
    EXPECT_EQ(shared.take<u64>(20, 128), nullptr) << "the reserve is kept";
    EXPECT_EQ(shared.bytes, 224U);
    EXPECT_EQ(shared.take<u64>(1000), nullptr);
}

}  // namespace
}  // namespace mgi::device
