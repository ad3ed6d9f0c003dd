/// \file
/// How an endpoint and the movers speak where they share no memory but some of the host's that the endpoint's
/// device reaches as well (DESIGN section 5, "Movers"): each word has one writer, so that plain loads and
/// stores do, as PCIe has no others. The words are few and polled seldom, since each look is a trip.
#pragma once

#include <mgi/device/atomics.hpp>

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
/// them down here, in their order; the destination's groups put them into the receive queue. It can never be
/// full: it has an entry for each segment of the rings and for each source's end.
template <class A>
struct Arrivals {
    struct alignas(32) Entry {
        typename A::template System<u64> state{0};  ///< position + 1, once the rest is there
        typename A::template System<u64> what{0};   ///< source << 32 | slot, or kEnd for a slot
        typename A::template System<u64> content{
            0};  ///< Slot::content; of an end Destination::counts
    };
    static constexpr u32 kEnd = 0xffffffffu;

    /// Next position to write; the movers' alone.
    typename A::template System<u64> tail{0};
    Entry* entries = nullptr;
    u32 mask = 0;

    /// By a mover.
    MGI_HD void push(u64 what, u64 content) {
        // acq_rel: as of ReceiveQueue::push; the entry's last reader has done with it before some segment
        // came back that was pushed between then and now.
        u64 const position = tail.fetch_add(1, acq_rel);
        Entry& entry = entries[position & mask];
        entry.what.store(what, relaxed);
        entry.content.store(content, relaxed);
        // release: the segment's rows come before its first reader.
        entry.state.store(position + 1, cuda::std::memory_order_release);
    }
};

}  // namespace mgi::device
