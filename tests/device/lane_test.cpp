// The lane protocol alone: a ring of slots that threads claim, commit, seal, publish and free.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <mgi/device/lane.hpp>

#include "support/random.hpp"

namespace mgi::device {
namespace {

struct Fitting {
    u32 rows;
    u32 units;
};

/// A lane with its slots and, in place of segments, the values that were written to each row.
struct TestLane {
    TestLane(u32 ring, u32 capacity, u64 start, u32 units = 0)
        : slots(std::make_unique<Slot<LibcuAtomics>[]>(ring)),
          rows(ring, std::vector<u64>(capacity)) {
        lane.slots = slots.get();
        lane.mask = ring - 1;
        lane.capacity = capacity;
        lane.units = units;
        lane.cursor.store(units != 0 ? Ticket{start, 0}.word() : start * capacity, relaxed);
        lane.published.store(start, relaxed);
        for (u64 i = start; i < start + ring; ++i) slots[i & lane.mask].sequence.store(i, relaxed);
    }
    Claim claim(u32 wanted, u32 units_each = 0) {
        if (lane.units == 0) return lane.claim_now(wanted);
        return lane.claim_fitting(
            [&](u32 room, u32 units) {
                u32 most = min_of(room, wanted);
                if (units_each != 0) most = min_of(most, units / units_each);
                return Fitting{most, most * units_each};
            },
            [&](u64 sequence) { publish(sequence); });
    }
    /// Rows that were taken, as far as their slot goes.
    Claim claim_taken(u64 at, u32 rows_taken) { return Lane<>::claim(at, rows_taken, lane.form()); }
    void commit(Claim const& claim) {
        if (lane.commit(claim.slot, claim.rows, 0, claim.units)) publish(claim.sequence);
    }
    void publish(u64 sequence) {
        lane.mark_filled(sequence);
        deliver_alone(
            lane.delivering, [&] { return lane.ready(); },
            [&] {
                lane.deliver_ready([&](u64 next, Slot<LibcuAtomics>& slot, u64 content) {
                    slot.readers.store(1, relaxed);
                    std::lock_guard const lock(mutex);
                    delivered.push_back({next, u32(&slot - lane.slots), Content::rows(content)});
                });
            });
    }
    void seal() {
        u64 sequence = 0;
        if (lane.seal(sequence)) publish(sequence);
    }
    void free(u32 slot) {
        EXPECT_TRUE(release_reads(slots[slot], 1, lane.mask + 1, [](Slot<LibcuAtomics>&) {}));
    }

