/// \file
/// Receiving: a batch is a view of a segment in place, columns contiguous (DESIGN section 4).
#pragma once

#include <mgi/device/delivery.hpp>
#include <mgi/device/together.hpp>

namespace mgi::device {

/// Rows that have arrived, where they lie. Valid until it is released; every batch must be, once, by
/// the group that received it. Columns are in the order of the channel's schema.
struct ReceivedBatch {
    char const* segment = nullptr;
    SegmentLayout const* layout = nullptr;
    u32 row = 0;  ///< first row in the segment, a multiple of 64
    u32 rows = 0;
    u32 source = 0;  ///< index of the source in the channel
    u32 slot = 0;
    u64 sequence = 0;    ///< of the segment, in its (source, destination)
    bool whole = false;  ///< the segment's only chunk

    /// Values of a fixed-width column, `rows` of them (Layout::Columns).
    template <class T>
    [[nodiscard]] MGI_HD T const* column(u32 c) const {
        ColumnLayout const& column = layout->columns[c];
        return reinterpret_cast<T const*>(segment + column.offset + u64(row) * column.stride);
    }
    /// Row structs, `rows` of them (Layout::Rows).
    template <class T>
    [[nodiscard]] MGI_HD T const* structs() const {
        ColumnLayout const& column = layout->columns[0];
        return reinterpret_cast<T const*>(segment + column.offset - column.row_offset +
                                          u64(row) * column.stride);
    }
    /// Address of a fixed-width value in either layout.
    [[nodiscard]] MGI_HD char const* value(u32 c, u32 i) const {
        ColumnLayout const& column = layout->columns[c];
        return segment + column.offset + u64(row + i) * column.stride;
    }
    [[nodiscard]] MGI_HD bool valid(u32 c, u32 i) const {
        ColumnLayout const& column = layout->columns[c];
        return !column.nullable() ||
               bit_at(reinterpret_cast<u8 const*>(segment + column.validity), row + i);
    }
    [[nodiscard]] MGI_HD bool bit(u32 c, u32 i) const {
        return bit_at(reinterpret_cast<u8 const*>(segment + layout->columns[c].offset), row + i);
    }
    /// Characters of a String or Binary value.
    [[nodiscard]] MGI_HD Text text(u32 c, u32 i) const {
        auto const& view = *reinterpret_cast<StringView16 const*>(value(c, i));
        if (view.length <= StringView16::kInline) return {view.text, view.length};
        return {segment + layout->bytes_offset + view.ref.offset, view.length};
    }
};

/// For a host that looks at a whole channel, whose groups may never be called again: whether groups have taken all of so
/// many numbers of a source.
template <class A>
[[nodiscard]] MGI_HD bool are_taken(Inbox<A> const& inbox, Destination<A> const& at, u32 groups,
                                    u32 source, u64 numbers) {
    // acquire: of numbers that were let go of, and so are not open, we find none held.
    u64 const draws = inbox.draws.load(acquire);
    if (draws >> Inbox<A>::kOpenBits < numbers) return false;
    u64 const open = draws & Inbox<A>::kOpenMask;
    // Numbers of segments that will never come: all that are open must be such.
    u64 idle = 0;
    for (u32 g = 0; open != 0 && g < groups; ++g) {
        // acquire: we follow the draw of every number that we count, so the second look is at a word that has it.
        u64 const held = at.inbox_receivers[g].holds[source].load(acquire);
        if (Receiver<A>::is_above(held, numbers)) ++idle;
    }
    return idle == open && inbox.draws.load(relaxed) == draws;
}

/// One group's receiving calls on one destination of a channel.
template <class A>
class ReceiveCall {
public:
    MGI_HD ReceiveCall(Group const& group, Shared const& shared, ChannelState<A>& state,
                       u32 destination)
        : group_(group),
          state_(state),
          here_(state.destinations[destination]),
          words_(*here_.words),
          shared_(reinterpret_cast<Exchange*>(shared.data)) {}

