/// \file
/// The lane protocol: many groups fill the segments of one source for one destination, each claim a
/// run of rows, and the segments come out full and in sequence (DESIGN section 5; the paper's
/// section 5.3, "Buffer Format", is where it comes from).
///
///     claim    take rows of the open slot by CAS on the ticket
///     commit   count the rows written; whoever completes the slot publishes it
///     seal     close the open slot early; the rows nobody claimed are its hole
///     publish  mark the slot filled, then deliver filled slots in sequence
///     free     the last reader lets the slot be filled again, R sequences later
///
/// Every step is non-blocking: a thread that cannot go on returns and is told why.
#pragma once

#include <mgi/device/atomics.hpp>

namespace mgi::device {

/// A lane's 64-bit ticket: sequence of the open slot | rows claimed in it | bytes claimed in it / 16.
struct Ticket {
    static constexpr u32 kUnitBits = 18;
    static constexpr u32 kRowBits = 20;
    static constexpr u64 kSequenceMask = (u64(1) << (64 - kUnitBits - kRowBits)) - 1;
    static constexpr u32 kMaxRows = 1u << kRowBits;          ///< of a segment
    static constexpr u32 kMaxUnits = (1u << kUnitBits) - 1;  ///< of a segment's bytes region
    static constexpr u32 kUnitBytes = 16;

    u64 sequence;  ///< modulo kSequenceMask + 1
    u32 rows;
    u32 units;

    MGI_HD static constexpr Ticket of(u64 word) {
        return {word >> (kUnitBits + kRowBits), u32(word >> kUnitBits) & (kMaxRows - 1),
                u32(word) & kMaxUnits};
    }
    [[nodiscard]] MGI_HD constexpr u64 word() const {
        return (sequence & kSequenceMask) << (kUnitBits + kRowBits) | u64(rows) << kUnitBits |
               units;
    }
};

/// What has been committed of a slot: rows and hole together | hole | bytes / 16. One addition does
/// all three, so that the completing commit sees the totals.
struct Committed {
    MGI_HD static constexpr u64 word(u32 rows, u32 hole, u32 units) {
        return u64(rows + hole) | u64(hole) << 21 | u64(units) << 42;
    }
    MGI_HD static constexpr u32 total(u64 word) { return u32(word) & 0x1fffff; }
    MGI_HD static constexpr u32 hole(u64 word) { return u32(word >> 21) & 0x1fffff; }
    MGI_HD static constexpr u32 units(u64 word) { return u32(word >> 42); }
};

/// One segment's words. On a cache line of its own, since several threads commit to it.
template <class A>
struct alignas(64) Slot {
    /// The sequence this slot holds, or may be filled with next: `slot + k * R`, never anything else.
    /// The last reader moves it on by R. (DESIGN's `done` and `freed` in one: a slot is only ever
    /// asked for by its own next sequence, so no watermark over all slots is needed.)
    typename A::template System<u64> sequence{0};
    typename A::template Device<u64> committed{0};
    /// sequence + 1 once the slot is filled.
    typename A::template System<u64> filled{0};
    /// Rows | bytes / 16 << 32 of the filled slot.
    typename A::template System<u64> content{0};
    /// Reads that are still owed before the slot is free: by each reader of the lane one for each
    /// chunk, by the mover one for each of its moves.
    typename A::template System<u32> readers{0};
    /// Where the segment lies in the channel's pool, in bytes. Changed only by who may free the slot.
    u64 offset = 0;
};

/// A run of rows in a slot that the claimer must write and commit before it waits for anything.
struct Claim {
    u64 sequence = 0;
    u32 slot = 0;
    u32 row = 0;   ///< first row in the segment
    u32 rows = 0;  ///< 0: there was no room
    u32 unit = 0;  ///< first 16 bytes in the bytes region
    u32 units = 0;
    u64 offset = 0;  ///< of the segment in the pool
};

/// A ring of R slots (a power of two) and the words that hand them round. Thread-safe.
template <class A = LibcuAtomics>
struct alignas(64) Lane {
    typename A::template Device<u64> ticket{0};
    /// Held by the thread that delivers filled slots; nobody waits for it.
    alignas(64) typename A::template Device<u32> delivering{0};
    /// Slots below this sequence were filled and handed on, in sequence.
    typename A::template System<u64> published{0};
    /// Slots below this sequence stand in their destinations' receive queues, as the mover says. Of a
    /// lane without moves that is what publishing does.
    typename A::template System<u64> delivered{0};
    /// Number of sequences there will ever be, plus 1; 0 while groups still send.
    typename A::template System<u64> closed{0};
    /// Statistics, written by whoever delivers.
    typename A::template System<u64> rows_published{0};
    typename A::template System<u64> units_published{0};
    /// Claims that found no room.
    typename A::template System<u64> waits{0};

