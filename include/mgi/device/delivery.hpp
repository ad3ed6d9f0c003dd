/// \file
/// What happens to a slot that is full: its segment goes to the receive queues or inboxes of its destinations,
/// or to the mover.
#pragma once

#include <mgi/device/group.hpp>
#include <mgi/device/state.hpp>

namespace mgi::device {

/// A segment that movers have brought, with this sequence of (source, destination), is complete in its receive
/// ring, and all before it were pushed: puts it into the receive queue, or the source's inbox. `content`: as in Slot, for
/// this destination; without rows, if they are for another one.
template <class A>
MGI_HD void push_arrived(ChannelState<A> const& state, Destination<A>& at, u32 source, u32 slot,
                         u64 content) {
    ReadRing<A> const& ring = at.rings[source];
    MGI_ASSERT(source < state.source_count, source, state.source_count);
    MGI_ASSERT(slot < ring.size && !ring.in_place, slot, ring.size, ring.in_place, source);
    u32 const rows = Content::rows(content);
    MGI_ASSERT(rows <= state.layout.rows && Content::address(content) == 0, rows, state.layout.rows,
               source, slot, content);
    Slot<A>& to = ring.slots[slot];
    if (ring.inbox != nullptr) {
        ring.inbox->come(to.sequence.load(relaxed), rows);
        return;
    }
    // Somebody takes one without rows, too, and gives it back.
    u32 const chunks = max_of(state.chunks_of(rows), 1u);
    to.content.store(content, relaxed);
    to.readers.store(chunks, relaxed);
    at.queue->push(ChannelState<A>::describe(source, slot), chunks);
}

/// Takes over what movers have written down. True if anything was there.
template <class A>
MGI_HD MGI_COLD bool take_in(ChannelState<A> const& state, Destination<A>& at) {
    DestinationWords<A>& words = *at.words;
    // Ahead of the look: one thread at a time makes the trip to the host's memory.
    // acquire, with the release below: who takes in next goes on where we have stopped.
    if (words.importing.exchange(1, acquire) != 0) return false;
    Arrivals<A> const& from = *at.arrivals;
    u64 const first = words.imported.load(relaxed);
    u64 position = first;
    u32 there = 0;
    do {
        u64 seen[Arrivals<A>::kAtOnce];
        for (u32 k = 0; k < Arrivals<A>::kAtOnce; ++k) {
            seen[k] = from.entries[(position + k) & from.mask].load(relaxed);
        }
        there = 0;
        while (there < Arrivals<A>::kAtOnce && from.is_of(seen[there], position + there)) ++there;
        if (there == 0) break;
        // acquire: the movers have seen the copies done; whose entry is the last follows the others (`write`).
        (void)from.entries[(position + there - 1) & from.mask].load(acquire);
        for (u32 k = 0; k < there; ++k) {
            u32 const source = Arrivals<A>::source(seen[k]);
            u32 const slot = Arrivals<A>::slot(seen[k]);
            if (slot == Arrivals<A>::kEnd) {
                u64 const count = from.counts[source].load(relaxed);
                MGI_ASSERT(source < state.source_count && count != 0, source, state.source_count,
                           count);
                at.counts[source].store(count, relaxed);
            } else {
                push_arrived(state, at, source, slot, Arrivals<A>::rows(seen[k]));
            }
        }
        position += there;
    } while (there == Arrivals<A>::kAtOnce);
    words.imported.store(position, relaxed);
    words.importing.store(0, cuda::std::memory_order_release);
    return position != first;
}

/// Takes over what the mover says of a lane with mail: gives the slots back that it has done with. True if
/// there were any.
template <class A>
MGI_HD MGI_COLD bool collect(ChannelState<A> const& state, Lane<A>& lane) {
    // As of take_in.
    if (lane.collecting.exchange(1, acquire) != 0) return false;
    u64 const first = lane.delivered.load(relaxed);
    // acquire: the mover is done with the segments before anybody fills them again.
    u64 const moved = lane.mail->moved.load(acquire);
    MGI_ASSERT(moved - first <= u64(lane.mask) + 1, moved, first, lane.mask);
    for (u64 at = first; at != moved; ++at) {
        release_reads(lane.slots[u32(at) & lane.mask], lane.moves, lane.mask + 1,
                      [&state](Slot<A>& slot) {
                          if (state.layout.bit_bytes != 0) {
                              memset(state.pool + slot.offset, 0, state.layout.bit_bytes);
                          }
                      });
    }
    // release: who sees it finds the rows in their destinations' hands.
    if (moved != first) lane.delivered.store(moved, cuda::std::memory_order_release);
    lane.collecting.store(0, cuda::std::memory_order_release);
    return moved != first;
}

/// For who has claimed in vain: whether it is worth another try, as a mover has given slots back.
template <class A>
MGI_HD bool finds_room(ChannelState<A> const& state, Lane<A>& lane) {
    return lane.mail != nullptr && collect(state, lane);
}

/// `Lane::claim`, with what movers have given back; counts what finds no room.
template <class A>
MGI_HD Claim claim_taken(ChannelState<A> const& state, Lane<A>& lane, u64 at, u32 rows,
                         LaneForm<A> const& form) {
    Claim claim = Lane<A>::claim(at, rows, form);
    if (claim.rows == 0 && finds_room(state, lane)) claim = Lane<A>::claim(at, rows, form);
    if (claim.rows == 0) lane.waits.fetch_add(1, relaxed);
    return claim;
}

/// The same of rows that may not be taken yet: they are once a slot is free. `at` is then where, in a channel that
/// takes ahead.
template <class A>
MGI_HD Claim take_and_claim(ChannelState<A> const& state, Lane<A>& lane, u64& at, u32 rows,
                            LaneForm<A> const& form) {
    if (!state.takes_ahead) return lane.claim_now(rows);
    if (at == Lane<A>::kNotTaken) {
        if (!lane.has_room(form) && !(finds_room(state, lane) && lane.has_room(form))) {
            lane.waits.fetch_add(1, relaxed);
            return {};
        }
        at = lane.take(rows);
    }
    return claim_taken(state, lane, at, rows, form);
}

/// Hands on the filled slots of a lane: puts each into its readers' receive queues or inboxes, where they read it in
/// place, and lets the mover find it behind `published`.
template <class A>
MGI_HD void deliver_lane(ChannelState<A>& state, u32 source, u32 lane) {
    Lane<A>& from = state.sources[source].lanes[lane];
    from.deliver_ready([&state, &from, source](u64 sequence, Slot<A>& slot, u64 content) {
        u32 const chunks = state.chunks_of(Content::rows(content));
        u64 const what = ChannelState<A>::describe(source, u32(&slot - from.slots));
        // Somebody gives the slot back.
        MGI_ASSERT(from.reader_count + from.moves != 0, source, sequence);
        // All readers have one, or none.
        bool const inboxes = from.reader_count != 0 &&
                             state.destinations[from.readers[0]].rings[source].inbox != nullptr;
        u32 const reads = inboxes ? 1 : chunks;  // an inbox counts its chunks itself
        slot.readers.store(reads * from.reader_count + from.moves, relaxed);
        for (u32 i = 0; i < from.reader_count; ++i) {
            u32 const d = from.readers[i];
            Destination<A>& to = state.destinations[d];
            if (inboxes) {
                u32 const rows = Content::rows(Content::at(content, d));
                to.rings[source].inbox->come(sequence, rows);
            } else {
                // A group that takes chunks for another destination gives them back at once.
                to.queue->push(what, chunks);
            }
        }
        if (from.mail == nullptr) return;
        from.mail->contents[u32(sequence) & from.mask].store(content, relaxed);
        // release: the rows come before the mover that copies them.
        from.mail->published.store(sequence + 1, cuda::std::memory_order_release);
    });
}

/// Publishes a complete slot (the `true` of Lane::commit and Lane::seal).
template <class A>
MGI_HD MGI_COLD void publish_slot(ChannelState<A>& state, u32 source, u32 lane, u64 sequence) {
    Lane<A>& from = state.sources[source].lanes[lane];
    if (from.came != nullptr) return from.say_arrival(sequence);
    from.mark_filled(sequence);
    if (state.one_order() && from.moves == 0) {
        deliver_alone(
            state.delivering_all,
            [&state] {
                for (u32 s = 0; s < state.source_count; ++s) {
                    if (state.sources[s].lanes[0].ready()) return true;
                }
                return false;
            },
            [&state] {
                for (u32 s = 0; s < state.source_count; ++s) deliver_lane(state, s, 0);
            });
        return;
    }
    deliver_alone(
        from.delivering, [&from] { return from.ready(); },
        [&state, source, lane] { deliver_lane(state, source, lane); });
}

/// Which open segments are published: all, or what a group that merely waits publishes. Of a lane whose segments are copied it
/// leaves the open one while others are under way, behind which it comes soon enough: part-filled ones take copies as
/// much time as full ones. Where readers hold segments, others may wait for that one.
enum class Seal : u8 { All, Waiting };

/// Publishes a lane's open segment, if there are rows in it and the lane is to be sealed.
template <class A>
MGI_HD void seal_lane(ChannelState<A>& state, u32 source, u32 l, Seal which) {
    Lane<A>& lane = state.sources[source].lanes[l];
    if (which == Seal::Waiting && lane.moves != 0) {
        if (lane.mail != nullptr) collect(state, lane);
        if (!lane.at_rest()) return;
    }
    u64 sequence = 0;
    if (lane.seal(sequence)) publish_slot(state, source, l, sequence);
}

/// Sequences below this one of a lane that is delivered in sequence stand in their destinations' receive queues or inboxes. The
/// mover moves what is published, so what it has delivered stands in the readers' as well.
template <class A>
MGI_HD u64 delivered_below(ChannelState<A> const& state, Lane<A>& lane) {
    if (lane.mail != nullptr) collect(state, lane);
    return lane.moves == 0 ? lane.published.load(acquire) : lane.delivered.load(acquire);
}

/// A thread's share of its group's question whether every sequence of a lane with an inbox below one has come there.
template <class A>
MGI_HD bool has_come(Group const& group, Lane<A> const& lane, u64 below) {
    u32 const slots = u32(min_of<u64>(below, lane.mask + 1));
    for (u32 i = group.thread; i < slots; i += group.threads) {
        if (!lane.has_come(i, below)) return false;
    }
    return true;
}

/// Closes a lane after the last group of its source has flushed: seals it, and says to each destination that reads in
/// place how many segments it will have had. The mover says it to the others, after the last move.
template <class A>
MGI_HD MGI_COLD void close_lane(ChannelState<A>& state, u32 source, u32 l) {
    Lane<A>& lane = state.sources[source].lanes[l];
    seal_lane(state, source, l, Seal::All);
    u64 const count = lane.sequences() + 1;
    // relaxed: a count is a fact, and says nothing about what has been delivered yet.
    lane.closed.store(count, relaxed);
    if (lane.mail != nullptr) lane.mail->closed.store(count, relaxed);
    for (u32 i = 0; i < lane.reader_count; ++i) {
        state.destinations[lane.readers[i]].counts[source].store(count, relaxed);
    }
}

}  // namespace mgi::device
