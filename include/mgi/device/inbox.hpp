/// \file
/// Where the groups of a destination find the segments that one source has for it, in memory that both reach: the
/// source says by one store that a segment has come, and each group draws a number that names a chunk. So no two
/// groups look at one chunk, and none changes a word that lies with the source but to free a slot.
#pragma once

#include <mgi/device/atomics.hpp>

namespace mgi::device {

/// What a source says of a segment that has come: its sequence + 1, and its rows.
struct Arrival {
    static constexpr u32 kRowBits = 21;

    MGI_HD static constexpr u64 word(u64 sequence, u32 rows) {
        return (sequence + 1) << kRowBits | rows;
    }
    MGI_HD static constexpr bool is_of(u64 word, u64 sequence) {
        return word >> kRowBits == sequence + 1;
    }
    MGI_HD static constexpr u32 rows(u64 word) { return u32(word) & ((1u << kRowBits) - 1); }
};

/// Of a (source, destination). Number n is chunk n % chunks of the segment with sequence n / chunks; the last
/// chunks of a segment that is not full are empty.
template <class A>
struct alignas(64) Inbox {
    /// Numbers that were drawn << kOpenBits | how many of them nobody has taken yet. One word, so that who sees all
    /// numbers drawn knows of those that groups hold, since their segments had not come.
    typename A::template System<u64> draws{0};
    /// By slot: an Arrival. Written by the source, or by the group that takes in what movers have brought.
    typename A::template System<u64>* came = nullptr;
    /// By slot: chunks that have not been given back.
    typename A::template Device<u32>* owed = nullptr;
    /// By slot: where its segment lies, as of Slot; the slots themselves lie with the source.
    u64* offsets = nullptr;
    u32 mask = 0;    ///< slots - 1
    u32 chunks = 0;  ///< of a full segment

    static constexpr u32 kOpenBits = 20;
    static constexpr u64 kOpenMask = (u64(1) << kOpenBits) - 1;

    /// Says that a segment has come. For groups that reach the inbox where it lies; others know `came` alone (`Lane::came`).
    MGI_HD void come(u64 sequence, u32 rows) {
        // release: the rows, and the words of the slot.
        came[u32(sequence) & mask].store(Arrival::word(sequence, rows),
                                         cuda::std::memory_order_release);
    }
    /// The number that is drawn next.
    [[nodiscard]] MGI_HD u64 next() const { return draws.load(relaxed) >> kOpenBits; }
    /// Draws a number; the caller takes it once its segment has come, or holds it.
    MGI_HD u64 draw() { return draws.fetch_add((u64(1) << kOpenBits) + 1, relaxed) >> kOpenBits; }
    /// A number that was drawn is taken.
    MGI_HD void take() { draws.fetch_sub(1, relaxed); }
    /// A number that nothing comes for is let go of, which nobody holds any more.
    MGI_HD void let_go() {
        // release: who does not count it as open does not find it held (`are_taken`).
        draws.fetch_sub(1, cuda::std::memory_order_release);
    }
    /// Whether there are numbers that are drawn and not taken.
    [[nodiscard]] MGI_HD bool has_open() const { return (draws.load(relaxed) & kOpenMask) != 0; }

    /// Whether the segment of a number has come; for polls.
    [[nodiscard]] MGI_HD bool has_come(u64 number) const {
        u64 const sequence = number / chunks;
        return Arrival::is_of(came[u32(sequence) & mask].load(relaxed), sequence);
    }
    /// Rows of the segment of a number that has come; from here on they can be read.
    [[nodiscard]] MGI_HD u32 open(u64 number) const {
        u64 const sequence = number / chunks;
        // acquire: the source's rows.
        u64 const word = came[u32(sequence) & mask].load(acquire);
        MGI_ASSERT(Arrival::is_of(word, sequence), word, sequence, chunks);
        return Arrival::rows(word);
    }
    /// Segments with a sequence below this one have come. For statistics, and who looks at a whole channel.
    [[nodiscard]] MGI_HD u64 come_below() const {
        u64 first = ~u64(0);
        for (u32 i = 0; i <= mask; ++i) {
            u64 const word = came[i].load(relaxed);
            first = min_of(first, word == 0 ? i : (word >> Arrival::kRowBits) + mask);
        }
        return first;
    }
    /// Numbers that groups have taken, or let go of; for the same.
    [[nodiscard]] MGI_HD u64 taken_numbers() const {
        u64 const word = draws.load(relaxed);
        return (word >> kOpenBits) - (word & kOpenMask);
    }
    /// Whether groups have taken all of so many numbers, and let go of all behind them.
    [[nodiscard]] MGI_HD bool are_taken(u64 numbers) const {
        u64 const word = draws.load(relaxed);
        return word >> kOpenBits >= numbers && (word & kOpenMask) == 0;
    }
    /// Gives a chunk back: true for the last one of its segment, of which the caller gives back what the destination owes.
    MGI_HD bool give_back(u32 slot) {
        if (chunks == 1) return true;
        // acq_rel: every reader is done before the slot is written again.
        if (owed[slot].fetch_sub(1, acq_rel) != 1) return false;
        owed[slot].store(chunks, relaxed);
        return true;
    }
};

}  // namespace mgi::device