    Slot<A>* slots = nullptr;
    u32 mask = 0;      ///< R - 1
    u32 capacity = 0;  ///< rows of a segment
    u32 units = 0;     ///< size of a segment's bytes region / 16
    /// Destinations that read each segment in place, from its publishing on (of a Balance channel, whose
    /// destinations share a queue, the first one).
    u32 const* readers = nullptr;
    u32 reader_count = 0;
    /// How often the mover brings each segment somewhere: to every other destination, or to one of them.
    u32 moves = 0;

    /// Rows of the open slot for the caller, as many as `fit(rows, units)` says of the room that is
    /// left: a pair (rows, units) with rows > 0, or rows == 0 when not even one row fits in what is
    /// left of a slot that is partly filled; that slot is sealed, and `publish(sequence)` is called if
    /// this completed it. No room in the lane gives a claim of 0 rows.
    template <class Fit, class Publish>
    MGI_HD Claim claim(Fit&& fit, Publish&& publish) {
        u64 word = ticket.load(relaxed);
        for (;;) {
            Ticket const t = Ticket::of(word);
            u32 const index = u32(t.sequence) & mask;
            // acquire: what the last reader did with the slot comes before what we write into it.
            u64 const sequence = slots[index].sequence.load(acquire);
            if ((sequence & Ticket::kSequenceMask) != t.sequence) {
                u64 const again = ticket.load(relaxed);
                if (again != word) {
                    word = again;
                    continue;
                }
                waits.fetch_add(1, relaxed);
                return {};
            }
            auto const taken = fit(capacity - t.rows, units - t.units);
            if (taken.rows == 0) {
                if (close_slot(word, t)) {
                    if (commit(index, 0, capacity - t.rows, 0)) publish(sequence);
                    word = ticket.load(relaxed);
                }
                continue;
            }
            bool const full = t.rows + taken.rows == capacity;
            Ticket const next =
                full ? Ticket{t.sequence + 1, 0, 0}
                     : Ticket{t.sequence, t.rows + taken.rows, t.units + taken.units};
            if (ticket.compare_exchange_weak(word, next.word(), relaxed, relaxed)) {
                return {sequence,           index, t.rows, taken.rows, t.units, taken.units,
                        slots[index].offset};
            }
        }
    }

    /// Counts written rows. True when the slot is complete: the caller, and nobody else, publishes it.
    /// Calls of several threads of a group come behind a group barrier.
    [[nodiscard]] MGI_HD bool commit(u32 slot, u32 rows, u32 hole, u32 claimed_units) {
        Slot<A>& s = slots[slot];
        // release: our rows; acquire: everybody's rows, for who completes the slot.
        u64 const word = Committed::word(rows, hole, claimed_units);
        u64 const total = s.committed.fetch_add(word, acq_rel) + word;
        if (Committed::total(total) != capacity) return false;
        s.content.store(u64(capacity - Committed::hole(total)) | u64(Committed::units(total)) << 32,
                        relaxed);
        s.committed.store(0, relaxed);
        return true;
    }

