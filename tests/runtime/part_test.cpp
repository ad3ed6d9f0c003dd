// What stands ahead of the tables in a channel's part, and what an opener makes of any other file.
#include "runtime/part.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "support/expect_error.hpp"
#include "support/random.hpp"

namespace mgi::test {
namespace {

constexpr std::uint32_t kPartsChannel = 12;
PartSizes const kSizes{5000, 70'000, 8192};

PartMembers members_seen_from(std::uint32_t me) {
    PartMembers members;
    members.source_member = {0, 1, 2};
    members.destination_member = {2, 1};
    members.me = me;
    members.count = 3;
    return members;
}

std::shared_ptr<Part> make(std::uint32_t me = 0) {
    Plan plan;
    plan.transfer = Transfer::ByCopy;
    plan.segment_rows = 100;
    plan.max_groups = 3;
    return Part::create(kPartsChannel, members_seen_from(me), plan, 9000, kSizes);
}

TEST(Part, OthersFindWhatTheMakerPlanned) {
    auto const made = make();
    auto const found = Part::open(made->descriptor(), kPartsChannel, members_seen_from(2));
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->plan().transfer, Transfer::ByCopy);
    EXPECT_EQ(found->plan().segment_rows, 100U);
    EXPECT_EQ(found->plan().max_groups, 3U);
    EXPECT_EQ(found->receive_limit(), 9000U);
    EXPECT_NO_THROW(found->check(kSizes));
    EXPECT_EQ(found->tables(), made->tables());
    EXPECT_EQ(found->pool().begin, made->pool().begin);
    EXPECT_EQ(found->pool().growth, made->pool().growth + 2 * kSizes.growth);
    EXPECT_GE(3 * found->pool().charge, kSizes.fixed);
    PartSizes other = kSizes;
    ++other.fixed;
    expect_error(ErrorCode::InvalidArgument, {"channel 12", "specification"},
                 [&] { found->check(other); });
}

TEST(Part, MembersHearEachOther) {
    auto const a = make(0);
    auto const b = Part::open(a->descriptor(), kPartsChannel, members_seen_from(1));
    EXPECT_EQ(a->presence(1), Part::Presence::Awaited);
    EXPECT_EQ(a->describe(1), "process 1");
    b->join();
    EXPECT_EQ(a->presence(1), Part::Presence::Joined);
    EXPECT_EQ(a->describe(1), "process 1 (pid " + std::to_string(getpid()) + ")");
    EXPECT_EQ(a->heartbeat(1), 0U);
    b->beat();
    EXPECT_EQ(a->heartbeat(1), 1U);
    EXPECT_TRUE(a->is_source_attended(1));
    EXPECT_TRUE(a->is_destination_attended(1));
    b->attend_source(1, false);
    EXPECT_FALSE(a->is_source_attended(1));
    EXPECT_TRUE(a->is_destination_attended(1));
    b->leave();
    EXPECT_EQ(a->presence(1), Part::Presence::Left);
    EXPECT_FALSE(a->is_destination_attended(1));
    EXPECT_TRUE(a->is_destination_attended(0));
    EXPECT_TRUE(a->is_source_attended(2));
}

// What ThreadSanitizer sees of threads holds for processes, which share nothing else.
TEST(Part, WhoIsSeenToJoinAndLeaveHasDoneWhatCameBefore) {
    for (int round = 0; round < 20; ++round) {
        auto const part = make();
        int before_joining = 0;
        int before_leaving = 0;
        std::atomic<bool> has_joined{false};
        std::jthread const member([&] {
            before_joining = 1;
            part->join();
            while (!has_joined.load(std::memory_order_relaxed)) std::this_thread::yield();
            before_leaving = 2;
            part->leave();
        });
        std::jthread const other([&] {
            while (part->presence(0) == Part::Presence::Awaited) std::this_thread::yield();
            EXPECT_EQ(before_joining, 1);
            has_joined.store(true, std::memory_order_relaxed);
            while (part->presence(0) != Part::Presence::Left) std::this_thread::yield();
            EXPECT_EQ(before_leaving, 2);
        });
    }
}

TEST(Part, AFailureIsReadOnceItIsTold) {
    for (int round = 0; round < 20; ++round) {
        auto const part = make();
        bool const is_late = round % 2 == 0;
        std::atomic<bool> listens{false};
        std::jthread const member([&] {
            while (!is_late && !listens.load(std::memory_order_relaxed)) std::this_thread::yield();
            (void)part->fail(ErrorCode::Stalled, "no row moved");
        });
        std::jthread const other([&] {
            // Told before the first look, or meanwhile.
            while (is_late && part->error() == ErrorCode::Ok) std::this_thread::yield();
            if (is_late) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            listens.store(true, std::memory_order_relaxed);
            std::string text = part->failure_text();
            // The member may stand still for long between failing and telling.
            for (int i = 0; i < 1000 && text != "no row moved"; ++i) text = part->failure_text();
            EXPECT_EQ(text, "no row moved");
        });
    }
}

TEST(Part, TheFirstFailureStays) {
    auto const a = make(0);
    auto const b = Part::open(a->descriptor(), kPartsChannel, members_seen_from(1));
    EXPECT_EQ(a->error(), ErrorCode::Ok);
    EXPECT_TRUE(b->fail(ErrorCode::Stalled, "no row moved"));
    EXPECT_FALSE(a->fail(ErrorCode::Deleted, "too late"));
    EXPECT_EQ(a->error(), ErrorCode::Stalled);
    EXPECT_EQ(a->failure_text(), "no row moved");
}

TEST(Part, OneOfManyFailuresIsTold) {
    for (int round = 0; round < 50; ++round) {
        auto const part = make();
        std::array<std::jthread, 3> threads;
        for (int i = 0; i < 3; ++i) {
            threads[std::size_t(i)] = std::jthread([&part, i] {
                (void)part->fail(ErrorCode(3 + i), std::string(2000, char('a' + i)));
            });
        }
        while (part->error() == ErrorCode::Ok) std::this_thread::yield();
        char const winner = char('a' + int(part->error()) - 3);
        for (auto& thread : threads) thread.join();
        EXPECT_EQ(part->failure_text(), std::string(2000, winner));
    }
}

TEST(Part, TextsAreCut) {
    auto const part = make();
    EXPECT_TRUE(part->fail(ErrorCode::Internal, std::string(100'000, 'x')));
    std::string const text = part->failure_text();
    EXPECT_GE(text.size(), 1000U);
    EXPECT_LE(text.size(), 10'000U);
}

TEST(Part, AFailureOfAnotherChannelIsRefused) {
    auto const made = make();
    auto const open = [&](std::uint32_t channel, PartMembers const& members) {
        (void)Part::open(made->descriptor(), channel, members);
    };
    expect_error(ErrorCode::InvalidArgument, {"channel 13", "channel 12"},
                 [&] { open(13, members_seen_from(1)); });
    PartMembers fewer = members_seen_from(1);
    fewer.source_member.pop_back();
    expect_error(ErrorCode::InvalidArgument, {"3 sources"}, [&] { open(kPartsChannel, fewer); });
    PartMembers more = members_seen_from(1);
    more.count = 4;
    expect_error(ErrorCode::InvalidArgument, {"3 processes"}, [&] { open(kPartsChannel, more); });
}

TEST(Part, MembersThatContradictEachOtherAreRefused) {
    PartMembers members = members_seen_from(1);
    EXPECT_NO_THROW(members.check(3, 2));
    EXPECT_THROW(members.check(2, 2), Error);
    EXPECT_THROW(members.check(3, 3), Error);
    members.me = 3;
    EXPECT_THROW(members.check(3, 2), Error);
    members = members_seen_from(1);
    members.destination_member[0] = 3;
    EXPECT_THROW(members.check(3, 2), Error);
    members.names = {"rank 0", "rank 5"};
    EXPECT_EQ(members.name(1), "rank 5");
    EXPECT_EQ(members.name(2), "process 2");
}

// Whatever stands in the file: an error, or a part within its bounds.
TEST(Part, AnyHeaderIsReadWithinBounds) {
    Random random(5);
    auto const whole = make();
    std::array<char, 256> original{};
    ASSERT_EQ(pread(whole->descriptor(), original.data(), original.size(), 0), 256);
    int refused = 0;
    for (int round = 0; round < 2000; ++round) {
        auto changed = original;
        // One word of it: an edge of its range, or anything.
        std::size_t const at = 4 * random.below(40);
        std::uint32_t const value =
            random.one_in(2) ? std::uint32_t(random.next())
                             : std::array{0U, 1U, 0x7fffffffU, UINT32_MAX}[random.below(4)];
        std::memcpy(changed.data() + at, &value, 4);
        ASSERT_EQ(pwrite(whole->descriptor(), changed.data(), 256, 0), 256);
        try {
            auto const part = Part::open(whole->descriptor(), kPartsChannel, members_seen_from(1));
            if (part == nullptr) continue;  // another address, where something may lie
            part->check(kSizes);
            (void)part->plan();
            part->join();
            *part->tables() = 1;
        } catch (Error const& error) {
            EXPECT_TRUE(error.code() == ErrorCode::InvalidArgument ||
                        error.code() == ErrorCode::OutOfMemory)
                << error.what();
            ++refused;
        }
    }
    EXPECT_GT(refused, 500);
    ASSERT_EQ(pwrite(whole->descriptor(), original.data(), 256, 0), 256);
}

TEST(Part, FilesThatAreNoPartsAreRefused) {
    int const empty = memfd_create("test", MFD_CLOEXEC);
    expect_error(ErrorCode::InvalidArgument, {"too short"},
                 [&] { (void)Part::open(empty, kPartsChannel, members_seen_from(1)); });
    ASSERT_EQ(ftruncate(empty, 1 << 20), 0);
    expect_error(ErrorCode::InvalidArgument, {"something else"},
                 [&] { (void)Part::open(empty, kPartsChannel, members_seen_from(1)); });
    close(empty);
    expect_error(ErrorCode::InvalidArgument, {},
                 [&] { (void)Part::open(empty, kPartsChannel, members_seen_from(1)); });
}

TEST(Part, WhatNoMachineHasIsRefused) {
    expect_error(ErrorCode::OutOfMemory, {"3 processes"}, [&] {
        (void)Part::create(kPartsChannel, members_seen_from(0), Plan{}, 0,
                           {4096, 4096, std::uint64_t{1} << 60});
    });
}

}  // namespace
}  // namespace mgi::test
