/// \file
/// The lane protocol: many groups fill the segments of one source for one destination, each takes a run of rows,
/// and the segments come out full and in sequence (DESIGN section 5; the paper's section 5.3, "Buffer Format", is
/// where it comes from).
///
///     take     take the next rows of the lane by one addition, whether their slots are free or not
///     claim    ask whether the slot that taken rows fall into may be filled
///     commit   count the rows written; whoever completes the slot publishes it
///     seal     close the open slot early; the rows nobody took are its hole
///     publish  mark the slot filled, then deliver filled slots in sequence
///     free     the last reader lets the slot be filled again, R sequences later
///
/// Every step is non-blocking: a thread that cannot go on returns and is told why. Who has taken rows of a slot
/// that is not free keeps them (GroupState::carried), and anybody may write them once it is.
#pragma once

#include <mgi/device/inbox.hpp>
#include <mgi/device/lane_words.hpp>
#include <mgi/device/mail.hpp>

namespace mgi::device {

/// One segment's words. On a cache line of its own, since several threads commit to it.
template <class A>
struct alignas(64) Slot {
    /// The sequence this slot holds, or may be filled with next: `slot + k * R`, never anything else.
    /// The last reader moves it on by R. (DESIGN's `done` and `freed` in one: a slot is only ever
    /// asked for by its own next sequence, so no watermark over all slots is needed.)
    typename A::template System<u64> sequence{0};
    typename A::template Device<u64> committed{0};
    /// sequence + 1 once the slot is filled.
    typename A::template Device<u64> filled{0};
    /// A Content, of the filled slot.
    typename A::template System<u64> content{0};
    /// Reads that are still owed before the slot is free: by each reader of the lane one for each
    /// chunk, or one if it has an inbox, by the mover one for each of its moves.
    typename A::template System<u32> readers{0};
    /// Where the segment lies in the channel's pool, in bytes. Changed only by who may free the slot.
    u64 offset = 0;
};

/// A run of rows in a slot that is free: the claimer writes and commits them before it waits for anything.
struct Claim {
    u64 sequence = 0;
    u32 slot = 0;
    u32 row = 0;   ///< first row in the segment
    u32 rows = 0;  ///< 0: there was no room
    u32 unit = 0;  ///< first unit in the bytes region
    u32 units = 0;
    u64 offset = 0;  ///< of the segment in the pool
};

/// What of a lane never changes and a claim goes by, for who keeps it at hand.
template <class A>
struct LaneForm {
    Slot<A>* slots = nullptr;
    u32 mask = 0;      ///< R - 1
    u32 capacity = 0;  ///< rows of a segment
    u32 units = 0;     ///< of a segment's bytes region; 0 without long strings
};

/// A ring of R slots (a power of two) and the words that hand them round. Thread-safe.
template <class A = LibcuAtomics>
struct alignas(64) Lane {
    /// Rows that were taken so far, with the holes of slots that were closed early; of a lane with long strings a
    /// Ticket.
    typename A::template Device<u64> cursor{0};
    /// Held by the thread that delivers filled slots; nobody waits for it.
    alignas(64) typename A::template Device<u32> delivering{0};
    /// Slots below this sequence were filled and handed on, in sequence. Unused where `came` is not null: slots say so
    /// themselves.
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

    static constexpr u64 kNotTaken = ~u64(0);  ///< no row's position

    Slot<A>* slots = nullptr;
    u32 mask = 0;      ///< R - 1
    u32 capacity = 0;  ///< rows of a segment
    u32 units = 0;     ///< see LaneForm
    /// Destinations that read each segment in place, from its publishing on (of a Balance channel, whose
    /// destinations share a queue, the first one).
    u32 const* readers = nullptr;
    u32 reader_count = 0;
    /// How often the mover brings each segment somewhere: to every other destination, or to one of them.
    u32 moves = 0;
    /// Of a lane that one destination reads in place, and nobody else: `came` of its inbox, as the source's device
    /// reaches it; else null.
    typename A::template System<u64>* came = nullptr;
    /// How the mover hears of segments where it cannot look at the lane itself; else null.
    LaneMail<A>* mail = nullptr;
    /// Held by the thread that takes over what `mail` says; nobody waits for it.
    typename A::template Device<u32> collecting{0};

