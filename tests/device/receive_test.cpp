// Receiving from tables built by hand: chunks, release, copies, ends.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/one_group.hpp"

namespace mgi::device {
namespace {

using test::OneGroup;
using test::options_of;
using test::TinyChannel;
using test::TinyOptions;

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
    CallResult const result = t.recv();
    EXPECT_EQ(result.status, Status::Error);
    EXPECT_EQ(result.code, ErrorCode::Refused);
    EXPECT_EQ(t.tiny.on(0, 0).error(), ErrorCode::Ok) << "a refused call harms nobody";
    t.group.launch = 0;
    EXPECT_EQ(t.recv(), Status::Pending);
}

TEST(DeviceReceive, FailedChannelFailsEveryCall) {
    OneGroup t(test::numbered_schema(), options_of(8, 2, 8));
    t.send(test::numbered_rows(3, 3));
    t.tiny.state().failed.store(u32(ErrorCode::Deleted), relaxed);
    EXPECT_EQ(t.send(test::numbered_rows(3, 3)).code, ErrorCode::Deleted);
    for (CallResult const& result :
         {t.push(), t.flush(), t.tiny.on(0, 0).flush_wait(t.group, t.shared()), t.recv()}) {
        EXPECT_EQ(result.status, Status::Error);
        EXPECT_EQ(result.code, ErrorCode::Deleted);
    }
    EXPECT_EQ(t.tiny.on(0, 0).error(), ErrorCode::Deleted);
}

}  // namespace
}  // namespace mgi::device