    /// Ok: `batch` holds rows. Pending: nothing yet. End: nothing will come. Error: see `code`.
    MGI_HD Status receive(ReceivedBatch& batch, ErrorCode& code) {
        if (group_.threads == 1) return receive_alone(batch, code, look());
        group_.sync();
        Found const found = in_leaders_warp(group_) ? look() : Found{};
        if (group_.leads()) shared_->status = receive_alone(shared_->batch, shared_->code, found);
        group_.sync();
        batch = shared_->batch;
        code = shared_->code;
        Status const status = shared_->status;
        return status;
    }

    /// Returns a batch's room. All of the group's threads are done with it when this starts.
    MGI_HD void release(ReceivedBatch const& batch) {
        group_.sync();
        if (group_.leads()) release_alone(batch);
    }

private:
    /// What the leader tells the group.
    struct Exchange {
        ReceivedBatch batch;
        Status status;
        ErrorCode code;
    };

    /// A source of which a chunk seems to have come, and the group that it has come for; source_count: none.
    struct Found {
        u32 source;
        u32 group;
        u32 looks = 0;  ///< of this group's, before this one
    };

    /// Looks for one: for this group, beginning with the source whose turn it is; now and then for groups that hold
    /// numbers and may never be called again, and more often while nothing is found. By the leader's warp, since each
    /// look is a trip to far memory; of a CPU's group by the leader.
    MGI_HD Found look() const {
        u32 const sources = state_.source_count;
        Found found{sources, group_.block};
        if (here_.inbox_receivers == nullptr || group_.block >= state_.max_groups) return found;
        Receiver<A> const& me = here_.inbox_receivers[group_.block];
        // Both at once.
        u32 looks = me.looks.load(relaxed);
        u32 first = me.first.load(relaxed);
        found.looks = looks = of_leader(group_, looks);
        first = of_leader(group_, first);
        auto const at_others = [this, looks] {
            Found const held = look_at_others(group_, state_, here_);
            return Found{held.source, held.group, looks};
        };
        if (looks % kLooks == kLooks - 1) found = at_others();
        if (found.source != sources) return found;
        u32 const turn = first_of_warp(group_, sources, [this, &me, first](u32 k) {
            return seems_to_have(me, in_turn(first, k));
        });
        if (turn != sources) {
            found.source = in_turn(first, turn);
        } else if (looks % kIdleLooks == kIdleLooks - 1) {
            found = at_others();
        }
        return found;
    }

    /// The same by the leader alone, and for this group alone: of what it has taken in itself.
    MGI_HD MGI_COLD Found look_alone(Receiver<A> const& me) const {
        u32 const sources = state_.source_count;
        u32 const first = me.first.load(relaxed);
        for (u32 k = 0; k < sources; ++k) {
            if (seems_to_have(me, in_turn(first, k))) return {in_turn(first, k), group_.block};
        }
        return {sources, group_.block};
    }

    [[nodiscard]] MGI_HD u32 in_turn(u32 first, u32 k) const {
        u32 const sources = state_.source_count;
        return first + k < sources ? first + k : first + k - sources;
    }

    MGI_HD MGI_COLD static Found look_at_others(Group group, ChannelState<A> const& state,
                                                Destination<A> const& here) {
        for (u32 s = 0; s < state.source_count; ++s) {
            Inbox<A> const* const inbox = here.rings[s].inbox;
            if (inbox == nullptr || of_leader(group, inbox->has_open() ? 1 : 0) == 0) continue;
            u64 const numbers = numbers_of(here, s);
            u32 const holder =
                first_of_warp(group, state.max_groups, [&here, inbox, s, numbers](u32 g) {
                    u64 const held = here.inbox_receivers[g].holds[s].load(relaxed);
                    return held != 0 &&
                           (Receiver<A>::is_above(held, numbers) || has_come(*inbox, held));
                });
            if (holder != state.max_groups) return {s, holder};
        }
        return {state.source_count, group.block};
    }

    /// Of a source with an inbox: how many numbers there will ever be something for, if that is known.
    [[nodiscard]] MGI_HD static u64 numbers_of(Destination<A> const& here, u32 source) {
        u64 const count = here.counts[source].load(relaxed);
        return count == 0 ? ~u64(0) : (count - 1) * here.rings[source].inbox->chunks;
    }

