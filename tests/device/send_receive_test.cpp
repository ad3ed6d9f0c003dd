// The device calls on tables built by hand: send, carry, push, flush, receive, end.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/groups.hpp"
#include "support/tables.hpp"
#include "support/tiny_channel.hpp"

namespace mgi::device {
namespace {

using test::TinyChannel;
using test::TinyOptions;

struct Received {
    std::mutex mutex;
    std::map<u32, std::vector<std::string>> rows;  ///< by destination
};

/// The paper's Figure 3 loop of one group.
void exchange(Channel const& channel, Group const& group, Shared& shared, Schema const& schema,
              test::DeviceBatch* mine, Received& out, test::Yields yields) {
    u64 sent = 0;
    bool flushed = mine == nullptr;
    std::vector<std::string> got;
    for (u32 idle = 0;;) {
        yields();
        if (!flushed && sent < mine->rows()) {
            // Every thread slices into columns of its own: slices are not shared.
            test::DeviceBatch copy = *mine;
            sent += channel.send(group, shared, copy.slice(sent, mine->rows() - sent)).rows;
        } else if (!flushed) {
            flushed = channel.flush(group, shared) == Status::Ok;
        }
        if (!channel.is_destination()) {
            if (flushed) break;
            backoff(idle++);
            continue;
        }
        ReceivedBatch batch;
        Status const status = channel.recv(group, shared, batch);
        if (status == Status::Ok) {
            yields();
            for (u32 i = group.thread; i < batch.rows; i += group.threads) {
                got.push_back(test::encode_row(batch, schema, i));
            }
            channel.release(group, shared, batch);
            idle = 0;
        } else if (status == Status::Pending) {
            backoff(idle++);
        } else {
            EXPECT_EQ(status, Status::End);
            break;
        }
    }
    // At the end of everything this group's rows have been delivered, too.
    if (!flushed) flushed = channel.flush(group, shared) == Status::Ok;
    EXPECT_TRUE(flushed);
    std::lock_guard const lock(out.mutex);
    auto& rows = out.rows[channel.destination()];
    rows.insert(rows.end(), got.begin(), got.end());
}

struct ExchangeCase {
    u32 endpoints;
    u32 groups;
    u32 threads;
    u32 segment_rows;
    u32 slots;
    u32 tile_rows;
    u64 start = 0;
    RoutingKind routing = RoutingKind::Partition;
    u32 yields = 0;
};

std::ostream& operator<<(std::ostream& out, ExchangeCase const& p) {
    return out << p.endpoints << " endpoints, " << p.groups << " groups of " << p.threads
               << ", segments of " << p.segment_rows << ", " << p.slots << " slots, tiles of "
               << p.tile_rows << ", routing " << int(p.routing);
}

class DeviceExchange : public ::testing::TestWithParam<ExchangeCase> {};

TEST_P(DeviceExchange, EveryRowArrivesOnce) {
    ExchangeCase const& p = GetParam();
    for (u64 seed = 0; seed < 3; ++seed) {
        test::Random random(seed + p.segment_rows);
        Schema const schema = test::random_schema(random, 5);
        SCOPED_TRACE(schema.to_string());
        TinyOptions options;
        options.sources = options.destinations = p.endpoints;
        options.segment_rows = p.segment_rows;
        options.slots = p.slots;
        options.tile_rows = p.tile_rows;
        options.text_bytes = 512;
        options.start = p.start;
        options.routing = p.routing;
        TinyChannel tiny(schema, options);
        std::vector<test::DeviceBatch> batches;
        std::vector<std::string> all;
        for (u32 i = 0; i < p.endpoints * p.groups; ++i) {
            auto const rows = test::random_rows(schema, random.below(300), random);
            for (auto const& row : rows) all.push_back(test::encode(row));
            batches.emplace_back(test::make_batch(schema, rows, random));
        }
        Received out;
        std::vector<std::thread> endpoints;
        for (u32 e = 0; e < p.endpoints; ++e) {
            endpoints.emplace_back([&, e] {
                Channel const channel = tiny.on(e, e);
                test::run_groups(p.groups, p.threads, channel.shared_bytes(),
                                 [&](Group const& group, Shared& shared) {
                                     test::Yields yields(seed * 97 + e * 8 + group.block, p.yields);
                                     exchange(channel, group, shared, schema,
                                              &batches[e * p.groups + group.block], out, yields);
                                 });
            });
        }
        for (auto& endpoint : endpoints) endpoint.join();
        std::vector<std::string> got;
        for (auto const& [destination, rows] : out.rows) {
            got.insert(got.end(), rows.begin(), rows.end());
            if (p.routing != RoutingKind::Broadcast) continue;
            EXPECT_TRUE(test::same_rows(rows, all)) << "at destination " << destination;
        }
        if (p.routing != RoutingKind::Broadcast) {
            EXPECT_TRUE(test::same_rows(got, all));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, DeviceExchange,
    ::testing::Values(
        ExchangeCase{1, 1, 1, 64, 2, 64}, ExchangeCase{1, 1, 2, 64, 2, 64},
        ExchangeCase{2, 2, 1, 1, 1, 1},
        ExchangeCase{2, 2, 2, 1, 1, 7, 0, RoutingKind::Partition, 50},
        ExchangeCase{3, 4, 1, 5, 1, 64, 0, RoutingKind::Partition, 50},
        ExchangeCase{3, 2, 2, 70, 2, 32, (1ULL << 26) - 3, RoutingKind::Partition, 30},
        ExchangeCase{2, 3, 1, 200, 4, 300, 0, RoutingKind::Partition, 50},
        ExchangeCase{2, 2, 1, 3, 1, 16, 0, RoutingKind::Broadcast, 50},
        ExchangeCase{3, 1, 2, 66, 2, 64, 0, RoutingKind::Broadcast, 50},
        ExchangeCase{3, 2, 1, 4, 2, 16, 0, RoutingKind::Balance, 50},
        ExchangeCase{1, 8, 1, 2, 1, 64, (1ULL << 26) - 3, RoutingKind::Partition, 100}));

/// A channel with one group on each side, driven step by step from this thread.
struct OneGroup {
    OneGroup(Schema columns, TinyOptions const& options, u32 blocks = 1)
        : schema(std::move(columns)), tiny(schema, options), scratch(tiny.on(0, 0).shared_bytes()) {
        group.blocks = blocks;
    }
    SendResult send(std::vector<test::Row> const& rows) {
        test::DeviceBatch offered(test::make_batch(schema, rows));
        return tiny.on(0, 0).send(group, shared(), offered.slice(0, rows.size()));
    }
    Status flush() { return tiny.on(0, 0).flush(group, shared()); }
    Status push() { return tiny.on(0, 0).push(group, shared()); }
    /// Receives once and keeps the batch.
    Status recv(u32 destination = 0) {
        Status const status = tiny.on(0, destination).recv(group, shared(), batch);
        for (u32 i = 0; status == Status::Ok && i < batch.rows; ++i) {
            got.push_back(test::encode_row(batch, schema, i));
        }
        return status;
    }
    void release(u32 destination = 0) { tiny.on(0, destination).release(group, shared(), batch); }
    Shared& shared() { return scratch_view = scratch.shared(); }

    Schema schema;
    TinyChannel tiny;
    test::Scratch scratch;
    Shared scratch_view;
    Group group;
    ReceivedBatch batch;
    std::vector<std::string> got;
};

TinyOptions options_of(u32 segment_rows, u32 slots, u32 tile_rows) {
    TinyOptions options;
    options.segment_rows = segment_rows;
    options.slots = slots;
    options.tile_rows = tile_rows;
    return options;
}

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
}

TEST(DeviceSend, MoreGroupsThanTheChannelTakes) {
    TinyOptions options = options_of(8, 2, 8);
    options.max_groups = 2;
    OneGroup t(test::numbered_schema(), options, 3);
    t.group.block = 2;
    EXPECT_EQ(t.send(test::numbered_rows(1, 1)).code, ErrorCode::InvalidArgument);
    EXPECT_EQ(t.recv(), Status::Error);
}

TEST(DeviceSend, ScratchTooSmallIsAnError) {
    OneGroup t(test::numbered_schema(), options_of(8, 2, 8));
    test::DeviceBatch batch(test::make_batch(t.schema, test::numbered_rows(1, 1)));
    Shared small = t.shared();
    small.bytes = 16;
    SendResult const result = t.tiny.on(0, 0).send(t.group, small, batch.slice(0, 1));
    EXPECT_EQ(result.code, ErrorCode::InvalidArgument);
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

TEST(DeviceReceive, NeitherSourceNorDestination) {
    OneGroup t(test::numbered_schema(), options_of(8, 2, 8));
    Channel const nothing = t.tiny.on(Channel::kNone, Channel::kNone);
    ReceivedBatch batch;
    EXPECT_EQ(nothing.recv(t.group, t.shared(), batch), Status::Error);
    EXPECT_EQ(nothing.push(t.group, t.shared()), Status::Error);
    EXPECT_EQ(nothing.flush(t.group, t.shared()), Status::Error);
    test::DeviceBatch rows(test::make_batch(t.schema, test::numbered_rows(1, 1)));
    EXPECT_EQ(nothing.send(t.group, t.shared(), rows.slice(0, 1)).code, ErrorCode::InvalidArgument);
}

TEST(DeviceReceive, ChunksOfOneSegmentFreeItTogether) {
    TinyOptions options = options_of(200, 1, 200);
    OneGroup t(test::numbered_schema(), options);
    t.send(test::numbered_rows(200, 10));
    std::vector<ReceivedBatch> held;
    for (u32 i = 0; i < 4; ++i) {
        ASSERT_EQ(t.recv(), Status::Ok);
        EXPECT_EQ(t.batch.row, 64 * i);
        EXPECT_EQ(t.batch.rows, i == 3 ? 8U : 64U);
        EXPECT_FALSE(t.batch.whole);
        held.push_back(t.batch);
    }
    EXPECT_EQ(t.recv(), Status::Pending);
    for (u32 i : {2U, 0U, 3U}) {
        t.tiny.on(0, 0).release(t.group, t.shared(), held[i]);
        EXPECT_EQ(t.tiny.state().sources[0].lanes[0].slots[0].sequence.load(relaxed), 0U);
    }
    t.tiny.on(0, 0).release(t.group, t.shared(), held[1]);
    EXPECT_EQ(t.tiny.state().sources[0].lanes[0].slots[0].sequence.load(relaxed), 1U);
}

TEST(DeviceReceive, FreedBitsAreZeroAgain) {
    OneGroup t({{"b", boolean(), true}}, options_of(100, 1, 100));
    for (int lap = 0; lap < 3; ++lap) {
        std::vector<test::Row> rows;
        for (int i = 0; i < 100; ++i) {
            bool const flag = i % 3 == lap;
            rows.push_back({i % 7 == lap ? test::Cell() : test::cell(u8(flag))});
        }
        t.got.clear();
        ASSERT_EQ(t.send(rows).rows, 100U);
        while (t.recv() == Status::Ok) t.release();
        EXPECT_TRUE(test::same_rows(t.got, test::encode_all(rows)));
    }
}

TEST(DeviceReceive, IntoColumnsOfTheCaller) {
    TinyOptions options = options_of(100, 2, 100);
    TinyChannel tiny(test::numbered_schema(), options);
    Channel const channel = tiny.on(0, 0);
    test::DeviceBatch const batch(
        test::make_batch(test::numbered_schema(), test::numbered_rows(90, 9)));
    std::vector<i64> keys(channel.recv_into_rows());
    std::vector<i64> values(channel.recv_into_rows());
    test::run_groups(1, 2, channel.shared_bytes(), [&](Group const& group, Shared& shared) {
        test::DeviceBatch mine = batch;
        ASSERT_EQ(channel.send(group, shared, mine.slice(0, 90)).rows, 90U);
        ASSERT_EQ(channel.flush(group, shared), Status::Ok);
        void* const columns[]{keys.data(), values.data()};
        u64 next = 0;
        for (;;) {
            u64 rows = 0;
            Status const status = channel.recv_into(group, shared, columns, rows);
            if (status != Status::Ok) {
                EXPECT_EQ(status, Status::End);
                break;
            }
            group.sync();
            for (u64 i = 0; i < rows; ++i) {
                ASSERT_EQ(values[i], i64(next + i));
                ASSERT_EQ(keys[i], i64(next + i) % 9);
            }
            next += rows;
            group.sync();
        }
        EXPECT_EQ(next, 90U);
    });
}

TEST(DeviceReceive, SecondConsumerOfAnOrderedChannelIsRefused) {
    TinyOptions options = options_of(8, 2, 8);
    options.ordered = true;
    OneGroup t(test::numbered_schema(), options);
    EXPECT_EQ(t.recv(), Status::Pending);
    t.group.launch = 1;
    EXPECT_EQ(t.recv(), Status::Error);
    t.group.launch = 0;
    EXPECT_EQ(t.recv(), Status::Pending);
}

TEST(DeviceReceive, FailedChannelFailsEveryCall) {
    OneGroup t(test::numbered_schema(), options_of(8, 2, 8));
    t.send(test::numbered_rows(3, 3));
    t.tiny.state().failed.store(u32(ErrorCode::Deleted), relaxed);
    EXPECT_EQ(t.send(test::numbered_rows(3, 3)).code, ErrorCode::Deleted);
    EXPECT_EQ(t.push(), Status::Error);
    EXPECT_EQ(t.flush(), Status::Error);
    EXPECT_EQ(t.tiny.on(0, 0).flush_wait(t.group, t.shared()), Status::Error);
    EXPECT_EQ(t.recv(), Status::Error);
    EXPECT_EQ(t.tiny.on(0, 0).error(), ErrorCode::Deleted);
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