    [[nodiscard]] MGI_HD LaneForm<A> form() const { return {slots, mask, capacity, units}; }

    /// Takes the next rows of a lane without long strings; the first one's position. The caller writes all of
    /// them, each once `claim` gives it.
    MGI_HD u64 take(u32 rows) {
        // An addition, since of many threads that compare and swap one gets on, and all take turns; and without
        // a look at the slots before it, since who opens them for others has all others wait.
        // relaxed: the slots themselves say what their last readers have done.
        return cursor.fetch_add(rows, relaxed);
    }

    /// Whether the row that is taken next falls into a slot that is free. For who need not wait in line: where threads
    /// share cores, the one whose turn it is may not be running.
    [[nodiscard]] MGI_HD bool has_room(LaneForm<A> const& form) const {
        u64 const at = cursor.load(relaxed);
        u64 const sequence = at / form.capacity;
        return form.slots[u32(sequence) & form.mask].sequence.load(relaxed) == sequence;
    }

    /// Of `rows` taken rows from a position on, those that fall into its slot; none while that is not free.
    [[nodiscard]] MGI_HD static Claim claim(u64 at, u32 rows, LaneForm<A> const& form) {
        u64 const sequence = at / form.capacity;
        u32 const row = u32(at - sequence * form.capacity);
        u32 const index = u32(sequence) & form.mask;
        Slot<A> const& slot = form.slots[index];
        // acquire: what its last readers did with the slot comes before what we write into it.
        if (slot.sequence.load(acquire) != sequence) return {};
        return {sequence, index, row, min_of(rows, form.capacity - row), 0, 0, slot.offset};
    }

    /// Takes rows of the open slot, `wanted` or as many as are left, and claims them; none when that slot is not
    /// free. For who cannot keep what is taken.
    MGI_HD Claim claim_now(u32 wanted) {
        u64 at = cursor.load(relaxed);
        for (;;) {
            Claim const open = claim(at, wanted, form());
            if (open.rows == 0) {
                // A slot that its readers have passed since: others have filled it.
                if (!has_moved(at)) {
                    waits.fetch_add(1, relaxed);
                    return {};
                }
            } else if (cursor.compare_exchange_weak(at, at + open.rows, relaxed, relaxed)) {
                return open;
            }
        }
    }

    /// The same of a lane with long strings, as many rows as `fit(rows, units)` says of the room that is
    /// left: a pair (rows, units) with rows > 0, or rows == 0 when not even one row fits in what is
    /// left of a slot that is partly filled; that slot is sealed, and `publish(sequence)` is called if
    /// this completed it.
    template <class Fit, class Publish>
    MGI_HD Claim claim_fitting(Fit&& fit, Publish&& publish) {
        u64 word = cursor.load(relaxed);
        for (;;) {
            Ticket const t = Ticket::of(word);
            u32 const row = t.rows();
            if (row >= capacity) {
                if (open_next(word)) continue;
                waits.fetch_add(1, relaxed);
                return {};
            }
            MGI_ASSERT(t.units() <= units, t.units(), units, t.sequence);
            auto const fitting = fit(capacity - row, units - t.units());
            MGI_ASSERT(fitting.rows <= capacity - row, fitting.rows, capacity, row);
            MGI_ASSERT(fitting.units <= units - t.units(), fitting.units, units, t.units());
            if (fitting.rows == 0) {
                // No segment is empty.
                MGI_ASSERT(row != 0, t.sequence, capacity, units);
                u64 sequence = 0;
                if (!close_slot(word, t)) continue;
                if (commit_hole(t, sequence)) publish(sequence);
                word = cursor.load(relaxed);
                continue;
            }
            u64 const next = Ticket::with_units(row + fitting.rows, t.units() + fitting.units);
            // relaxed: as of `take`.
            if (cursor.compare_exchange_weak(word, Ticket{t.sequence, next}.word(), relaxed,
                                             relaxed)) {
                // What was claimed stays in its slot until that is committed.
                u64 sequence = 0;
                Slot<A> const& slot = opened(t, sequence);
                return {sequence,  u32(sequence) & mask, row,        fitting.rows,
                        t.units(), fitting.units,        slot.offset};
            }
        }
    }

