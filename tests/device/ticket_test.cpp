// The packed words of the lane protocol.
#include <gtest/gtest.h>

#include <algorithm>

#include <mgi/device/lane.hpp>

namespace mgi::device {
namespace {

TEST(DeviceTicket, PacksItsParts) {
    std::uint64_t const most = (std::uint64_t{1} << Ticket::kTakenBits) - 1;
    Ticket const cases[]{{0, 0}, {1, 2}, {Ticket::kSequenceMask, most}, {12345, most}, {12345, 0}};
    for (Ticket const& ticket : cases) {
        Ticket const back = Ticket::of(ticket.word());
        EXPECT_EQ(back.sequence, ticket.sequence);
        EXPECT_EQ(back.taken, ticket.taken);
    }
}

TEST(DeviceTicket, HoldsRowsAndUnitsOfTheLargestSegment) {
    std::uint64_t const taken = Ticket::with_units(Ticket::kMaxRows, Ticket::kMaxUnits);
    Ticket const back = Ticket::of(Ticket{7, taken}.word());
    EXPECT_EQ(back.sequence, 7U);
    EXPECT_EQ(back.rows(), Ticket::kMaxRows);
    EXPECT_EQ(back.units(), Ticket::kMaxUnits);
}

TEST(DeviceTicket, CountsTheTextOfEverySegment) {
    EXPECT_EQ(Ticket::unit_shift_of(0), 4U);
    EXPECT_EQ(Ticket::unit_shift_of(Ticket::kMaxUnits * 16), 4U);
    EXPECT_EQ(Ticket::unit_shift_of(Ticket::kMaxUnits * 16 + 1), 5U);
    for (std::uint64_t size = 1; size <= Ticket::kMaxText; size *= 2) {
        for (std::uint64_t const bytes : {size - 1, size, std::min(size + 1, Ticket::kMaxText)}) {
            std::uint32_t const shift = Ticket::unit_shift_of(bytes);
            std::uint64_t const whole = Ticket::whole_units(bytes);
            EXPECT_GE(whole, bytes);
            EXPECT_LT(whole, bytes + (std::uint64_t{1} << shift));
            EXPECT_LE(whole, Ticket::kMaxText);
            EXPECT_LE(whole >> shift, Ticket::kMaxUnits);
            EXPECT_EQ(Ticket::unit_shift_of(whole), shift) << "who has the bytes finds the unit";
        }
    }
}

TEST(DeviceTicket, SequenceWrapsWithoutTouchingTheRest) {
    Ticket const past{Ticket::kSequenceMask + 1, 7};
    Ticket const back = Ticket::of(past.word());
    EXPECT_EQ(back.sequence, 0U);
    EXPECT_EQ(back.taken, 7U);
}

TEST(DeviceTicket, CommittedAddsUpInAnyOrder) {
    std::uint64_t word = 0;
    word += Committed::word(1000, 0, 40);
    word += Committed::word(0, 24, 0);
    word += Committed::word(Ticket::kMaxRows - 1024, 0, Ticket::kMaxUnits - 40);
    EXPECT_EQ(Committed::total(word), Ticket::kMaxRows);
    EXPECT_EQ(Committed::hole(word), 24U);
    EXPECT_EQ(Committed::units(word), Ticket::kMaxUnits);
}

TEST(DeviceTicket, CommittedHoldsAWholeHole) {
    std::uint64_t const word = Committed::word(0, Ticket::kMaxRows, 0);
    EXPECT_EQ(Committed::total(word), Ticket::kMaxRows);
    EXPECT_EQ(Committed::hole(word), Ticket::kMaxRows);
    EXPECT_EQ(Committed::units(word), 0U);
}

}  // namespace
}  // namespace mgi::device
