// Sends to one destination of a broadcast: whole segments with an address, between those for all.
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "support/one_group.hpp"

namespace mgi::device {
namespace {

using test::OneGroup;
using test::options_of;
using test::TinyOptions;

/// A broadcast to three destinations, and rows to send.
struct ToAll : OneGroup {
    explicit ToAll(TinyOptions options, Schema columns = test::numbered_schema())
        : OneGroup(std::move(columns), with(std::move(options))) {}
    static TinyOptions with(TinyOptions options) {
        options.destinations = 3;
        options.routing = RoutingKind::Broadcast;
        return options;
    }
    /// To all (destination 3), or to one.
    SendResult send(std::vector<test::Row> const& rows, u32 to) {
        test::DeviceBatch offered(test::make_batch(schema, rows));
        Batch const all = offered.slice(0, rows.size());
        if (to == 3) return tiny.on(0, 0).send(group, shared(), all);
        return tiny.on(0, 0).send_to(group, shared(), 100 + to, all);
    }
    /// What there is for a destination now.
    std::vector<std::string> receive(u32 destination) {
        got.clear();
        while (recv(destination) == Status::Ok) release(destination);
        return got;
    }
    [[nodiscard]] u64 received(u32 destination) {
        return tiny.state().destinations[destination].words->rows_received.load(relaxed);
    }
    [[nodiscard]] Lane<>& lane() { return tiny.state().sources[0].lanes[0]; }
};

std::vector<test::Row> slice(std::vector<test::Row> const& rows, std::size_t first,
                             std::size_t last) {
    return {rows.begin() + std::ptrdiff_t(first), rows.begin() + std::ptrdiff_t(last)};
}

std::vector<std::string> both(std::vector<test::Row> const& first,
                              std::vector<test::Row> const& second) {
    std::vector<std::string> all = test::encode_all(first);
    for (std::string& row : test::encode_all(second)) all.push_back(std::move(row));
    return all;
}

TEST(DeviceAddressed, RowsArriveThereAloneAndInSequence) {
    for (bool const inbox : {false, true}) {
        TinyOptions options = options_of(130, 4, 16);
        options.inbox = inbox;
        ToAll t(options);
        auto const rows = test::numbered_rows(20, 5);
        EXPECT_EQ(t.send(slice(rows, 0, 5), 3).rows, 5U);
        EXPECT_EQ(t.send(slice(rows, 5, 12), 1).rows, 7U);
        EXPECT_EQ(t.send(slice(rows, 12, 20), 3).rows, 8U);
        EXPECT_EQ(t.lane().published.load(relaxed), 2U) << "what was open is closed";
        EXPECT_EQ(t.push(), Status::Ok);
        EXPECT_EQ(t.receive(0), both(slice(rows, 0, 5), slice(rows, 12, 20)));
        EXPECT_EQ(t.receive(1), test::encode_all(rows));
        EXPECT_EQ(t.receive(2), both(slice(rows, 0, 5), slice(rows, 12, 20)));
        EXPECT_EQ(t.received(0), 13U);
        EXPECT_EQ(t.received(1), 20U);
        EXPECT_EQ(t.lane().rows_published.load(relaxed), 20U);
        EXPECT_EQ(t.flush(), Status::Ok);
        for (u32 d = 0; d < 3; ++d) EXPECT_EQ(t.recv(d), Status::End);
    }
}

TEST(DeviceAddressed, ACallFillsSegments) {
    ToAll t(options_of(130, 8, 16));
    auto const rows = test::numbered_rows(300, 5);
    EXPECT_EQ(t.send(rows, 2).rows, 300U);
    EXPECT_EQ(t.lane().published.load(relaxed), 3U) << "of 130, 130 and 40 rows";
    EXPECT_EQ(t.receive(2), test::encode_all(rows));
    EXPECT_EQ(t.receive(0), std::vector<std::string>());
}

TEST(DeviceAddressed, WhatFindsNoSegmentIsNotAccepted) {
    for (u32 const slots : {1U, 2U}) {
        ToAll t(options_of(4, slots, 8));
        auto const rows = test::numbered_rows(40, 5);
        SendResult const first = t.send(rows, 3);
        EXPECT_EQ(first.status, Status::Pending);
        EXPECT_EQ(t.send(slice(rows, first.rows, 40), 0).rows, 0U);
        std::vector<std::string> seen[3];
        auto const receive = [&] {
            for (u32 d = 0; d < 3; ++d) {
                auto const more = t.receive(d);
                seen[d].insert(seen[d].end(), more.begin(), more.end());
            }
        };
        for (u64 sent = first.rows, calls = 0; sent < 40; ++calls) {
            ASSERT_LT(calls, 1000U) << slots << " slots";
            SendResult const result = t.send(slice(rows, sent, 40), 0);
            ASSERT_NE(result.status, Status::Error);
            EXPECT_LE(result.rows, 4U * slots);
            sent += result.rows;
            receive();
        }
        EXPECT_EQ(seen[0], test::encode_all(rows));
        EXPECT_EQ(seen[1], test::encode_all(slice(rows, 0, first.rows)));
    }
}

TEST(DeviceAddressed, LongStringsTakeWhatTheirSegmentHas) {
    TinyOptions options = options_of(64, 4, 16);
    options.text_bytes = 30 * 16;
    ToAll t(options, {{"name", string(), true}, {"n", int64(), false}, {"b", boolean(), true}});
    std::vector<test::Row> rows;
    for (i64 i = 0; i < 30; ++i) {
        test::Row row{std::string(std::size_t(13 + i), char('a' + i % 26)), test::cell(i),
                      test::cell(std::uint8_t(i % 2))};
        if (i % 7 == 0) row[0].reset();
        if (i % 5 == 0) row[2].reset();
        rows.push_back(std::move(row));
    }
    std::vector<std::string> seen[3];
    auto const send = [&](std::size_t first, std::size_t last, u32 to) {
        for (int calls = 0; first < last; ++calls) {
            ASSERT_LT(calls, 1000);
            SendResult const result = t.send(slice(rows, first, last), to);
            ASSERT_NE(result.status, Status::Error);
            first += result.rows;
            (void)t.push();
            for (u32 d = 0; d < 3; ++d) {
                for (auto& row : t.receive(d)) seen[d].push_back(row);
            }
        }
    };
    send(0, 7, 3);
    send(7, 28, 1);
    send(28, 30, 3);
    EXPECT_EQ(seen[0], both(slice(rows, 0, 7), slice(rows, 28, 30)));
    EXPECT_EQ(seen[1], test::encode_all(rows));
    rows[0][0] = std::string(500, 'x');
    SendResult const refused = t.send(slice(rows, 0, 1), 1);
    EXPECT_EQ(refused.code, ErrorCode::Refused);
    EXPECT_EQ(refused.rows, 0U);
}

TEST(DeviceAddressed, CarriedRowsGoFirst) {
    ToAll t(options_of(4, 1, 8));
    auto const rows = test::numbered_rows(12, 5);
    EXPECT_EQ(t.send(slice(rows, 0, 8), 3).rows, 8U);
    std::vector<std::string> seen;
    for (u64 sent = 8, calls = 0; sent < 12 && calls < 1000; ++calls) {
        sent += t.send(slice(rows, sent, 12), 2).rows;
        for (auto& row : t.receive(2)) seen.push_back(row);
        (void)t.receive(0);
        (void)t.receive(1);
    }
    for (auto& row : t.receive(2)) seen.push_back(row);
    EXPECT_EQ(seen, test::encode_all(rows));
}

TEST(DeviceAddressed, ADestinationThatIsNone) {
    ToAll t(options_of(8, 2, 8));
    auto const rows = test::numbered_rows(5, 5);
    EXPECT_EQ(t.send(rows, 7).code, ErrorCode::InvalidArgument);
    // Addresses have 14 bits. No table is looked at.
    t.tiny.state().destination_count = Content::kMaxAddress + 1;
    EXPECT_EQ(t.send(rows, 0).code, ErrorCode::InvalidArgument);
    t.tiny.state().destination_count = 3;
    EXPECT_EQ(t.send(rows, 0).rows, 5U);
}

TEST(DeviceAddressed, WhatAnAddressSays) {
    u64 const word = Content::word(1u << 20, Ticket::kMaxUnits, Content::kMaxAddress);
    EXPECT_EQ(Content::rows(word), 1u << 20);
    EXPECT_EQ(Content::units(word), Ticket::kMaxUnits);
    EXPECT_EQ(Content::address(word), Content::kMaxAddress);
    EXPECT_EQ(Content::at(word, 0), 0U);
    EXPECT_EQ(Content::at(word, Content::kMaxAddress - 1),
              Content::word(1u << 20, Ticket::kMaxUnits));
    EXPECT_EQ(Content::at(Content::word(3, 2), 5), Content::word(3, 2));
}

/// Groups of several threads send to all and to one by turns, the others' segments between.
TEST(DeviceAddressed, SeveralGroupsOfSeveralThreads) {
    for (u32 const threads : {1U, 3U}) {
        TinyOptions options = options_of(70, 2, 16);
        options.destinations = 2;
        options.routing = RoutingKind::Broadcast;
        Schema const schema = test::numbered_schema();
        test::TinyChannel tiny(schema, options);
        constexpr u64 kRows = 600;
        auto const rows = test::numbered_rows(kRows, 7);
        auto const encoded = test::encode_all(rows);
        std::mutex mutex;
        std::vector<std::string> got[2];
        test::run_groups(4, threads, tiny.on(0, 0).shared_bytes(), [&](Group all, Shared& shared) {
            if (all.block >= 2) {
                u32 const d = all.block - 2;
                Group const me = all.slice(2 + d, 1);
                std::vector<std::string> mine;
                for (u32 idle = 0;;) {
                    ReceivedBatch batch;
                    Status const status = tiny.on(BasicChannel<LibcuAtomics>::kNone, d)
                                              .recv(me, shared, batch)
                                              .status;
                    if (status == Status::Pending) {
                        backoff(idle++);
                        continue;
                    }
                    if (status != Status::Ok) break;
                    for (u32 i = me.thread; i < batch.rows; i += me.threads) {
                        mine.push_back(test::encode_row(batch, schema, i));
                    }
                    tiny.on(0, d).release(me, shared, batch);
                    idle = 0;
                }
                std::lock_guard const lock(mutex);
                got[d].insert(got[d].end(), mine.begin(), mine.end());
                return;
            }
            Group const me = all.slice(0, 2);
            test::DeviceBatch batch(test::make_batch(schema, rows));
            Channel const channel = tiny.on(0, 0);
            u64 sent = 0;
            for (u32 idle = 0; sent < kRows;) {
                u64 const count = min_of<u64>(100 - sent % 100, kRows - sent);
                Batch const next = batch.slice(sent, count);
                u32 const to = u32(sent / 100 % 3);
                SendResult const result = to == 2 ? channel.send(me, shared, next)
                                                  : channel.send_to(me, shared, 100 + to, next);
                ASSERT_NE(result.status, Status::Error);
                sent += result.rows;
                if (result.rows == 0) backoff(idle++);
            }
            EXPECT_EQ(channel.flush_wait(me, shared), Status::Ok);
        });
        for (u32 d = 0; d < 2; ++d) {
            std::vector<std::string> expected;
            for (u64 i = 0; i < kRows; ++i) {
                u32 const to = u32(i / 100 % 3);
                if (to != d && to != 2) continue;
                expected.insert(expected.end(), 2, encoded[i]);
            }
            EXPECT_TRUE(test::same_rows(got[d], expected)) << threads << " threads";
        }
    }
}

}  // namespace
}  // namespace mgi::device
