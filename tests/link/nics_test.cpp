// Several links over the same NICs in virtual time: who gets how much of them, and how soon.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include <mgi/runtime.hpp>

#include "link/nics.hpp"
#include "support/hang_guard.hpp"

namespace mgi::test {
namespace {

using mover::link::kMillisecond;
using mover::link::kSecond;
using mover::link::NicShares;
using mover::link::NicWords;

class LinkNics : public ::testing::TestWithParam<Discipline> {
protected:
    LinkNics() { set_log_level("error"); }
    ~LinkNics() override { set_log_level("warn"); }

    /// What each stream has had carried by a NIC in a while.
    static std::vector<double> carried_in(Nics& nics, Time time, std::size_t nic,
                                          std::vector<Stream*> const& streams) {
        std::vector<double> before;
        for (Stream* const stream : streams) before.push_back(double(stream->carried[nic]));
        nics.run(time);
        std::vector<double> bytes;
        for (std::size_t i = 0; i < streams.size(); ++i) {
            bytes.push_back(double(streams[i]->carried[nic]) - before[i]);
            EXPECT_EQ(streams[i]->trouble, "");
        }
        return bytes;
    }

    NicBoard board;
};

INSTANTIATE_TEST_SUITE_P(Both, LinkNics,
                         ::testing::Values(Discipline::InOrder, Discipline::ByTurns),
                         [](auto const& of) {
                             return of.param == Discipline::InOrder ? "InOrder" : "ByTurns";
                         });

// The faster a NIC, the more work is a second of it.
constexpr double kRate = kSanitized ? 0.05 : 0.25;

std::vector<double> rates(std::vector<double> all, double slowest) {
    return kSanitized ? std::vector<double>{slowest} : std::move(all);
}

TEST_P(LinkNics, ChannelsShareANicByWeight) {
    for (double const rate : rates({0.25, 0.05, 2.0}, 0.05)) {
        Nics nics({rate}, GetParam());
        Stream& one = nics.add({.channel = 1, .weight = 1}, board);
        Stream& three = nics.add({.channel = 2, .weight = 3}, board);
        nics.want(one, true);
        nics.want(three, true);
        nics.run(kSecond / 2);
        Time const time = kSecond;
        auto const bytes = carried_in(nics, time, 0, {&one, &three});
        EXPECT_NEAR(bytes[1] / bytes[0], 3, 0.3) << rate;
        EXPECT_GT(bytes[0] + bytes[1], 0.97 * rate * double(time)) << rate;
    }
}

TEST_P(LinkNics, WhatAChannelDoesNotWantOthersHave) {
    double const rate = 0.25;
    Nics nics({rate}, GetParam());
    Stream& one = nics.add({.channel = 1, .weight = 1}, board);
    Stream& nine = nics.add({.channel = 2, .weight = 9}, board);
    nics.want(one, true);
    for (int i = 0; i < (kSanitized ? 1 : 3); ++i) {
        nics.want(nine, true);
        nics.run(kSecond / 4);
        auto const both = carried_in(nics, kSecond / 2, 0, {&one, &nine});
        EXPECT_NEAR(both[1] / both[0], 9, 1.5);
        nics.want(nine, false);
        nics.run(kSecond / 10);
        auto const alone = carried_in(nics, kSecond / 4, 0, {&one, &nine});
        EXPECT_GT(alone[0], 0.97 * rate * double(kSecond) / 4);
    }
}

// Its other end is slow, not the NIC: the light one need not wait for the heavy one.
TEST_P(LinkNics, AChannelThatCannotUseItsShareIsNotWaitedFor) {
    double const rate = kRate;
    Nics nics({rate}, GetParam());
    Stream& one = nics.add({.channel = 1, .weight = 1}, board);
    Stream& nine = nics.add({.channel = 2, .weight = 9, .most = rate / 10}, board);
    nics.want(one, true);
    nics.want(nine, true);
    nics.run(kSecond / 2);
    auto const bytes = carried_in(nics, kSecond, 0, {&one, &nine});
    EXPECT_GT(bytes[1], 0.09 * rate * double(kSecond));
    EXPECT_GT(bytes[0] + bytes[1], 0.95 * rate * double(kSecond));
}

TEST_P(LinkNics, ChannelsOverTwoNicsShareBoth) {
    double const rate = kRate;
    Nics nics({rate, rate}, GetParam());
    Stream& one = nics.add({.channel = 1, .weight = 1}, board);
    Stream& three = nics.add({.channel = 2, .weight = 3}, board);
    nics.want(one, true);
    nics.want(three, true);
    nics.run(kSecond / 2);
    std::uint64_t const before[] = {one.carried[0] + one.carried[1],
                                    three.carried[0] + three.carried[1]};
    nics.run(kSecond);
    double const first = double(one.carried[0] + one.carried[1] - before[0]);
    double const second = double(three.carried[0] + three.carried[1] - before[1]);
    EXPECT_NEAR(second / first, 3, 0.3);
    EXPECT_GT(first + second, 0.97 * 2 * rate * double(kSecond));
}

/// A device's stream over both NICs, of which it owns the first; then the second one's owner comes, of
/// the same process or of another one.
class Lending {
public:
    Lending(double rate, Discipline discipline, bool other_process)
        : nics({rate, rate}, discipline) {
        auto const words = std::make_shared<NicWords>();
        EXPECT_TRUE(boards[0].share(words, {7, 8}));
        EXPECT_TRUE(boards[1].share(words, {7, 8}));
        borrower = &nics.add({.channel = 1, .nics = 1, .credits = 16}, boards[0]);
        owner = &nics.add({.channel = 2, .nics = 2, .credits = 16}, boards[other_process ? 1 : 0]);
    }
    NicBoard boards[2];
    Nics nics;
    Stream* borrower = nullptr;
    Stream* owner = nullptr;
};

TEST_P(LinkNics, AnIdleNicIsBorrowedAndGivenBackAtOnce) {
    bool const in_order = GetParam() == Discipline::InOrder;
    for (bool const other_process : {false, true}) {
        for (double const rate : rates({0.25, 0.02}, 0.02)) {
            Lending bed(rate, GetParam(), other_process);
            bed.nics.want(*bed.borrower, true);
            bed.nics.run(kSecond / 2);
            auto const alone = carried_in(bed.nics, kSecond / 2, 1, {bed.borrower});
            EXPECT_GT(alone[0], 0.9 * rate * double(kSecond) / 2) << rate;
            EXPECT_LE(bed.boards[0].lent(1, bed.nics.now), 512U << 10);

            bed.nics.want(*bed.owner, true);
            auto const bytes = carried_in(bed.nics, kSecond, 1, {bed.borrower, bed.owner});
            Time const first = bed.owner->first_begun;
            // By turns the owner's bytes go between those that were there first.
            Time const segment = Time(double(256U << 10) / rate);
            Time const limit = (in_order ? 2 : 4) * segment + 5 * Nics::kStep;
            EXPECT_LE(bed.borrower->last_carried[1], first + limit) << rate << other_process;
            EXPECT_GT(bytes[1], rate * double(kSecond - limit) * 0.98) << rate << other_process;
            EXPECT_EQ(bed.boards[0].lent(1, bed.nics.now), 0U)
                << bed.nics.describe(*bed.borrower) << '\n'
                << bed.nics.describe(*bed.owner);

            // And again, once the owner is done.
            bed.nics.want(*bed.owner, false);
            bed.nics.run(kSecond / 4);
            auto const again = carried_in(bed.nics, kSecond / 2, 1, {bed.borrower});
            EXPECT_GT(again[0], 0.9 * rate * double(kSecond) / 2) << rate;
        }
    }
}

TEST_P(LinkNics, NothingStaysLentByALinkThatIsOver) {
    Nics nics({0.1, 0.1}, GetParam());
    {
        Nics gone({0.1, 0.1}, GetParam());
        Stream& borrower = gone.add({.channel = 1, .nics = 1}, board);
        gone.want(borrower, true);
        gone.run(kSecond / 10);
        EXPECT_GT(board.lent_here(1), 0U);
    }
    EXPECT_EQ(board.lent_here(1), 0U);
    // Nor does anybody wait for it.
    Stream& other = nics.add({.channel = 2}, board);
    nics.want(other, true);
    nics.run(kSecond / 2);
    auto const bytes = carried_in(nics, kSecond / 2, 0, {&other});
    EXPECT_GT(bytes[0], 0.97 * 0.1 * double(kSecond) / 2);
}

}  // namespace
}  // namespace mgi::test