    /// Takes a whole segment, which the caller fills alone (`note_alone`): the open one if no rows are in it, else the one
    /// behind it. That closes the open one as `seal` does, and `publish(sequence)` is called if this completed it. None
    /// unless the slots of both are free, so that nobody has to keep anything.
    template <class Publish>
    MGI_HD Claim take_segment(Publish&& publish) {
        u64 word = cursor.load(relaxed);
        for (;;) {
            if (units != 0) {
                if (Claim taken; take_segment_of_text(word, taken, publish)) return taken;
                continue;
            }
            u32 const row = u32(word % capacity);
            u64 const start = row == 0 ? word : word - row + capacity;
            // With their acquires: as of `claim` and of `seal`.
            Claim const whole = claim(start, capacity, form());
            Claim const hole = row == 0 ? whole : claim(word, capacity, form());
            if (whole.rows == 0 || hole.rows == 0) {
                if (!has_moved(word)) return {};
                continue;
            }
            // relaxed: as of `take`.
            if (!cursor.compare_exchange_weak(word, start + capacity, relaxed, relaxed)) continue;
            if (row != 0 && commit(hole.slot, 0, hole.rows, 0)) publish(hole.sequence);
            return whole;
        }
    }

    /// What stands in a segment that one group has taken whole, for the destination with this address. That group publishes
    /// it; `committed` is nobody's.
    MGI_HD void note_alone(Claim const& segment, u32 rows, u32 used_units, u32 address) {
        MGI_ASSERT(rows != 0 && rows <= capacity && used_units <= units, rows, capacity, used_units,
                   units);
        MGI_ASSERT(address <= Content::kMaxAddress, address);
        slots[segment.slot].content.store(Content::word(rows, used_units, address), relaxed);
    }

    /// Counts written rows. True when the slot is complete: the caller, and nobody else, publishes it.
    /// Calls of several threads of a group come behind a group barrier.
    [[nodiscard]] MGI_HD bool commit(u32 slot, u32 rows, u32 hole, u32 claimed_units) {
        return commit(slot, rows, hole, claimed_units, form());
    }

    /// The same, of a lane whose form is at hand.
    [[nodiscard]] MGI_HD static bool commit(u32 slot, u32 rows, u32 hole, u32 claimed_units,
                                            LaneForm<A> const& form) {
        MGI_ASSERT(slot <= form.mask && rows + hole != 0, slot, form.mask, rows, hole);
        Slot<A>& s = form.slots[slot];
        u32 const all = form.capacity;
        // release: our rows.
        u64 const word = Committed::word(rows, hole, claimed_units);
        u64 const sum = s.committed.fetch_add(word, cuda::std::memory_order_release) + word;
        MGI_ASSERT(Committed::total(sum) <= all, Committed::total(sum), all, slot, rows, hole);
        if (Committed::total(sum) != all) return false;
        // acquire, by who completes the slot: everybody's rows. Nobody adds to it any more.
        u64 const total = s.committed.load(acquire);
        MGI_ASSERT(total == sum, total, sum, slot);
        MGI_ASSERT(Committed::hole(total) < all && Committed::units(total) <= form.units,
                   Committed::hole(total), all, Committed::units(total), form.units, slot);
        s.content.store(Content::word(all - Committed::hole(total), Committed::units(total)),
                        relaxed);
        s.committed.store(0, relaxed);
        return true;
    }

    /// Whether the slot before the open one is free again: then, as good as always, all are.
    [[nodiscard]] MGI_HD bool at_rest() const {
        u64 const word = cursor.load(relaxed);
        // Modulo kSequenceMask + 1 of a lane with long strings.
        u64 const before = (units == 0 ? word / capacity : Ticket::of(word).sequence) - 1;
        u64 const sequence = slots[u32(before) & mask].sequence.load(relaxed);
        return ((sequence - (before + mask + 1)) & Ticket::kSequenceMask) == 0;
    }

