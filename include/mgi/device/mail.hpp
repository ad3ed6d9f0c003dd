/// \file
/// How an endpoint and the movers speak where they share no memory but some of the host's that the endpoint's
/// device reaches as well (DESIGN section 5, "Movers"): each word has one writer, so that plain loads and
/// stores do, as PCIe has no others. The words are few and polled seldom, since each look is a trip.
#pragma once

#include <mgi/device/assert.hpp>
#include <mgi/device/inbox.hpp>

namespace mgi::device {

/// Of a lane whose segments the mover brings elsewhere.
template <class A>
struct alignas(64) LaneMail {
    // Written by the lane's groups.
    /// Slots below this sequence were filled, and `contents` says with what.
    typename A::template System<u64> published{0};
    typename A::template System<u64> closed{0};  ///< as Lane::closed
    /// By slot: Slot::content.
    typename A::template System<u64>* contents = nullptr;

    // Written by the mover.
    /// Slots below this sequence are where they are to go; the mover is done with them.
    alignas(64) typename A::template System<u64> moved{0};
};

/// What comes to a destination from other memories: movers bring segments into its receive rings and write
/// them down here, in their order; the destination's groups take that over. It can never be full: it has an entry
/// for each segment of the rings and for each source's end.
template <class A>
struct Arrivals {
    /// An entry is one word, so that a look is one trip: round of the book + 1 | source | slot | rows. Of a source's end
    /// the slot is kEnd. A segment without rows is for another destination.
    static constexpr u32 kRowBits = Arrival::kRowBits;
    static constexpr u32 kSlotBits = 11;
    static constexpr u32 kSourceBits = 20;
    static constexpr u32 kRoundShift = kRowBits + kSlotBits + kSourceBits;
    static constexpr u32 kEnd = (1u << kSlotBits) - 1;
    /// Entries that are looked at together.
    static constexpr u32 kAtOnce = 4;

    /// Next position to write; the movers' alone.
    typename A::template System<u64> tail{0};
    typename A::template System<u64>* entries = nullptr;
    /// By source, behind its end: as Destination::counts.
    typename A::template System<u64>* counts = nullptr;
    u32 mask = 0;

    [[nodiscard]] MGI_HD u64 word_of(u64 position, u32 source, u32 slot, u32 rows) const {
        MGI_ASSERT(source >> kSourceBits == 0 && slot <= kEnd && rows >> kRowBits == 0, source,
                   slot, rows);
        u64 const round = position / (u64(mask) + 1) + 1;
        return round << kRoundShift | u64(source) << (kRowBits + kSlotBits) |
               u64(slot) << kRowBits | rows;
    }
    /// Whether an entry's word is that of a position.
    [[nodiscard]] MGI_HD bool is_of(u64 word, u64 position) const {
        // Unlike the word that was there a round before, and what no mover has written.
        return word != 0 && (word ^ word_of(position, 0, 0, 0)) >> kRoundShift == 0;
    }
    [[nodiscard]] MGI_HD static u32 source(u64 word) {
        return u32(word >> (kRowBits + kSlotBits)) & ((1u << kSourceBits) - 1);
    }
    [[nodiscard]] MGI_HD static u32 slot(u64 word) { return u32(word >> kRowBits) & kEnd; }
    [[nodiscard]] MGI_HD static u32 rows(u64 word) { return Arrival::rows(word); }

    /// By a mover: a segment has come.
    MGI_HD void push(u32 source, u32 slot, u32 rows) {
        MGI_ASSERT(slot != kEnd, source, slot, rows);
        write(source, slot, rows);
    }
    /// By a mover: all of a source's have, `count` - 1 of them.
    MGI_HD void push_end(u32 source, u64 count) {
        counts[source].store(count, relaxed);
        write(source, kEnd, 0);
    }

private:
    MGI_HD void write(u32 source, u32 slot, u32 rows) {
        // acq_rel: as of ReceiveQueue::push, the entry's last reader has done with it before some segment came back that
        // was pushed between then and now. And a group that finds a later entry follows this mover by it, with the rows that it brought.
        u64 const position = tail.fetch_add(1, acq_rel);
        // release: the segment's rows come before its first reader.
        entries[position & mask].store(word_of(position, source, slot, rows),
                                       cuda::std::memory_order_release);
    }
};

}  // namespace mgi::device
