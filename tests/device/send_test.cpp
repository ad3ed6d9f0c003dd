// Sending on tables built by hand: prefixes, the carry buffer, push, flush, refusals.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "support/one_group.hpp"

namespace mgi::device {
namespace {

using test::KeyValue;
using test::OneGroup;
using test::options_of;
using test::TinyChannel;
using test::TinyOptions;

TEST(DeviceSend, AcceptsAPrefixAndCarriesTheRestOfTheTile) {
    OneGroup t(test::numbered_schema(), options_of(4, 1, 8));
    auto const rows = test::numbered_rows(20, 5);
    SendResult const first = t.send(rows);
    EXPECT_EQ(first.status, Status::Pending);
    EXPECT_EQ(first.rows, 8U) << "4 in the segment, 4 in the carry buffer";
    EXPECT_EQ(t.send({rows.begin() + 8, rows.end()}).rows, 0U);
    ASSERT_EQ(t.recv(), Status::Ok);
    t.release();
    SendResult const second = t.send({rows.begin() + 8, rows.end()});
    EXPECT_EQ(second.rows, 8U) << "the carry first, then a whole tile into the carry";
    EXPECT_EQ(t.flush(), Status::Pending);
    std::vector<test::Row> expected(rows.begin(), rows.begin() + 16);
    for (Status status = Status::Pending; status != Status::End;) {
        t.flush();
        status = t.recv();
        if (status == Status::Ok) t.release();
        ASSERT_NE(status, Status::Error);
    }
    EXPECT_TRUE(test::same_rows(t.got, test::encode_all(expected)));
}

TEST(DeviceSend, NobodyReadsTheCallersRowsBehindTheCall) {
    TinyChannel tiny(test::numbered_schema(), options_of(64, 1, 64));
    std::vector<KeyValue> rows(256);
    test::run_groups(1, 3, 8192, [&](Group const& group, Shared& shared) {
        u64 const sent = tiny.on(0, 0).send_rows(group, shared, rows.data(), rows.size()).rows;
        if (!group.leads()) return;
        EXPECT_EQ(sent, 128U) << "a segment, and a tile that is carried";
        rows.assign(rows.size(), KeyValue{1, 1});
    });
}

// So that a group which offers all it has receives in between; a single thread has its own loop.
TEST(DeviceSend, ACallOfAGroupSendsFourTilesAtMost) {
    std::vector<KeyValue> const rows(64);
    for (u32 const threads : {1U, 3U}) {
        TinyChannel tiny(test::numbered_schema(), options_of(16, 8, 8));
        test::run_groups(1, threads, 8192, [&](Group const& group, Shared& shared) {
            auto const sent = tiny.on(0, 0).send_rows(group, shared, rows.data(), rows.size());
            if (!group.leads()) return;
            EXPECT_EQ(sent.rows, threads == 1 ? 64U : 32U);
            EXPECT_EQ(sent.status, threads == 1 ? Status::Ok : Status::Pending);
        });
    }
}

// So that a block which receives as well makes room before its next rows fill the lane again.
TEST(DeviceSend, ACallOfAGroupThatPlacesCarriedRowsTakesNoOthers) {
    std::vector<KeyValue> const rows(64);
    for (u32 const threads : {1U, 3U}) {
        TinyChannel tiny(test::numbered_schema(), options_of(4, 1, 8));
        test::run_groups(1, threads, 8192, [&](Group const& group, Shared& shared) {
            Channel const channel = tiny.on(0, 0);
            auto const send = [&] {
                return channel.send_rows(group, shared, rows.data(), rows.size()).rows;
            };
            auto const receive = [&] {
                ReceivedBatch batch;
                while (channel.recv(group, shared, batch) != Status::Ok) group.sync();
                channel.release(group, shared, batch);
            };
            EXPECT_EQ(send(), 8U) << "a segment, and as many that are carried";
            receive();
            EXPECT_EQ(send(), threads == 1 ? 8U : 0U);
            receive();
            if (threads > 1) {
                EXPECT_EQ(send(), 8U);
            }
        });
    }
}

TEST(DeviceSend, StarvedGroupPublishesHalfFullSegments) {
    // Two lanes: one is full and not consumed, the other holds one row. Sends that accept nothing
    // must let that row go.
    TinyOptions options = options_of(4, 1, 8);
    options.destinations = 2;
    options.hash = HashKind::Modulo;
    OneGroup t(test::numbered_schema(), options);
    std::vector<test::Row> rows{{test::cell(i64{1}), test::cell(i64{100})}};
    for (i64 i = 0; i < 7; ++i) rows.push_back({test::cell(i64{0}), test::cell(i)});
    EXPECT_EQ(t.send(rows).rows, 8U);
    ReceivedBatch batch;
    EXPECT_EQ(t.tiny.on(0, 1).recv(t.group, t.shared(), batch), Status::Pending);
    int sends = 0;
    while (t.tiny.on(0, 1).recv(t.group, t.shared(), batch) == Status::Pending) {
        ASSERT_EQ(t.send(rows).rows, 0U);
        ASSERT_LT(++sends, 100);
    }
    EXPECT_EQ(batch.rows, 1U);
}

TEST(DeviceSend, PendingFlushPublishesHalfFullSegments) {
    // This group has flushed, the other group of the source never does: the rows must come anyway.
    OneGroup t(test::numbered_schema(), options_of(8, 2, 8), 2);
    EXPECT_EQ(t.send(test::numbered_rows(3, 3)).rows, 3U);
    int calls = 0;
    while (t.flush() == Status::Pending) ASSERT_LT(++calls, 100);
    EXPECT_EQ(t.recv(), Status::Ok);
    EXPECT_EQ(t.got.size(), 3U);
    t.release();
    EXPECT_EQ(t.recv(), Status::Pending) << "the other group may still send";
}

TEST(DeviceSend, PushPublishesAtOnce) {
    OneGroup t(test::numbered_schema(), options_of(8, 2, 8));
    EXPECT_EQ(t.push(), Status::Ok);
    EXPECT_EQ(t.recv(), Status::Pending) << "nothing to push gives no empty segment";
    t.send(test::numbered_rows(3, 3));
    EXPECT_EQ(t.recv(), Status::Pending);
    EXPECT_EQ(t.push(), Status::Ok);
    EXPECT_EQ(t.recv(), Status::Ok);
    EXPECT_EQ(t.got.size(), 3U);
    t.release();
}

// A broadcast with a reader in place and a destination that a mover serves, which is this test.
TEST(DeviceSend, ReadersInPlaceAndAMoverGiveBackOneSegment) {
    TinyOptions options = options_of(4, 1, 4);
    options.destinations = 2;
    options.routing = RoutingKind::Broadcast;
    options.by_reference = false;
    options.near = 1;
    OneGroup t(test::numbered_schema(), options);
    auto& lane = t.tiny.state().sources[0].lanes[0];
    EXPECT_EQ(t.send(test::numbered_rows(4, 3)).rows, 4U);
    EXPECT_EQ(lane.published.load(relaxed), 1U) << "the mover sees it";
    ASSERT_EQ(t.recv(0), Status::Ok);
    EXPECT_EQ(t.recv(1), Status::Pending) << "nobody has brought it there";
    ASSERT_EQ(t.recv(0), Status::Pending);
    auto const move = [&] { return release_reads(lane.slots[0], 1, 1, [](auto&) {}); };
    t.release(0);
    EXPECT_EQ(lane.slots[0].sequence.load(relaxed), 0U) << "the mover still owes its read";
    EXPECT_EQ(t.flush(), Status::Pending);
    EXPECT_EQ(t.recv(0), Status::End) << "the source has said its count to who reads in place";
    EXPECT_EQ(t.recv(1), Status::Pending);
    EXPECT_TRUE(move());
    EXPECT_EQ(lane.slots[0].sequence.load(relaxed), 1U);
    EXPECT_EQ(t.flush(), Status::Pending) << "it stands in no other queue yet, as far as is known";
    lane.delivered.store(1, relaxed);
    EXPECT_EQ(t.flush(), Status::Ok);
}

TEST(DeviceSend, EmptyFlushGivesTheEnd) {
    OneGroup t(test::numbered_schema(), options_of(8, 2, 8));
    EXPECT_EQ(t.send({}).status, Status::Ok);
    EXPECT_EQ(t.recv(), Status::Pending);
    EXPECT_EQ(t.flush(), Status::Ok);
    EXPECT_EQ(t.recv(), Status::End);
    EXPECT_EQ(t.recv(), Status::End);
    EXPECT_EQ(t.flush(), Status::Ok);
}

TEST(DeviceSend, AfterFlushIsClosed) {
    OneGroup t(test::numbered_schema(), options_of(8, 2, 8));
    EXPECT_EQ(t.flush(), Status::Ok);
    SendResult const result = t.send(test::numbered_rows(1, 1));
    EXPECT_EQ(result.rows, 0U);
    EXPECT_EQ(result.status, Status::Error);
    EXPECT_EQ(result.code, ErrorCode::Closed);
}

TEST(DeviceSend, LateGroupsAreRefused) {
    OneGroup t(test::numbered_schema(), options_of(8, 2, 8));
    t.send(test::numbered_rows(1, 1));
    Group other = t.group;
    other.blocks = 3;
    other.block = 2;
    test::DeviceBatch batch(test::make_batch(t.schema, test::numbered_rows(1, 1)));
    SendResult result = t.tiny.on(0, 0).send(other, t.shared(), batch.slice(0, 1));
    EXPECT_EQ(result.code, ErrorCode::Closed);
    other = t.group;
    other.launch = 77;
    result = t.tiny.on(0, 0).send(other, t.shared(), batch.slice(0, 1));
    EXPECT_EQ(result.code, ErrorCode::Closed) << "this group's place is another launch's";
    other.launch = std::uint64_t{1} << 32;
    result = t.tiny.on(0, 0).send(other, t.shared(), batch.slice(0, 1));
    EXPECT_EQ(result.code, ErrorCode::Closed) << "the low half of a number is not the number";
}

TEST(DeviceSend, MoreGroupsThanTheChannelTakes) {
    TinyOptions options = options_of(8, 2, 8);
    options.max_groups = 2;
    OneGroup t(test::numbered_schema(), options, 3);
    t.group.block = 2;
    EXPECT_EQ(t.send(test::numbered_rows(1, 1)).code, ErrorCode::InvalidArgument);
    EXPECT_EQ(t.push().code, ErrorCode::InvalidArgument);
    EXPECT_EQ(t.flush().code, ErrorCode::InvalidArgument);
    EXPECT_EQ(t.recv().code, ErrorCode::InvalidArgument);
}

TEST(DeviceSend, ScratchTooSmallIsAnError) {
    OneGroup t(test::numbered_schema(), options_of(8, 2, 8));
    test::DeviceBatch batch(test::make_batch(t.schema, test::numbered_rows(1, 1)));
    Shared small = t.shared();
    small.bytes = 16;
    Group two = t.group;
    two.blocks = 2;
    SendResult const result = t.tiny.on(0, 0).send(two, small, batch.slice(0, 1));
    EXPECT_EQ(result.code, ErrorCode::InvalidArgument);
    EXPECT_EQ(t.send(test::numbered_rows(1, 1)).rows, 1U) << "the source waits for no second group";
}

TEST(DeviceSend, RowThatCanNeverFitIsRefusedAfterTheOnesBefore) {
    TinyOptions options = options_of(8, 2, 8);
    options.text_bytes = 64;
    OneGroup t({{"s", string(), false}}, options);
    SendResult const result = t.send(
        {{std::string(64, 'a')}, {std::string("b")}, {std::string(65, 'c')}, {std::string("d")}});
    EXPECT_EQ(result.rows, 2U);
    EXPECT_EQ(result.status, Status::Error);
    EXPECT_EQ(result.code, ErrorCode::Refused);
    EXPECT_EQ(t.send({{std::string("d")}}).rows, 1U) << "the channel is as usable as before";
    EXPECT_EQ(t.push(), Status::Ok);
    EXPECT_EQ(t.recv(), Status::Ok);
    t.release();
    EXPECT_EQ(t.got.size(), 3U);
}

TEST(DeviceSend, CarryTextOfManyLanes) {
    // Texts just too long for a view, a lane for each row: the carry rounds up once for each lane.
    TinyOptions options = options_of(1, 1, 32);
    options.destinations = 16;
    options.text_bytes = 32 * 13;
    OneGroup t({{"k", int64(), false}, {"s", string(), false}}, options);
    std::vector<test::Row> rows;
    for (i64 i = 0; i < 32; ++i)
        rows.push_back({test::cell(i), std::string(13, char('a' + i % 26))});
    EXPECT_EQ(t.send(rows).rows, 32U);
    bool flushed = false;
    for (int ends = 0; ends < 16;) {
        if (!flushed) flushed = t.flush() == Status::Ok;
        ends = 0;
        for (u32 d = 0; d < 16; ++d) {
            Status const status = t.recv(d);
            ASSERT_NE(status, Status::Error);
            if (status == Status::Ok) t.release(d);
            if (status == Status::End) ++ends;
        }
    }
    EXPECT_TRUE(test::same_rows(t.got, test::encode_all(rows)));
}

TEST(DeviceSend, DirectNamesItsDestination) {
    TinyOptions options = options_of(8, 2, 8);
    options.destinations = 3;
    options.routing = RoutingKind::Direct;
    OneGroup t(test::numbered_schema(), options);
    test::DeviceBatch batch(test::make_batch(t.schema, test::numbered_rows(5, 5)));
    Channel const channel = t.tiny.on(0, 0);
    EXPECT_EQ(channel.send_to(t.group, t.shared(), 102, batch.slice(0, 5)).rows, 5U);
    EXPECT_EQ(channel.send_to(t.group, t.shared(), 2, batch.slice(0, 5)).code,
              ErrorCode::InvalidArgument)
        << "2 is no endpoint of this channel";
    EXPECT_EQ(channel.send(t.group, t.shared(), batch.slice(0, 5)).code,
              ErrorCode::InvalidArgument);
    EXPECT_EQ(t.push(), Status::Ok);
    EXPECT_EQ(t.recv(0), Status::Pending);
    EXPECT_EQ(t.recv(1), Status::Pending);
    EXPECT_EQ(t.recv(2), Status::Ok);
    EXPECT_EQ(t.got.size(), 5U);
    t.release(2);
}

/// A channel that deals rows out by their keys, and rows whose keys are 0, 1 ...
struct ByKey : OneGroup {
    ByKey(TinyOptions options, u32 destinations, bool staged, i64 count)
        : OneGroup({{"k", int64(), false}, {"v", int64(), false}},
                   with(options, destinations, staged)) {
        for (i64 i = 0; i < count; ++i) rows.push_back({test::cell(i), test::cell(i)});
    }
    static TinyOptions with(TinyOptions options, u32 destinations, bool staged) {
        options.destinations = destinations;
        options.routing = RoutingKind::Partition;
        options.staged = staged;
        return options;
    }
    std::vector<test::Row> rows;
};

TEST(DeviceSend, PartitionTakesANamedDestinationBetweenKeys) {
    for (bool const staged : {false, true}) {
        ByKey t(options_of(64, 2, 8), 3, staged, 32);
        test::DeviceBatch batch(test::make_batch(t.schema, t.rows));
        Channel const channel = t.tiny.on(0, 0);
        EXPECT_EQ(channel.send(t.group, t.shared(), batch.slice(0, 32)).rows, 32U);
        EXPECT_EQ(channel.send_to(t.group, t.shared(), 101, batch.slice(0, 32)).rows, 32U);
        EXPECT_EQ(channel.send(t.group, t.shared(), batch.slice(0, 32)).rows, 32U);
        EXPECT_EQ(channel.send_to(t.group, t.shared(), 7, batch.slice(0, 5)).code,
                  ErrorCode::InvalidArgument);
        EXPECT_EQ(t.push(), Status::Ok);
        std::size_t arrived[3];
        for (u32 d = 0; d < 3; ++d) {
            t.got.clear();
            while (t.recv(d) == Status::Ok) t.release(d);
            arrived[d] = t.got.size();
        }
        EXPECT_EQ(arrived[0] + arrived[1] + arrived[2], 96U);
        EXPECT_GE(arrived[1], 32U);
        EXPECT_EQ(arrived[0] % 2 + arrived[2] % 2 + arrived[1] % 2, 0U) << "twice the same keys";
        EXPECT_LT(arrived[1], 96U);
    }
}

TEST(DeviceSend, CarriedRowsGoBeforeThoseOfTheOtherKind) {
    for (bool const staged : {false, true}) {
        for (bool const named : {false, true}) {
            ByKey t(options_of(4, 1, 8), 2, staged, 16);
            test::DeviceBatch batch(test::make_batch(t.schema, t.rows));
            Channel const channel = t.tiny.on(0, 0);
            auto const send = [&](bool by_name, u64 first) {
                Batch const left = batch.slice(first, 16 - first);
                return by_name ? channel.send_to(t.group, t.shared(), 100, left)
                               : channel.send(t.group, t.shared(), left);
            };
            auto const receive = [&] {
                for (u32 d = 0; d < 2; ++d) {
                    if (t.recv(d) == Status::Ok) t.release(d);
                }
            };
            SendResult const first = send(named, 0);
            EXPECT_EQ(first.status, Status::Pending);
            EXPECT_GE(first.rows, 8U) << "a tile, of which one segment has no room for all";
            EXPECT_LT(first.rows, 16U);
            SendResult const other = send(!named, first.rows);
            EXPECT_EQ(other.status, Status::Pending);
            EXPECT_EQ(other.rows, 0U) << "rows that are carried go first";
            u64 sent = first.rows;
            for (int calls = 0; calls < 100 && sent < 16; ++calls) {
                receive();
                sent += send(!named, sent).rows;
            }
            EXPECT_EQ(sent, 16U);
            for (int calls = 0; calls < 100 && t.got.size() < 16; ++calls) {
                (void)t.push();
                receive();
            }
            EXPECT_TRUE(test::same_rows(t.got, test::encode_all(t.rows)));
        }
    }
}

TEST(DeviceSend, RowsForAnyHaveNoNamedDestination) {
    TinyOptions options = options_of(8, 2, 8);
    options.destinations = 3;
    options.routing = RoutingKind::Balance;
    OneGroup t(test::numbered_schema(), options);
    test::DeviceBatch batch(test::make_batch(t.schema, test::numbered_rows(5, 5)));
    EXPECT_EQ(t.tiny.on(0, 0).send_to(t.group, t.shared(), 102, batch.slice(0, 5)).code,
              ErrorCode::InvalidArgument);
}

// A channel that fails between two threads' looks must not part the threads of a group. Here it fails
// and recovers all the time, which makes the threads see different things as often as can be.
TEST(DeviceSend, FailureInTheMiddleLeavesGroupsTogether) {
    constexpr u32 kThreads = 3;
    constexpr int kCalls = 60;
    TinyOptions options = options_of(1 << 15, 2, 4);
    TinyChannel tiny(test::numbered_schema(), options);
    Channel const channel = tiny.on(0, 0);
    test::DeviceBatch const batch(
        test::make_batch(test::numbered_schema(), test::numbered_rows(100, 9)));
    std::atomic<bool> stop{false};
    std::thread flicker([&] {
        for (u32 code = 0; !stop.load(); code ^= u32(ErrorCode::Stalled)) {
            tiny.state().failed.store(code, relaxed);
        }
    });
    std::vector<std::vector<u64>> seen(kThreads);
    test::run_groups(1, kThreads, channel.shared_bytes(), [&](Group const& group, Shared& shared) {
        test::DeviceBatch mine = batch;
        for (int call = 0; call < kCalls; ++call) {
            SendResult const result = channel.send(group, shared, mine.slice(0, 100));
            seen[group.thread].push_back(result.rows << 8 | u64(result.status));
        }
    });
    stop = true;
    flicker.join();
    EXPECT_EQ(seen[0].size(), std::size_t{kCalls});
    for (u32 t = 1; t < kThreads; ++t) EXPECT_EQ(seen[t], seen[0]) << "thread " << t;
}

}  // namespace
}  // namespace mgi::device