    /// Closes the open slot if there are rows in it, which those who took them can write. True when that
    /// completed it (see `commit`).
    [[nodiscard]] MGI_HD bool seal(u64& sequence_out) {
        u64 word = cursor.load(relaxed);
        for (;;) {
            if (units != 0) {
                Ticket const t = Ticket::of(word);
                if (t.rows() == 0 || t.rows() >= capacity) return false;
                if (close_slot(word, t)) return commit_hole(t, sequence_out);
                continue;
            }
            u32 const rows = u32(word % capacity);
            if (rows == 0) return false;
            // With its acquire: the lap before has reset `committed` before we add our hole to it.
            Claim const hole = claim(word, capacity, form());
            if (hole.rows == 0) return false;
            if (!cursor.compare_exchange_weak(word, word + hole.rows, relaxed, relaxed)) continue;
            sequence_out = hole.sequence;
            return commit(hole.slot, 0, hole.rows, 0);
        }
    }

    /// Of a lane with an inbox: says there that a complete slot has come.
    MGI_HD void say_arrival(u64 sequence) {
        Slot<A>& s = slots[u32(sequence) & mask];
        u64 const content = s.content.load(relaxed);
        // release: everybody's rows, which `commit` has acquired. First, since additions before it would be waited for.
        came[u32(sequence) & mask].store(Arrival::word(sequence, Content::rows(content)),
                                         cuda::std::memory_order_release);
        rows_published.fetch_add(Content::rows(content), relaxed);
        units_published.fetch_add(Content::units(content), relaxed);
        // Upwards alone: the slot may come free, be filled again and be marked before we get here.
        // release: whose flush sees it finds the segment in the inbox (`has_come`); and those of laps before it, whose
        // readers had found them there before the slot was filled again.
        (void)s.filled.fetch_max(sequence + 1, cuda::std::memory_order_release);
    }

    /// Of a lane with an inbox: whether every sequence below one that a slot holds has come there.
    [[nodiscard]] MGI_HD bool has_come(u32 slot, u64 below) const {
        // acquire: who hears that it has finds it in the inbox.
        return next_of(slot, slots[slot].filled.load(acquire)) >= below;
    }

