// The packed words of the lane protocol.
#include <gtest/gtest.h>

#include <mgi/device/lane.hpp>

namespace mgi::device {
namespace {

TEST(DeviceTicket, PacksItsParts) {
    Ticket const cases[]{{0, 0, 0},
                         {1, 2, 3},
                         {Ticket::kSequenceMask, Ticket::kMaxRows - 1, Ticket::kMaxUnits},
                         {12345, 0, Ticket::kMaxUnits},
                         {12345, Ticket::kMaxRows - 1, 0}};
    for (Ticket const& ticket : cases) {
        Ticket const back = Ticket::of(ticket.word());
        EXPECT_EQ(back.sequence, ticket.sequence);
        EXPECT_EQ(back.rows, ticket.rows);
        EXPECT_EQ(back.units, ticket.units);
    }
}

TEST(DeviceTicket, SequenceWrapsWithoutTouchingTheRest) {
    Ticket const past{Ticket::kSequenceMask + 1, 7, 9};
    Ticket const back = Ticket::of(past.word());
    EXPECT_EQ(back.sequence, 0U);
    EXPECT_EQ(back.rows, 7U);
    EXPECT_EQ(back.units, 9U);
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