    struct Delivered {
        u64 sequence;
        u32 slot;
        u32 rows;
    };
    Lane<> lane;
    std::unique_ptr<Slot<LibcuAtomics>[]> slots;
    std::vector<std::vector<u64>> rows;
    std::mutex mutex;
    std::vector<Delivered> delivered;
};

TEST(DeviceLane, ClaimsNeverCrossASlot) {
    TestLane t(2, 10, 0);
    Claim const first = t.claim(7);
    EXPECT_EQ(first.rows, 7U);
    EXPECT_EQ(first.row, 0U);
    Claim const rest = t.claim(7);
    EXPECT_EQ(rest.rows, 3U);
    EXPECT_EQ(rest.row, 7U);
    EXPECT_EQ(rest.slot, 0U);
    Claim const next = t.claim(7);
    EXPECT_EQ(next.slot, 1U);
    EXPECT_EQ(next.row, 0U);
    EXPECT_TRUE(t.delivered.empty());
    t.commit(rest);
    EXPECT_TRUE(t.delivered.empty());
    t.commit(first);
    ASSERT_EQ(t.delivered.size(), 1U);
    EXPECT_EQ(t.delivered[0].rows, 10U);
}

TEST(DeviceLane, FullRingGivesNoRoomUntilASlotIsFreed) {
    for (u32 ring : {1U, 2U, 4U}) {
        TestLane t(ring, 4, 0);
        for (u32 i = 0; i < ring; ++i) t.commit(t.claim(4));
        EXPECT_EQ(t.claim(1).rows, 0U);
        EXPECT_EQ(t.lane.waits.load(relaxed), 1U);
        ASSERT_EQ(t.delivered.size(), ring);
        t.free(t.delivered[0].slot);
        Claim const again = t.claim(9);
        EXPECT_EQ(again.rows, 4U);
        EXPECT_EQ(again.sequence, ring);
        EXPECT_EQ(t.claim(1).rows, 0U) << "ring " << ring;
    }
}

TEST(DeviceLane, TakenRowsGoOverSlotsAndWaitForThem) {
    TestLane t(2, 4, 0);
    u64 const first = t.lane.take(3);
    u64 const second =
        t.lane.take(7);  // of three slots, the last of which is the first one, a lap on
    EXPECT_EQ(first, 0U);
    EXPECT_EQ(second, 3U);
    Claim const a = t.claim_taken(first, 3);
    EXPECT_EQ(a.rows, 3U);
    Claim const b = t.claim_taken(second, 7);
    EXPECT_EQ(b.rows, 1U);
    EXPECT_EQ(b.row, 3U);
    Claim const c = t.claim_taken(second + 1, 6);
    EXPECT_EQ(c.sequence, 1U);
    EXPECT_EQ(c.row, 0U);
    EXPECT_EQ(c.rows, 4U);
    EXPECT_EQ(t.claim_taken(second + 5, 2).rows, 0U);
    EXPECT_EQ(t.claim(1).rows, 0U) << "the slot that comes next is not free";
    t.seal();
    EXPECT_EQ(t.lane.cursor.load(relaxed), 10U) << "rows that cannot be written are not closed in";
    t.commit(b);
    t.commit(c);
    EXPECT_TRUE(t.delivered.empty());
    t.commit(a);
    ASSERT_EQ(t.delivered.size(), 2U);
    t.free(t.delivered[0].slot);
    Claim const d = t.claim_taken(second + 5, 2);
    EXPECT_EQ(d.sequence, 2U);
    EXPECT_EQ(d.rows, 2U);
    t.seal();
    t.commit(d);
    ASSERT_EQ(t.delivered.size(), 3U);
    EXPECT_EQ(t.delivered[2].rows, 2U);
    EXPECT_EQ(t.lane.sequences(), 3U);
}

TEST(DeviceLane, SealPublishesAPartlyFilledSlotOnce) {
    TestLane t(2, 8, 0);
    t.seal();
    EXPECT_TRUE(t.delivered.empty()) << "at a slot's start sealing does nothing";
    t.commit(t.claim(3));
    t.seal();
    t.seal();
    ASSERT_EQ(t.delivered.size(), 1U);
    EXPECT_EQ(t.delivered[0].rows, 3U);
    EXPECT_EQ(t.lane.sequences(), 1U);
    EXPECT_EQ(t.claim(1).sequence, 1U);
}

TEST(DeviceLane, SealLeavesTheOpenClaimToItsOwner) {
    TestLane t(2, 8, 0);
    Claim const open = t.claim(3);
    t.seal();
    EXPECT_TRUE(t.delivered.empty());
    t.commit(open);
    ASSERT_EQ(t.delivered.size(), 1U);
    EXPECT_EQ(t.delivered[0].rows, 3U);
}

TEST(DeviceLane, LaterSlotsWaitForEarlierOnes) {
    TestLane t(4, 2, 0);
    Claim const first = t.claim(2);
    Claim const second = t.claim(2);
    t.commit(second);
    EXPECT_TRUE(t.delivered.empty());
    t.commit(first);
    ASSERT_EQ(t.delivered.size(), 2U);
    EXPECT_EQ(t.delivered[0].sequence, 0U);
    EXPECT_EQ(t.delivered[1].sequence, 1U);
}

TEST(DeviceLane, TextThatDoesNotFitSealsTheSlot) {
    TestLane t(2, 8, 0, 10);
    t.commit(t.claim(2, 4));
    Claim const next = t.claim(2, 4);  // 2 units are left in the first slot
    EXPECT_EQ(next.slot, 1U);
    EXPECT_EQ(next.unit, 0U);
    EXPECT_EQ(next.units, 8U);
    ASSERT_EQ(t.delivered.size(), 1U);
    EXPECT_EQ(t.delivered[0].rows, 2U);
    EXPECT_EQ(u32(t.slots[0].content.load(relaxed) >> 32), 8U);
}

class DeviceLaneStart : public ::testing::TestWithParam<u32> {};

// Of a lane with long strings across the wrap of the ticket's sequence.
TEST_P(DeviceLaneStart, SequencesAreExact) {
    u64 const start = (u64{3} << 25) - 2;
    TestLane t(2, 1, start, GetParam());
    for (u64 i = 0; i < 5; ++i) {
        Claim const claim = t.claim(1);
        ASSERT_EQ(claim.rows, 1U) << i;
        EXPECT_EQ(claim.sequence, start + i);
        t.commit(claim);
        t.free(claim.slot);
    }
    EXPECT_EQ(t.lane.sequences(), start + 5);
    EXPECT_EQ(t.lane.published.load(relaxed), start + 5);
}

INSTANTIATE_TEST_SUITE_P(Units, DeviceLaneStart, ::testing::Values(0U, 4U));

TEST(DeviceLane, ReleaseOfSeveralReadsFreesWithTheLast) {
    Slot<LibcuAtomics> slot;
    slot.sequence.store(6, relaxed);
    slot.readers.store(3, relaxed);
    int cleaned = 0;
    auto const clean = [&](Slot<LibcuAtomics>&) { ++cleaned; };
    EXPECT_FALSE(release_reads(slot, 1, 4, clean));
    EXPECT_EQ(slot.sequence.load(relaxed), 6U);
    EXPECT_TRUE(release_reads(slot, 2, 4, clean));
    EXPECT_EQ(slot.sequence.load(relaxed), 10U);
    EXPECT_EQ(cleaned, 1);
}

struct Crowd {
    u32 ring;
    u32 capacity;
    u32 writers;
    u64 start;
};

class DeviceLaneCrowd : public ::testing::TestWithParam<Crowd> {};

// Many writers and one reader: each value arrives once, slots come in sequence.
TEST_P(DeviceLaneCrowd, EveryRowArrivesOnce) {
    Crowd const& p = GetParam();
    u64 const each = 3000;
    TestLane t(p.ring, p.capacity, p.start);
    std::vector<std::thread> writers;
    for (u32 w = 0; w < p.writers; ++w) {
        writers.emplace_back([&, w] {
            test::Random random(w);
            test::Yields yields(w + 100, 20);
            u64 sent = 0;
            u64 at = 0;
            u32 taken = 0;  // rows from `at` on that are still to be claimed
            for (u32 idle = 0; sent < each;) {
                u32 const want = u32(min_of<u64>(each - sent, 1 + random.below(2 * p.capacity)));
                if (taken == 0 && random.one_in(2)) {
                    taken = want;
                    at = t.lane.take(taken);
                }
                Claim const claim = taken != 0 ? t.claim_taken(at, taken) : t.claim(want);
                yields();
                for (u32 k = 0; k < claim.rows; ++k) {
                    t.rows[claim.slot][claim.row + k] = u64(w) << 32 | (sent + k);
                }
                if (claim.rows == 0) {
                    backoff(idle++);
                    continue;
                }
                idle = 0;
                t.commit(claim);
                sent += claim.rows;
                if (taken != 0) {
                    taken -= claim.rows;
                    at += claim.rows;
                }
                if (random.one_in(10)) t.seal();
            }
            t.seal();
        });
    }
    std::vector<std::vector<u64>> got(p.writers);
    u64 total = 0;
    u64 expected = p.start;
    std::size_t read = 0;
    for (u32 idle = 0; total < each * p.writers;) {
        TestLane::Delivered next{};
        {
            std::lock_guard const lock(t.mutex);
            if (read < t.delivered.size()) next = t.delivered[read];
        }
        if (next.rows == 0) {
            backoff(idle++);
            continue;
        }
        idle = 0;
        ++read;
        ASSERT_EQ(next.sequence, expected++);
        for (u32 r = 0; r < next.rows; ++r) {
            u64 const value = t.rows[next.slot][r];
            got[value >> 32].push_back(value & 0xffffffff);
        }
        total += next.rows;
        t.free(next.slot);
    }
    for (auto& writer : writers) writer.join();
    for (auto const& values : got) {
        ASSERT_EQ(values.size(), each);
        for (u64 i = 0; i < each; ++i)
            ASSERT_EQ(values[i], i) << "a writer's rows keep their order";
    }
    EXPECT_EQ(t.lane.sequences(), expected);
    EXPECT_EQ(t.lane.rows_published.load(relaxed), each * p.writers);
}

INSTANTIATE_TEST_SUITE_P(Rings, DeviceLaneCrowd,
                         ::testing::Values(Crowd{1, 1, 3, 0}, Crowd{1, 7, 4, 0}, Crowd{2, 5, 6, 0},
                                           Crowd{4, 16, 8, 0}, Crowd{2, 3, 4, (1ULL << 26) - 50},
                                           Crowd{8, 64, 3, (1ULL << 32) - 9}));

TEST(DeviceDelivery, OneThreadDeliversAndNothingIsLeftBehind) {
    // Every thread adds work and then lets whoever is at it do it: all of it must be done in the end.
    for (int round = 0; round < 50; ++round) {
        LibcuAtomics::Device<u32> delivering{0};
        LibcuAtomics::Device<u64> added{0};
        u64 done = 0;
        LibcuAtomics::Device<u64> done_seen{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; ++i) {
            threads.emplace_back([&] {
                for (int k = 0; k < 200; ++k) {
                    added.fetch_add(1, seq_cst);
                    deliver_alone(
                        delivering, [&] { return done_seen.load(relaxed) < added.load(seq_cst); },
                        [&] {
                            done = added.load(seq_cst);  // plain: a race if two were inside
                            done_seen.store(done, relaxed);
                        });
                }
            });
        }
        for (auto& thread : threads) thread.join();
        EXPECT_EQ(done, 800U);
    }
}

}  // namespace
}  // namespace mgi::device