    /// Of a lane with an inbox: sequences below this one have come there. For statistics.
    [[nodiscard]] MGI_HD u64 come_below() const {
        u64 first = ~u64(0);
        for (u32 i = 0; i <= mask; ++i) {
            first = min_of(first, next_of(i, slots[i].filled.load(relaxed)));
        }
        return first;
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

    /// Hands on, in sequence, every slot that is next and filled: `deliver(sequence, slot, content)`.
    /// For the one thread that `deliver_alone` lets in.
    template <class Deliver>
    MGI_HD void deliver_ready(Deliver&& deliver) {
        u64 next = published.load(relaxed);
        while (slots[u32(next) & mask].filled.load(acquire) == next + 1) {
            Slot<A>& s = slots[u32(next) & mask];
            u64 const content = s.content.load(relaxed);
            u32 const rows = Content::rows(content);
            u32 const used = Content::units(content);
            MGI_ASSERT(rows != 0 && rows <= capacity && used <= units, next, rows, capacity, used,
                       units);
            rows_published.store(rows_published.load(relaxed) + rows, relaxed);
            units_published.store(units_published.load(relaxed) + used, relaxed);
            deliver(next, s, content);
            ++next;
            published.store(next, cuda::std::memory_order_release);
        }
    }

    /// Sequences that were started, in full: exact once every group of the source has flushed.
    [[nodiscard]] MGI_HD u64 sequences() const {
        u64 const word = cursor.load(relaxed);
        if (units == 0) return (word + capacity - 1) / capacity;
        u64 const done = came != nullptr ? come_below() : published.load(relaxed);
        Ticket const t = Ticket::of(word);
        u64 const low = t.rows() == 0 ? t.sequence : t.sequence + 1;
        return done + ((low - done) & Ticket::kSequenceMask);
    }

private:
    /// Whether the cursor is no longer what it was; what it is now.
    MGI_HD bool has_moved(u64& word) const {
        u64 const before = word;
        word = cursor.load(relaxed);
        return word != before;
    }

    /// The sequence that comes next in a slot of which `filled` says what came last.
    [[nodiscard]] MGI_HD u64 next_of(u32 slot, u64 filled) const {
        return filled == 0 ? slot : filled + mask;
    }

    // Of lanes with long strings:

    /// The slot that a ticket names, and the sequence it holds.
    [[nodiscard]] MGI_HD Slot<A>& opened(Ticket t, u64& sequence) const {
        Slot<A>& slot = slots[u32(t.sequence) & mask];
        // acquire: as of `claim`. Who opened it has seen that sequence there, so we shall.
        for (u32 round = 0;; A::backoff(round++)) {
            sequence = slot.sequence.load(acquire);
            if ((sequence & Ticket::kSequenceMask) == t.sequence) return slot;
        }
    }

    /// Makes the slot behind a closed one the open one. `word` is the closed ticket, and then what the
    /// ticket is. False when there is no room: the slot is not free.
    MGI_HD bool open_next(u64& word) {
        u64 const next = (Ticket::of(word).sequence + 1) & Ticket::kSequenceMask;
        // relaxed: who claims in it asks the slot again.
        u64 const sequence = slots[u32(next) & mask].sequence.load(relaxed);
        MGI_ASSERT(((sequence ^ next) & mask) == 0, sequence, next, mask);
        if (((sequence ^ next) & Ticket::kSequenceMask) != 0) {
            return has_moved(word);
        }
        u64 const opened = Ticket{next, 0}.word();
        // relaxed: the slot itself says that it is free.
        if (cursor.compare_exchange_strong(word, opened, relaxed, relaxed)) word = opened;
        return true;
    }

    /// One try of `take_segment`: true when it has come to an end, with what was taken.
    template <class Publish>
    MGI_HD bool take_segment_of_text(u64& word, Claim& taken, Publish&& publish) {
        Ticket const t = Ticket::of(word);
        u64 const next = t.rows() == 0 ? t.sequence : (t.sequence + 1) & Ticket::kSequenceMask;
        Slot<A> const& slot = slots[u32(next) & mask];
        // acquire: as of `claim`.
        u64 const sequence = slot.sequence.load(acquire);
        if (((sequence ^ next) & Ticket::kSequenceMask) != 0) return !has_moved(word);
        u64 const all = Ticket::with_units(capacity, 0);
        // relaxed: as of `take`.
        if (!cursor.compare_exchange_weak(word, Ticket{next, all}.word(), relaxed, relaxed)) {
            return false;
        }
        u64 before = 0;
        bool const open = t.rows() != 0 && t.rows() < capacity;
        if (open && commit_hole(t, before)) publish(before);
        taken = {sequence, u32(sequence) & mask, 0, capacity, 0, units, slot.offset};
        return true;
    }

    /// Closes the open slot for all rows to come. On failure `word` is what the ticket was.
    MGI_HD bool close_slot(u64& word, Ticket t) {
        u64 const all = Ticket::with_units(capacity, 0);
        return cursor.compare_exchange_strong(word, Ticket{t.sequence, all}.word(), relaxed,
                                              relaxed);
    }

    /// Commits, of the slot that was closed at `t`, what nobody claimed as its hole. True when that
    /// completed it.
    MGI_HD bool commit_hole(Ticket t, u64& sequence_out) {
        // With its acquire: as of `seal`.
        (void)opened(t, sequence_out);
        return commit(u32(t.sequence) & mask, 0, capacity - t.rows(), 0);
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
    u32 const owed = slot.readers.fetch_sub(reads, acq_rel);
    MGI_ASSERT(owed >= reads, owed, reads, slots_in_ring);
    if (owed != reads) return false;
    clean(slot);
    slot.sequence.store(slot.sequence.load(relaxed) + slots_in_ring,
                        cuda::std::memory_order_release);
    return true;
}

}  // namespace mgi::device
