// The receive queue alone: segments go round through a slot each, so that entries are used again as
// soon as they may be.

#include <optional>

#include "scenario.hpp"
#include "tables.hpp"

namespace mgi::relacy {
namespace {

/// `pushers` threads push `rounds` times `chunks` chunks each, out of `slots` slots of their own; the
/// other threads take, read, and release.
template <rl::thread_id_t pushers, rl::thread_id_t takers, u32 slots, u32 chunks, u32 rounds>
struct Queue : Threads<pushers + takers> {
    static constexpr u32 kSegments = pushers * slots;

    struct Shared {
        ReceiveQueue<A> queue;
        ReceiveQueue<A>::Entry entries[kSegments];
        Slot<A> slot[kSegments];
        Plain<u32> rows[kSegments];
        std::vector<u32> seen = std::vector<u32>(pushers * rounds * chunks);
    };
    std::optional<Shared> all;

    void prepare() {
        all.emplace();
        all->queue.entries = all->entries;
        all->queue.mask = kSegments - 1;
        for (u32 i = 0; i < kSegments; ++i) all->slot[i].sequence.store(i % slots, relaxed);
    }

    void thread(unsigned index) {
        if (index < pushers) {
            for (u32 i = 0; i < rounds; ++i) push(index, i);
        } else {
            while (all->queue.taken() != u64(pushers) * rounds) {
                if (!take()) A::backoff(0);
            }
        }
    }

    void push(u32 pusher, u32 round) {
        u32 const segment = pusher * slots + round % slots;
        Slot<A>& slot = all->slot[segment];
        while (slot.sequence.load(acquire) != round) A::backoff(0);
        all->rows[segment].write(pusher * rounds + round);
        slot.readers.store(chunks, relaxed);
        all->queue.push(segment, chunks);
    }

    bool take() {
        Chunk const chunk = all->queue.take();
        if (chunk.count == 0) return false;
        // The descriptor: the last that a successful `take` loads.
        rely_on_last_load();
        RL_ASSERT(chunk.count == chunks && chunk.what < kSegments && chunk.index < chunks);
        RL_ASSERT(all->seen[all->rows[chunk.what].read() * chunks + chunk.index]++ == 0);
        // As a receiver cleans a segment: nobody reads it any more, nobody fills it yet.
        release_reads(all->slot[chunk.what], 1, slots,
                      [&](Slot<A>&) { all->rows[chunk.what].write(~0u); });
        return true;
    }

    void after() {
        for (u32 const times : all->seen) RL_ASSERT(times == 1);
        all.reset();
    }
};

Listed<Queue<2, 1, 1, 2, 4>> const pushers("queue.pushers",
                                           "each chunk of each segment is taken once", 50'000);

Listed<Queue<1, 2, 2, 3, 4>> const takers("queue.takers", "a chunk goes to one of those who take",
                                          50'000);

Listed<Queue<2, 2, 1, 1, 3>> const both("queue.both",
                                        "entries used anew are not taken for what they were",
                                        50'000);

}  // namespace
}  // namespace mgi::relacy
