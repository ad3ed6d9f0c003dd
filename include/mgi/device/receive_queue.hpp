/// \file
/// The receive queue: where a destination's consumers find segments that have arrived, and share
/// them out among groups chunk by chunk (DESIGN section 5, "Receive queue").
#pragma once

#include <mgi/device/atomics.hpp>

namespace mgi::device {

/// A claimed chunk of a segment: the descriptor it was pushed with, and which chunk.
struct Chunk {
    u64 what = 0;
    u32 index = 0;
    u32 count = 0;  ///< chunks of the segment; 0: the queue had nothing
};

/// Bounded first-in first-out queue of segments, many pushers, many takers. It can never be full: it
/// has at least as many entries as there are segments that can be pushed and not yet freed, and an
/// entry is done with before its segment can be freed. Thread-safe, non-blocking.
template <class A = LibcuAtomics>
struct alignas(64) ReceiveQueue {
    struct Entry {
        /// Position + 1 (low 32 bits) << 32 | chunks << 16 | chunks claimed. The position makes each
        /// use of the entry distinct, so a late claimer's CAS fails.
        typename A::template System<u64> state{0};
        typename A::template System<u64> what{0};
    };

    /// Next position to push to.
    typename A::template System<u64> tail{0};
    /// Positions below this one were taken, which is: every chunk of them was claimed.
    alignas(64) typename A::template System<u64> head{0};
    Entry* entries = nullptr;
    u32 mask = 0;

    static constexpr u32 kMaxChunks = 0xffff;

    /// Appends a segment in `chunks` parts, 1 <= chunks <= kMaxChunks.
    MGI_HD void push(u64 what, u32 chunks) {
        MGI_ASSERT(chunks != 0 && chunks <= kMaxChunks, chunks, what);
        // acq_rel: we follow all earlier pushes, and with them what they had seen. From the entry's last
        // use to ours there is one push more than there are segments, so one of them pushed a segment
        // again, and had seen that use over. Our own segment may have been free since before it.
        u64 const position = tail.fetch_add(1, acq_rel);
        Entry& entry = entries[u32(position) & mask];
        entry.what.store(what, relaxed);
        // release: the segment's rows and words come before its first reader.
        entry.state.store(state_of(position, chunks, 0), cuda::std::memory_order_release);
    }

    /// Claims the next chunk; count == 0 when there is none now.
    [[nodiscard]] MGI_HD Chunk take() {
        for (;;) {
            // acquire, with the releases of the claim and of `advance`: who takes or pushes what comes
            // after a position has seen that every use of its entry was over.
            u64 const position = head.load(acquire);
            Entry& entry = entries[u32(position) & mask];
            // Poll without acquire; a GPU's acquire empties its first-level cache.
            u64 state = entry.state.load(relaxed);
            if (u32(state >> 32) != u32(position + 1)) {
                if (head.load(relaxed) != position) continue;
                return {};
            }
            u32 const chunks = u32(state >> 16) & kMaxChunks;
            u32 const next = u32(state) & kMaxChunks;
            MGI_ASSERT(chunks != 0 && next <= chunks, chunks, next, position);
            if (next == chunks) {
                // acquire: the claims that exhausted it come before the head that says so.
                if (entry.state.load(acquire) == state) advance(position);
                continue;
            }
            state = entry.state.load(acquire);
            // Read before the claim, hence its release: once the entry is exhausted others may move the
            // head past it, and it is pushed anew as soon as any segment is free, not only ours.
            u64 const what = entry.what.load(relaxed);
            // While the position stays what it is others have claimed a chunk before us, and `what` holds.
            while (u32(state >> 32) == u32(position + 1) && (u32(state) & kMaxChunks) != chunks) {
                u32 const mine = u32(state) & kMaxChunks;
                MGI_ASSERT(mine < chunks, mine, chunks, position);
                if (!entry.state.compare_exchange_strong(
                        state, state + 1, cuda::std::memory_order_release, relaxed)) {
                    continue;
                }
                if (mine + 1 == chunks) advance(position);
                return {what, mine, chunks};
            }
        }
    }

    /// Segments of which every chunk was claimed.
    [[nodiscard]] MGI_HD u64 taken() const { return head.load(relaxed); }
    /// Segments pushed so far.
    [[nodiscard]] MGI_HD u64 pushed() const { return tail.load(relaxed); }

private:
    MGI_HD static u64 state_of(u64 position, u32 chunks, u32 claimed) {
        return u64(u32(position + 1)) << 32 | chunks << 16 | claimed;
    }
    /// Moves the head past an exhausted entry; somebody else may have done it.
    MGI_HD void advance(u64 position) {
        head.compare_exchange_strong(position, position + 1, cuda::std::memory_order_release,
                                     relaxed);
    }
};

}  // namespace mgi::device