    MGI_HD bool seems_to_have(Receiver<A> const& me, u32 source) const {
        Inbox<A> const* const inbox = here_.rings[source].inbox;
        if (inbox == nullptr) return false;
        // Both at once.
        u64 const held = me.holds[source].load(relaxed);
        u64 const next = inbox->next();
        return held != 0 ? has_come(*inbox, held) : inbox->has_come(next);
    }

    /// Whether the segment of a number that is held has come.
    [[nodiscard]] MGI_HD static bool has_come(Inbox<A> const& inbox, u64 held) {
        return held != Receiver<A>::kDrawing && inbox.has_come(held - 1);
    }

    /// `found`: by `look`.
    MGI_HD Status receive_alone(ReceivedBatch& batch, ErrorCode& code, Found found) {
        if (group_.block >= state_.max_groups) {
            code = ErrorCode::InvalidArgument;
            return Status::Error;
        }
        auto& receiver = here_.receivers[group_.block];
        // Both at once.
        code = state_.error();
        u64 const known = receiver.load(relaxed);
        if (code != ErrorCode::Ok) return Status::Error;
        if (known != group_.launch + 1) receiver.store(group_.launch + 1, relaxed);
        if (state_.ordered && !consume_alone()) {
            code = ErrorCode::Refused;
            return Status::Error;
        }
        if (here_.inbox_receivers == nullptr) {
            if (take_from_queue(batch)) return Status::Ok;
        } else if (take_by_turns(batch, found)) {
            return Status::Ok;
        }
        return at_end() ? Status::End : Status::Pending;
    }

    MGI_HD bool take_from_queue(ReceivedBatch& batch) {
        Chunk const chunk = here_.queue->take();
        // Also once in a while, since what is sent here in place may never leave the queue empty.
        bool const more = chunk.index == 0 && take_in_arrivals();
        if (chunk.count == 0) return more && take_queued(batch);
        return open(chunk, batch) || take_queued(batch);
    }

    /// The same of what stands in the queue.
    MGI_HD bool take_queued(ReceivedBatch& batch) {
        for (;;) {
            Chunk const chunk = here_.queue->take();
            if (chunk.count == 0) return false;
            if (open(chunk, batch)) return true;
        }
    }

    MGI_HD bool take_in_arrivals() { return here_.arrivals != nullptr && take_in(state_, here_); }

    /// From inboxes, or the queue, if there is one. Now and then what is behind them is looked at first, since they may
    /// never be empty.
    MGI_HD bool take_by_turns(ReceivedBatch& batch, Found found) {
        Receiver<A>& me = here_.inbox_receivers[group_.block];
        auto const from_queue = [this, &batch] { return here_.has_queue && take_queued(batch); };
        // An addition: groups of several launches may be this block. Nobody waits for it.
        (void)me.looks.fetch_add(1, relaxed);
        bool const turn = found.looks % kOthersTurn == 0;
        if (turn && take_in_arrivals()) found = look_alone(me);
        if (turn && from_queue()) return true;
        if (take_from_inboxes(batch, found)) return true;
        if (!turn && from_queue()) return true;
        if (!take_in_arrivals()) return false;
        return take_from_inboxes(batch, look_alone(me)) || from_queue();
    }

    /// Of so many looks one is at what other groups hold; if nothing else is found, of so many.
    static constexpr u32 kLooks = 64;
    static constexpr u32 kIdleLooks = 16;
    /// Of so many looks one is at the queue before the inboxes, and at what movers have written down.
    static constexpr u32 kOthersTurn = 4;

    MGI_HD bool take_from_inboxes(ReceivedBatch& batch, Found found) {
        Receiver<A>& me = here_.inbox_receivers[group_.block];
        u32 const sources = state_.source_count;
        bool taken = false;
        if (found.source < sources) {
            taken = found.group == group_.block ? take_from(me, found.source, batch)
                                                : take_over(found, batch);
        }
        if (taken && sources != 1) {
            (void)me.first.exchange(found.source + 1 == sources ? 0 : found.source + 1, relaxed);
        }
        return taken;
    }

