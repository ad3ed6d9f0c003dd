/// \file
/// What happens to a slot that is full: its segment goes to the receive queues of its destinations,
/// or to the mover.
#pragma once

#include <mgi/device/state.hpp>

namespace mgi::device {

/// Hands on the filled slots of a lane: puts each into its readers' receive queues, where they read it in
/// place, and lets the mover find it behind `published`.
template <class A>
MGI_HD void deliver_lane(ChannelState<A>& state, u32 source, u32 lane) {
    Lane<A>& from = state.sources[source].lanes[lane];
    from.deliver_ready([&](u64, Slot<A>& slot, u32 rows) {
        u32 const chunks = state.chunks_of(rows);
        u64 const what = ChannelState<A>::describe(source, u32(&slot - from.slots));
        slot.readers.store(chunks * from.reader_count + from.moves, relaxed);
        for (u32 i = 0; i < from.reader_count; ++i) {
            state.destinations[from.readers[i]].queue->push(what, chunks);
        }
    });
}

/// Publishes a complete slot (the `true` of Lane::commit and Lane::seal).
template <class A>
MGI_HD MGI_COLD void publish_slot(ChannelState<A>& state, u32 source, u32 lane, u64 sequence) {
    Lane<A>& from = state.sources[source].lanes[lane];
    from.mark_filled(sequence);
    if (state.one_order() && from.moves == 0) {
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

/// Sequences of a lane below this one stand in their destinations' receive queues. The mover moves what is
/// published, so what it has delivered stands in the readers' queues as well.
template <class A>
MGI_HD u64 delivered_below(Lane<A> const& lane) {
    return lane.moves == 0 ? lane.published.load(acquire) : lane.delivered.load(acquire);
}

/// Closes a source after its last group has flushed: seals its lanes, and says to each destination that
/// reads in place how many segments it will have had. The mover says it to the others, after the last move.
template <class A>
MGI_HD MGI_COLD void close_source(ChannelState<A>& state, u32 source) {
    for (u32 l = 0; l < state.lane_count; ++l) {
        Lane<A>& lane = state.sources[source].lanes[l];
        u64 sequence = 0;
        if (lane.seal(sequence)) publish_slot(state, source, l, sequence);
        u64 const count = lane.sequences() + 1;
        // relaxed: a count is a fact, and says nothing about what has been delivered yet.
        lane.closed.store(count, relaxed);
        for (u32 i = 0; i < lane.reader_count; ++i) {
            state.destinations[lane.readers[i]].counts[source].store(count, relaxed);
        }
    }
}

}  // namespace mgi::device
