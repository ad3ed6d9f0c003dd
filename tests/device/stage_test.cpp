// Stage buffers whose sorter's own thread never runs: senders do its work in its seat.
#include <gtest/gtest.h>

#include "support/groups.hpp"
#include "support/tables.hpp"
#include "support/tiny_channel.hpp"

namespace mgi::device {
namespace {

using test::KeyValue;
using test::TinyChannel;
using test::TinyOptions;

TinyOptions seat_channel_options() {
    TinyOptions options;
    options.destinations = 2;
    options.max_groups = 1;
    options.segment_rows = options.tile_rows = 8;
    options.slots = 64;
    options.layout = Layout::Rows;
    return options;
}

TinyOptions seat_options(u32 staged_rows) {
    TinyOptions options = seat_channel_options();
    options.destinations = 1;
    options.slots = 2;
    options.routing = RoutingKind::Direct;
    options.staged_rows = staged_rows;
    options.seats = 1;
    options.max_groups = 2;
    options.takes_ahead = false;
    return options;
}

/// A source with a stage whose sorter has come to its seat and left again.
class Seat : public ::testing::TestWithParam<u32> {
protected:
    Seat()
        : channel_(test::numbered_schema(), seat_channel_options()),
          stage_(test::numbered_schema(), seat_options(GetParam())),
          memory_(4096),
          sorter_memory_(4096),
          stages_{&stage_.state()} {
        channel_.state().stages = stages_;
        Shared shared = sorter_memory_.shared();
        auto* const columns = shared.take<ColumnView>(channel_.state().layout.column_count);
        Group sorter;
        sorter.launch = 7;
        stage_.state().seats[0].work =
            Sorting<LibcuAtomics>(sorter, shared, channel_.state(), 0, stage_.state(), columns);
        stage_.state().seats[0].leave();
    }

    /// Rows that stand in the two receive queues now.
    u64 receive() {
        u64 rows = 0;
        for (u32 d = 0; d < 2; ++d) {
            Shared shared = memory_.shared();
            ReceivedBatch batch;
            while (channel_.on(0, d).recv(group_, shared, batch) == Status::Ok) {
                rows += batch.rows;
                for (u32 i = 0; i < batch.rows; ++i) sum_ += batch.structs<KeyValue>()[i].value;
                channel_.on(0, d).release(group_, shared, batch);
            }
        }
        return rows;
    }

    Channel sender() { return channel_.on(0, 0); }

    TinyChannel channel_;
    TinyChannel stage_;
    test::Scratch memory_;
    test::Scratch sorter_memory_;
    ChannelState<LibcuAtomics>* stages_[1];
    Group group_;
    i64 sum_ = 0;
};

TEST_P(Seat, SenderSortsWhatItStages) {
    constexpr i64 kSent = 200;  // the stage has room for 16
    for (i64 i = 0; i < kSent; ++i) {
        ASSERT_EQ(sender().send_row(group_, KeyValue{i, i}).status, Status::Ok) << i;
    }
    Shared shared = memory_.shared();
    int calls = 0;
    while (sender().flush(group_, shared) == Status::Pending) ASSERT_LT(++calls, 10);
    EXPECT_EQ(receive(), u64(kSent)) << "done says that they stand there";
    EXPECT_EQ(sum_, kSent * (kSent - 1) / 2);
    ReceivedBatch batch;
    EXPECT_EQ(sender().recv(group_, shared, batch), Status::End);
}

TEST_P(Seat, PushGoesAllTheWay) {
    ASSERT_EQ(sender().send_row(group_, KeyValue{1, 5}).status, Status::Ok);
    EXPECT_EQ(receive(), 0U);
    Shared shared = memory_.shared();
    EXPECT_EQ(sender().push(group_, shared), Status::Ok);
    EXPECT_EQ(receive(), 1U);
}

TEST_P(Seat, PushSaysWhetherItWentAllTheWay) {
    // Three of the stage's segments, and one begun.
    for (i64 i = 0; i < 14; ++i) {
        ASSERT_EQ(sender().send_row(group_, KeyValue{i, i}).status, Status::Ok) << i;
    }
    Shared shared = memory_.shared();
    ASSERT_TRUE(stage_.state().seats[0].take());
    EXPECT_EQ(sender().push(group_, shared), Status::Pending) << "somebody else is in the seat";
    stage_.state().seats[0].leave();
    u64 received = receive();
    for (int calls = 0; sender().push(group_, shared) == Status::Pending; ++calls) {
        received += receive();
        ASSERT_LT(calls, 10);
    }
    EXPECT_EQ(received + receive(), 14U);
}

TEST_P(Seat, RowsOfAGroupThatIsNotCalledAgainHoldNobodyUp) {
    Group const first{0, 2, 0, 1, 0, nullptr};
    Group const second{1, 2, 0, 1, 0, nullptr};
    Shared shared = memory_.shared();
    ASSERT_TRUE(stage_.state().seats[0].take());
    std::vector<KeyValue> const rows(100);
    u64 const sent = sender().send_rows(first, shared, rows.data(), rows.size()).rows;
    EXPECT_EQ(sent, 24U) << "the stage holds 16; the group carries a tile";
    stage_.state().seats[0].leave();
    u64 received = 0;
    for (int i = 0; i < 40; ++i) {
        for (int calls = 0; sender().send_row(second, KeyValue{0, 0}).rows == 0; ++calls) {
            received += receive();
            ASSERT_LT(calls, 10) << i;
        }
    }
    EXPECT_GE(received + receive(), 16U);
}

TEST_P(Seat, WhoFindsItTakenGoesOn) {
    ASSERT_TRUE(stage_.state().seats[0].take());
    i64 sent = 0;
    while (sent < 100 && sender().send_row(group_, KeyValue{sent, sent}).rows != 0) ++sent;
    EXPECT_EQ(sent, 16 + i64(GetParam())) << "as many as the stage and the thread hold";
    stage_.state().seats[0].leave();
    EXPECT_NE(sender().send_row(group_, KeyValue{0, 0}).status, Status::Error);
    EXPECT_EQ(sender().send_row(group_, KeyValue{0, 0}).rows, 1U);
}

TEST_P(Seat, FailureIsLeftToTheSorter) {
    channel_.state().failed.store(u32(ErrorCode::Deleted), relaxed);
    for (i64 i = 0; i < 100; ++i) {
        ASSERT_NE(sender().send_row(group_, KeyValue{i, i}).status, Status::Error) << i;
    }
    Sorting<LibcuAtomics>& work = stage_.state().seats[0].work;
    EXPECT_EQ(work.round(), Status::Error);
    EXPECT_EQ(work.code(), ErrorCode::Deleted);
}

INSTANTIATE_TEST_SUITE_P(RowsThatAThreadGathers, Seat, ::testing::Values(0U, 5U, 16U));

}  // namespace
}  // namespace mgi::device