    /// Closes the open slot if there are rows in it. True when that completed it (see `commit`).
    [[nodiscard]] MGI_HD bool seal(u64& sequence_out) {
        u64 word = ticket.load(relaxed);
        for (;;) {
            Ticket const t = Ticket::of(word);
            if (t.rows == 0) return false;
            u32 const index = u32(t.sequence) & mask;
            // acquire: the lap before has reset `committed` before we add our hole to it.
            u64 const sequence = slots[index].sequence.load(acquire);
            if ((sequence & Ticket::kSequenceMask) != t.sequence) {
                word = ticket.load(relaxed);
                continue;
            }
            if (close_slot(word, t)) {
                sequence_out = sequence;
                return commit(index, 0, capacity - t.rows, 0);
            }
        }
    }

    /// Marks a complete slot as filled; the caller then sees to its delivery.
    MGI_HD void mark_filled(u64 sequence) {
        slots[u32(sequence) & mask].filled.store(sequence + 1, seq_cst);
    }

    /// Whether the slot that is next to be delivered is filled.
    [[nodiscard]] MGI_HD bool ready() const {
        u64 const next = published.load(relaxed);
        return slots[u32(next) & mask].filled.load(seq_cst) == next + 1;
    }

    /// Hands on, in sequence, every slot that is next and filled: `deliver(sequence, slot, rows)`.
    /// For the one thread that `deliver_alone` lets in.
    template <class Deliver>
    MGI_HD void deliver_ready(Deliver&& deliver) {
        u64 next = published.load(relaxed);
        while (slots[u32(next) & mask].filled.load(acquire) == next + 1) {
            Slot<A>& s = slots[u32(next) & mask];
            u64 const content = s.content.load(relaxed);
            rows_published.store(rows_published.load(relaxed) + u32(content), relaxed);
            units_published.store(units_published.load(relaxed) + (content >> 32), relaxed);
            deliver(next, s, u32(content));
            ++next;
            published.store(next, cuda::std::memory_order_release);
        }
    }

    /// Sequences that were started, in full: exact once every group of the source has flushed.
    [[nodiscard]] MGI_HD u64 sequences() const {
        u64 const done = published.load(relaxed);
        u64 const low = Ticket::of(ticket.load(relaxed)).sequence;
        return done + ((low - done) & Ticket::kSequenceMask);
    }

private:
    /// Moves the ticket past the open slot; on failure `word` is what the ticket was.
    MGI_HD bool close_slot(u64& word, Ticket t) {
        u64 const next = Ticket{t.sequence + 1, 0, 0}.word();
        return ticket.compare_exchange_strong(word, next, relaxed, relaxed);
    }
};

/// Runs `deliver` in one thread at a time. A thread that finds another one at it leaves its slot to
/// that one, which looks again (`ready`) after it has stopped; hence the sequentially consistent
/// order: of the two, one must see the other. Nobody waits.
template <class Word, class Ready, class Deliver>
MGI_HD void deliver_alone(Word& delivering, Ready&& ready, Deliver&& deliver) {
    do {
        if (delivering.exchange(1, seq_cst) != 0) return;
        deliver();
        delivering.store(0, seq_cst);
    } while (ready());
}

/// Gives back `reads` reads of a slot; the last one frees it for the sequence one lap on. `clean`
/// runs before that, by the one thread that then owns the segment. True when it freed the slot.
template <class A, class Clean>
MGI_HD bool release_reads(Slot<A>& slot, u32 reads, u32 slots_in_ring, Clean&& clean) {
    // acq_rel: every reader is done before the slot is written again.
    if (slot.readers.fetch_sub(reads, acq_rel) != reads) return false;
    clean(slot);
    slot.sequence.store(slot.sequence.load(relaxed) + slots_in_ring,
                        cuda::std::memory_order_release);
    return true;
}

}  // namespace mgi::device
