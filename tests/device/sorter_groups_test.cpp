// Stage buffers and sorters as they are on a GPU: no seats, no rows that a thread gathers, and sorter groups of
// several threads that share one set of columns.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/groups.hpp"
#include "support/tables.hpp"
#include "support/tiny_channel.hpp"

namespace mgi::device {
namespace {

using test::KeyValue;
using test::TinyChannel;
using test::TinyOptions;

struct MixedRow {
    i64 id;
    RowBytes name;
    bool even;
};

Schema mixed_schema() {
    return Schema{{"id", int64()}, {"name", string(), true}, {"even", boolean()}};
}

std::string name_of(i64 id) {
    return std::string(std::size_t(id % 29), char('a' + id % 26));  // up to 12 are inside a view
}

constexpr i64 kRows = 4000;
constexpr u32 kThreads = 2;  // of each group

TinyOptions channel_options(u32 text_bytes) {
    TinyOptions options;
    options.destinations = 2;
    options.max_groups = 2;
    options.text_bytes = text_bytes;
    options.slots = 4;
    return options;
}

TinyOptions stage_options(u32 text_bytes) {
    TinyOptions options = channel_options(text_bytes);
    options.segment_rows = options.tile_rows = options.chunk_rows = 64;
    options.routing = RoutingKind::Direct;
    return options;
}

/// What all receivers saw.
struct Seen {
    std::mutex mutex;
    std::vector<int> count = std::vector<int>(kRows);
    i64 wrong = 0;
};

void receive_all(Channel const& channel, Group const& group, Shared& shared, Seen& seen,
                 bool has_names) {
    for (u32 idle = 0;;) {
        ReceivedBatch batch;
        Status const status = channel.recv(group, shared, batch);
        if (status == Status::Pending) {
            backoff(idle++);
            continue;
        }
        if (status != Status::Ok) return;
        {
            std::lock_guard const lock(seen.mutex);
            for (u32 i = group.thread; i < batch.rows; i += group.threads) {
                i64 const id = batch.column<i64>(0)[i];
                ++seen.count[std::size_t(id)];
                if (!has_names) continue;
                Text const name = batch.text(1, i);
                bool const right = batch.valid(1, i) &&
                                   std::string(name.data, name.size) == name_of(id) &&
                                   batch.bit(2, i) == (id % 2 == 0);
                seen.wrong += right ? 0 : 1;
            }
        }
        channel.release(group, shared, batch);
        idle = 0;
    }
}

template <class RowOf>
void exchange(Schema const& schema, u32 text_bytes, RowOf const& row_of, bool has_names) {
    TinyChannel channel(schema, channel_options(text_bytes));
    TinyChannel stage(schema, stage_options(text_bytes));
    ChannelState<LibcuAtomics>* stages[] = {&stage.state()};
    channel.state().stages = stages;
    u32 const scratch = shared_bytes_of(channel.state()) + 1024;
    Seen seen;
    std::thread sorting([&] {
        test::run_groups(
            2, kThreads, scratch,
            [&](Group const& group, Shared& shared) {
                EXPECT_EQ(
                    Sorter<LibcuAtomics>()(group, shared, &channel.state(), 0, &stage.state()),
                    ErrorCode::Ok);
            },
            100);
    });
    std::thread receiving([&] {
        test::run_groups(
            2, kThreads, scratch,
            [&](Group const& group, Shared& shared) {
                Group alone = group;  // one group of each destination
                alone.block = 0;
                alone.blocks = 1;
                receive_all(channel.on(0, group.block), alone, shared, seen, has_names);
            },
            200);
    });
    test::run_groups(2, kThreads, scratch, [&](Group const& group, Shared& shared) {
        Channel const on = channel.on(0, 0);
        Group mine = group;
        mine.launch = 1 + group.block;
        i64 const step = group.blocks * group.threads;
        for (i64 id = i64(group.block * group.threads + group.thread); id < kRows;) {
            SendResult const result = on.send_row(mine, row_of(id));
            ASSERT_NE(result.status, Status::Error);
            if (result.rows == 0) std::this_thread::yield();
            id += i64(result.rows) * step;
        }
        EXPECT_EQ(on.flush_wait(mine, shared).status, Status::Ok);
    });
    sorting.join();
    receiving.join();
    for (i64 id = 0; id < kRows; ++id) ASSERT_EQ(seen.count[std::size_t(id)], 1) << id;
    EXPECT_EQ(seen.wrong, 0);
}

TEST(SorterGroups, OfTwoThreadsMoveFixedWidthColumns) {
    exchange(
        Schema{{"id", int64()}, {"other", int64()}}, 0, [](i64 id) { return KeyValue{id, 0}; },
        false);
}

TEST(SorterGroups, OfTwoThreadsMoveStringsAndBits) {
    std::vector<std::string> names;
    for (i64 id = 0; id < kRows; ++id) names.push_back(name_of(id));
    exchange(
        mixed_schema(), 4096,
        [&](i64 id) {
            std::string const& name = names[std::size_t(id)];
            return MixedRow{id, {name.data(), name.size()}, id % 2 == 0};
        },
        true);
}

}  // namespace
}  // namespace mgi::device