    /// Takes a chunk of a source's inbox, if one has come for this group.
    MGI_HD bool take_from(Receiver<A>& me, u32 source, ReceivedBatch& batch) {
        Inbox<A>* const inbox = here_.rings[source].inbox;
        if (inbox == nullptr) return false;
        auto& holds = me.holds[source];
        for (;;) {
            u64 held = holds.load(relaxed);
            if (held == 0) {
                u64 const next = inbox->next();
                if (!inbox->has_come(next)) {
                    // Others may have drawn it, and its slot was filled anew since.
                    if (inbox->next() == next) return false;
                    continue;
                }
                // First a place for the number: groups of other launches may be the same block. Exchanges, since others
                // take numbers from there without following us.
                u64 const drawing = Receiver<A>::kDrawing;
                if (!holds.compare_exchange_strong(held, drawing, relaxed, relaxed)) return false;
                u64 const number = inbox->draw();
                if (number != next && !inbox->has_come(number)) {
                    // Another group was faster. release: who counts it knows of its draw.
                    (void)holds.exchange(number + 1, cuda::std::memory_order_release);
                    return false;
                }
                inbox->take();
                (void)holds.exchange(0, relaxed);
                if (open(*inbox, source, number, batch)) return true;
                continue;
            }
            if (!has_come(*inbox, held)) return false;
            if (!take_number({source, group_.block}, held)) continue;
            if (open(*inbox, source, held - 1, batch)) return true;
        }
    }

    /// Takes a chunk that another group holds, or lets go of its number for it, if nothing will come for that.
    MGI_HD bool take_over(Found found, ReceivedBatch& batch) {
        Inbox<A>& inbox = *here_.rings[found.source].inbox;
        u64 const held = here_.inbox_receivers[found.group].holds[found.source].load(relaxed);
        if (held == 0) return false;
        if (Receiver<A>::is_above(held, numbers_of(here_, found.source))) {
            let_go(found, held);
            return false;
        }
        return has_come(inbox, held) && take_number(found, held) &&
               open(inbox, found.source, held - 1, batch);
    }

    /// Takes a number from the group that holds it; false when another group was faster.
    MGI_HD bool take_number(Found of, u64 held) {
        auto& holds = here_.inbox_receivers[of.group].holds[of.source];
        if (!holds.compare_exchange_strong(held, 0, relaxed, relaxed)) return false;
        here_.rings[of.source].inbox->take();
        return true;
    }

    /// Lets go of a number that a group holds and that nothing comes for.
    MGI_HD void let_go(Found of, u64 held) {
        auto& holds = here_.inbox_receivers[of.group].holds[of.source];
        if (!holds.compare_exchange_strong(held, 0, relaxed, relaxed)) return;
        here_.rings[of.source].inbox->let_go();
    }

    /// Opens a chunk that has come and is ours; gives it back if it is empty.
    MGI_HD bool open(Inbox<A>& inbox, u32 source, u64 number, ReceivedBatch& batch) {
        u64 const sequence = number / inbox.chunks;
        u32 const rows = inbox.open(number);
        u32 const first = u32(number - sequence * inbox.chunks) * state_.chunk_rows;
        batch.source = source;
        batch.slot = u32(sequence) & inbox.mask;
        batch.sequence = sequence;
        if (first >= rows) {
            release_alone(batch);
            return false;
        }
        batch.segment = state_.pool + inbox.offsets[batch.slot];
        batch.layout = &state_.layout;
        batch.row = first;
        batch.rows = min_of(state_.chunk_rows, rows - first);
        batch.whole = batch.rows == rows;
        words_.rows_received.fetch_add(batch.rows, relaxed);
        return true;
    }

    MGI_HD bool consume_alone() {
        u64 consumer = words_.consumer.load(relaxed);
        u64 const me = group_.launch + 1;
        if (consumer == 0 &&
            words_.consumer.compare_exchange_strong(consumer, me, relaxed, relaxed)) {
            return true;
        }
        return consumer == me;
    }

