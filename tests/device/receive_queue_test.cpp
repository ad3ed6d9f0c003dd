// The receive queue alone: many pushers, many takers, chunks, the wrap of its ring.
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <mgi/device/receive_queue.hpp>

#include "support/random.hpp"

namespace mgi::device {
namespace {

struct TestQueue {
    explicit TestQueue(u32 entries, u64 start = 0)
        : memory(std::make_unique<ReceiveQueue<>::Entry[]>(entries)) {
        queue.entries = memory.get();
        queue.mask = entries - 1;
        queue.tail.store(start, relaxed);
        queue.head.store(start, relaxed);
    }
    std::unique_ptr<ReceiveQueue<>::Entry[]> memory;
    ReceiveQueue<> queue;
};

TEST(DeviceReceiveQueue, GivesChunksInOrder) {
    TestQueue t(4);
    EXPECT_EQ(t.queue.take().count, 0U);
    t.queue.push(7, 3);
    t.queue.push(9, 1);
    EXPECT_EQ(t.queue.pushed(), 2U);
    for (u32 i = 0; i < 3; ++i) {
        Chunk const chunk = t.queue.take();
        EXPECT_EQ(chunk.what, 7U);
        EXPECT_EQ(chunk.index, i);
        EXPECT_EQ(chunk.count, 3U);
        EXPECT_EQ(t.queue.taken(), i == 2 ? 1U : 0U);
    }
    EXPECT_EQ(t.queue.take().what, 9U);
    EXPECT_EQ(t.queue.taken(), 2U);
    EXPECT_EQ(t.queue.take().count, 0U);
}

TEST(DeviceReceiveQueue, MostChunksOfOneSegment) {
    TestQueue t(1);
    t.queue.push(5, ReceiveQueue<>::kMaxChunks);
    for (u32 i = 0; i < ReceiveQueue<>::kMaxChunks; ++i) ASSERT_EQ(t.queue.take().index, i);
    EXPECT_EQ(t.queue.take().count, 0U);
    t.queue.push(6, 1);
    EXPECT_EQ(t.queue.take().what, 6U);
}

TEST(DeviceReceiveQueue, PositionsWrapPast32Bits) {
    u64 const start = (u64{1} << 32) - 6;
    TestQueue t(2, start);
    for (u64 i = 0; i < 20; ++i) {
        t.queue.push(i, 2);
        for (u32 k = 0; k < 2; ++k) {
            Chunk const chunk = t.queue.take();
            ASSERT_EQ(chunk.count, 2U) << i;
            ASSERT_EQ(chunk.what, i);
            ASSERT_EQ(chunk.index, k);
        }
        ASSERT_EQ(t.queue.take().count, 0U);
    }
    EXPECT_EQ(t.queue.taken(), start + 20);
}

// As many segments circulate as there are entries: pushed, taken chunk by chunk, and pushed again
// once all of their chunks are done with. That is the queue's whole contract.
TEST(DeviceReceiveQueue, ManyPushersManyTakersEachChunkOnce) {
    for (u32 entries : {1U, 2U, 8U}) {
        u32 const rounds = 4000;
        TestQueue t(entries, (u64{1} << 32) - 1000);
        std::vector<LibcuAtomics::System<u32>> owed(entries);  // chunks of a segment, 0: free
        std::vector<u32> lap(entries, 0);  // written by whoever owns the segment
        LibcuAtomics::System<u32> pushed{0};
        LibcuAtomics::System<u32> finished{0};
        std::vector<std::thread> threads;
        for (u32 p = 0; p < 3; ++p) {
            threads.emplace_back([&, p] {
                test::Random random(p);
                test::Yields yields(p, 20);
                for (u32 idle = 0;;) {
                    u32 const mine = u32(random.below(entries));
                    u32 free = 0;
                    u32 const chunks = 1 + u32(random.below(5));
                    if (owed[mine].compare_exchange_strong(free, chunks, acq_rel, relaxed)) {
                        if (pushed.fetch_add(1, relaxed) >= rounds) return;
                        ++lap[mine];
                        yields();
                        t.queue.push(u64(lap[mine]) << 32 | mine, chunks);
                        idle = 0;
                    } else {
                        if (pushed.load(relaxed) >= rounds) return;
                        backoff(idle++);
                    }
                }
            });
        }
        for (u32 c = 0; c < 3; ++c) {
            threads.emplace_back([&, c] {
                test::Yields yields(c + 10, 20);
                for (u32 idle = 0; finished.load(relaxed) < rounds;) {
                    Chunk const chunk = t.queue.take();
                    if (chunk.count == 0) {
                        backoff(idle++);
                        continue;
                    }
                    idle = 0;
                    u32 const segment = u32(chunk.what);
                    ASSERT_LT(segment, entries);
                    ASSERT_EQ(lap[segment], u32(chunk.what >> 32)) << "a stale chunk";
                    yields();
                    if (owed[segment].fetch_sub(1, acq_rel) == 1) finished.fetch_add(1, relaxed);
                }
            });
        }
        for (auto& thread : threads) thread.join();
        EXPECT_EQ(finished.load(relaxed), rounds);
        EXPECT_EQ(t.queue.take().count, 0U);
    }
}

}  // namespace
}  // namespace mgi::device
