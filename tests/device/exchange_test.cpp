// The paper's Figure 3 loop on tables built by hand: every routing, tiny pools, many threads.
#include <gtest/gtest.h>

#include <algorithm>
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
    // At the end of everything this group's rows have been taken, too. Who delivered the last of them may
    // still have to say so (`published` follows the push).
    for (u32 idle = 0; !flushed; backoff(idle++)) {
        Status const status = channel.flush(group, shared);
        ASSERT_NE(status, Status::Error);
        flushed = status == Status::Ok;
    }
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
    bool staged = false;  ///< tiles are brought to the scratch, as on a GPU
};

std::ostream& operator<<(std::ostream& out, ExchangeCase const& p) {
    return out << p.endpoints << " endpoints, " << p.groups << " groups of " << p.threads
               << ", segments of " << p.segment_rows << ", " << p.slots << " slots, tiles of "
               << p.tile_rows << (p.staged ? " in scratch" : "") << ", routing " << int(p.routing);
}

class DeviceExchange : public ::testing::TestWithParam<ExchangeCase> {};

TEST_P(DeviceExchange, EveryRowArrivesOnce) {
    ExchangeCase const& p = GetParam();
    for (u64 seed = 0; seed < 3; ++seed) {
        test::Random random(seed + p.segment_rows);
        Schema schema = test::random_schema(random, 5);
        // Rows with long strings stay where they are.
        auto const has_text = [](Schema const& of) {
            return std::any_of(of.fields().begin(), of.fields().end(),
                               [](Field const& field) { return field.type.is_variable(); });
        };
        while (p.staged && has_text(schema)) schema = test::random_schema(random, 5);
        SCOPED_TRACE(schema.to_string());
        TinyOptions options;
        options.staged = p.staged;
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

// A clerk and one worker or more, or one thread that is both; rows that find room late, or over two slots.
INSTANTIATE_TEST_SUITE_P(
    InScratch, DeviceExchange,
    ::testing::Values(ExchangeCase{2, 1, 1, 64, 2, 64, 0, RoutingKind::Partition, 0, true},
                      ExchangeCase{2, 2, 2, 1, 1, 7, 0, RoutingKind::Partition, 50, true},
                      ExchangeCase{3, 2, 2, 70, 2, 32, (1ULL << 26) - 3, RoutingKind::Partition, 30,
                                   true},
                      ExchangeCase{3, 2, 3, 5, 2, 64, 0, RoutingKind::Partition, 30, true},
                      ExchangeCase{2, 1, 5, 200, 4, 100, 0, RoutingKind::Partition, 20, true},
                      ExchangeCase{3, 1, 2, 66, 2, 64, 0, RoutingKind::Broadcast, 50, true}));

/// Takes the rows of all destinations of a channel that has one source, by one thread.
std::vector<std::string> receive_all(TinyChannel& tiny, Schema const& schema, u64 launch) {
    std::vector<std::string> got;
    Group group;
    group.launch = launch;
    test::Scratch scratch(tiny.on(Channel::kNone, 0).shared_bytes());
    Shared shared = scratch.shared();
    std::vector<bool> ended(tiny.options().destinations, false);
    for (u32 d = 0, left = u32(ended.size()), idle = 0; left != 0; d = (d + 1) % ended.size()) {
        if (ended[d]) continue;
        Channel const channel = tiny.on(Channel::kNone, d);
        ReceivedBatch batch;
        Status const status = channel.recv(group, shared, batch);
        if (status == Status::Ok) {
            for (u32 i = 0; i < batch.rows; ++i) {
                got.push_back(test::encode_row(batch, schema, i));
            }
            channel.release(group, shared, batch);
            idle = 0;
        } else if (status == Status::Pending) {
            if (d == 0) backoff(idle++);
        } else {
            EXPECT_EQ(status, Status::End);
            ended[d] = true;
            --left;
        }
    }
    return got;
}

// With so many lanes each thread of a group is a clerk and a worker; rows that find room late, or at once.
TEST(DevicePasses, ThreadsThatAreClerksAndWorkers) {
    Schema const schema{{"key", int64()}, {"value", int32(), true}, {"flag", boolean()}};
    for (u32 const threads : {2, 3}) {
        for (u32 const segment_rows : {2, 64}) {
            SCOPED_TRACE(std::to_string(threads) + " threads, segments of " +
                         std::to_string(segment_rows));
            test::Random random(threads * segment_rows);
            TinyOptions options;
            options.staged = true;
            options.destinations = 150;
            options.segment_rows = segment_rows;
            options.slots = 1;
            options.tile_rows = 200;
            TinyChannel tiny(schema, options);
            std::vector<test::DeviceBatch> batches;
            std::vector<std::string> all;
            for (u32 g = 0; g < 2; ++g) {
                auto const rows = test::random_rows(schema, 1500, random);
                for (auto const& row : rows) all.push_back(test::encode(row));
                batches.emplace_back(test::make_batch(schema, rows, random));
            }
            Received none;
            std::vector<std::string> got;
            std::thread receiving([&] { got = receive_all(tiny, schema, 10); });
            Channel const channel = tiny.on(0, Channel::kNone);
            test::run_groups(2, threads, channel.shared_bytes(),
                             [&](Group const& group, Shared& shared) {
                                 exchange(channel, group, shared, schema, &batches[group.block],
                                          none, test::Yields(group.block, 30));
                             });
            receiving.join();
            EXPECT_TRUE(test::same_rows(got, all));
        }
    }
}

// A shard without rows may have no columns at all.
TEST(DevicePasses, ABatchWithoutRowsNeedsNoColumns) {
    TinyOptions options;
    options.sources = 1;
    options.destinations = 3;
    options.staged = true;
    TinyChannel tiny(Schema{{"key", int64()}, {"value", int64()}}, options);
    Channel const channel = tiny.on(0, Channel::kNone);
    test::run_groups(1, 2, channel.shared_bytes(), [&](Group const& group, Shared& shared) {
        SendResult const sent = channel.send(group, shared, Batch{});
        EXPECT_EQ(sent.status, Status::Ok);
        EXPECT_EQ(sent.rows, 0U);
    });
}

}  // namespace
}  // namespace mgi::device