    /// Opens a chunk of the queue's; gives it back if its rows are for another destination.
    MGI_HD bool open(Chunk const& chunk, ReceivedBatch& batch) {
        u32 const source = u32(chunk.what >> 32);
        u32 const index = u32(chunk.what);
        MGI_ASSERT(source < state_.source_count, source, state_.source_count, chunk.what);
        MGI_ASSERT(index < here_.rings[source].size, index, here_.rings[source].size, source);
        Slot<A> const& slot = here_.rings[source].slots[index];
        u32 const here = u32(&here_ - state_.destinations);
        u32 const rows = Content::rows(Content::at(slot.content.load(relaxed), here));
        // The queue's entry and the slot are of one segment.
        MGI_ASSERT(rows == 0 || state_.chunks_of(rows) == chunk.count, rows, state_.layout.rows,
                   chunk.count, state_.chunk_rows, source, index);
        MGI_ASSERT(rows <= state_.layout.rows && chunk.index < chunk.count, rows,
                   state_.layout.rows, chunk.index, chunk.count);
        batch.source = source;
        batch.slot = index;
        batch.sequence = slot.sequence.load(relaxed);
        if (rows == 0) {
            release_alone(batch);
            return false;
        }
        batch.segment = state_.pool + slot.offset;
        batch.layout = &state_.layout;
        batch.row = chunk.index * state_.chunk_rows;
        batch.rows = min_of(state_.chunk_rows, rows - batch.row);
        batch.whole = chunk.count == 1;
        words_.rows_received.fetch_add(batch.rows, relaxed);
        return true;
    }

    /// Every source has said how many segments it sent here, and so many were taken. Relaxed: these are
    /// facts, and an end hands over no rows.
    MGI_HD bool at_end() {
        if (words_.ended.load(relaxed) != 0) return true;
        u64 expected = 0;
        for (u32 s = 0; s < state_.source_count; ++s) {
            u64 const count = here_.counts[s].load(relaxed);
            if (count == 0) return false;
            if (Inbox<A> const* const inbox = here_.rings[s].inbox; inbox != nullptr) {
                u64 const numbers = numbers_of(here_, s);
                u64 const held = here_.inbox_receivers[group_.block].holds[s].load(relaxed);
                // What we hold nothing will come for.
                if (Receiver<A>::is_above(held, numbers)) let_go({s, group_.block}, held);
                if (!inbox->are_taken(numbers)) return false;
                continue;
            }
            expected += count - 1;
        }
        u64 const taken = here_.has_queue ? here_.queue->taken() : 0;
        MGI_ASSERT(taken <= expected, taken, expected, state_.source_count);
        if (taken != expected) return false;
        words_.ended.store(1, relaxed);
        return true;
    }

    MGI_HD void release_alone(ReceivedBatch const& batch) {
        ReadRing<A> const& ring = here_.rings[batch.source];
        Slot<A>& read = ring.slots[batch.slot];
        bool const clears = ring.in_place && state_.layout.bit_bytes != 0;
        if (ring.inbox != nullptr && !ring.inbox->give_back(batch.slot)) return;
        // The slots of a lane for all destinations count those that owe them something.
        if (ring.inbox != nullptr && (!ring.in_place || state_.own_lanes())) {
            if (clears) {
                memset(state_.pool + ring.inbox->offsets[batch.slot], 0, state_.layout.bit_bytes);
            }
            // release: every reader is done before the source writes into the slot again.
            read.sequence.store(batch.sequence + ring.size, cuda::std::memory_order_release);
        } else if (!release_reads(read, 1, ring.size, [this, clears](Slot<A>& slot) {
                       if (clears) memset(state_.pool + slot.offset, 0, state_.layout.bit_bytes);
                   })) {
            return;
        }
        if (ring.freed == nullptr) return;
        // release: every reader is done before the mover has a segment brought here again.
        ring.freed[batch.slot].store(batch.sequence + ring.size, cuda::std::memory_order_release);
    }

    Group const group_;
    ChannelState<A>& state_;
    Destination<A>& here_;
    DestinationWords<A>& words_;
    Exchange* const shared_;
};

}  // namespace mgi::device
