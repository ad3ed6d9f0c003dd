/// \file
/// What happens to a slot that is full: its segment goes to the receive queues of its destinations,
/// or to the mover.
#pragma once

#include <mgi/device/state.hpp>

namespace mgi::device {

/// Hands on the filled slots of a lane. By reference the destinations read the segment in place; by
/// copy the mover finds it behind `published`.
template <class A>
MGI_HD void deliver_lane(ChannelState<A>& state, u32 source, u32 lane) {
    Lane<A>& from = state.sources[source].lanes[lane];
    from.deliver_ready([&](u64, Slot<A>& slot, u32 rows) {
        bool const broadcast = state.routing == RoutingKind::Broadcast;
        if (!from.by_reference) {
            slot.readers.store(broadcast ? state.destination_count : 1, relaxed);
            return;
        }
        u32 const chunks = state.chunks_of(rows);
        u64 const what = ChannelState<A>::describe(source, u32(&slot - from.slots));
        if (broadcast) {
            slot.readers.store(chunks * state.destination_count, relaxed);
            for (u32 d = 0; d < state.destination_count; ++d) {
                state.destinations[d].queue->push(what, chunks);
            }
        } else {
            // Balance: all destinations take from the one queue, whoever has room first.
            slot.readers.store(chunks, relaxed);
            state.destinations[lane].queue->push(what, chunks);
        }
    });
}

/// Publishes a complete slot (the `true` of Lane::commit and Lane::seal).
template <class A>
MGI_HD void publish_slot(ChannelState<A>& state, u32 source, u32 lane, u64 sequence) {
    Lane<A>& from = state.sources[source].lanes[lane];
    from.mark_filled(sequence);
    if (state.one_order() && from.by_reference) {
        deliver_alone(
            state.delivering_all,
            [&] {
                for (u32 s = 0; s < state.source_count; ++s) {
                    if (state.sources[s].lanes[0].ready()) return true;
                }
                return false;
            },
            [&] {
                for (u32 s = 0; s < state.source_count; ++s) deliver_lane(state, s, 0);
            });
        return;
    }
    deliver_alone(
        from.delivering, [&] { return from.ready(); }, [&] { deliver_lane(state, source, lane); });
}

/// Sequences of a lane below this one stand in their destinations' receive queues.
template <class A>
MGI_HD u64 delivered_below(Lane<A> const& lane) {
    return lane.by_reference ? lane.published.load(acquire) : lane.delivered.load(acquire);
}

/// Closes a source after its last group has flushed: seals its lanes, and says to each destination
/// how many segments it will have had. By copy the mover says it, after the last copy.
template <class A>
MGI_HD void close_source(ChannelState<A>& state, u32 source) {
    for (u32 l = 0; l < state.lane_count; ++l) {
        Lane<A>& lane = state.sources[source].lanes[l];
        u64 sequence = 0;
        if (lane.seal(sequence)) publish_slot(state, source, l, sequence);
        u64 const count = lane.sequences() + 1;
        // relaxed: a count is a fact, and says nothing about what has been delivered yet.
        lane.closed.store(count, relaxed);
        if (!lane.by_reference) continue;
        u32 const first = state.routing == RoutingKind::Broadcast ? 0 : l;
        u32 const last = state.routing == RoutingKind::Broadcast ? state.destination_count : l + 1;
        for (u32 d = first; d < last; ++d) {
            state.destinations[d].counts[source].store(count, relaxed);
        }
    }
}

}  // namespace mgi::device
