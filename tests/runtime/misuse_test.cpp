// Device calls that must be refused, and harm nobody else.
#include <gtest/gtest.h>

#include <atomic>

#include "support/expect_error.hpp"
#include "support/sales_channel.hpp"

namespace mgi::test {
namespace {

using namespace std::chrono_literals;
using device::Group;
using device::ReceivedBatch;
using device::SendResult;
using device::Shared;
using device::Status;

using Misuse = SalesChannel;

TEST_P(Misuse, SendAfterFlushInAKernel) {
    Channel const channel = open();
    runtime_
        .launch(
            a_, shape(2, 2),
            [](Group const& group, Shared& shared, device::Channel const& to) {
                EXPECT_EQ(to.flush_wait(group, shared), Status::Ok);
                SendResult const result = offer(group, shared, to);
                EXPECT_EQ(result.rows, 0U);
                EXPECT_EQ(result.code, ErrorCode::Closed);
                EXPECT_EQ(to.flush(group, shared), Status::Ok);
            },
            channel.on(a_))
        .wait(kLimit);
    EXPECT_NO_THROW(channel.check()) << "a refused call harms nobody";
}

TEST_P(Misuse, RecvOnASourceSendOnADestination) {
    Channel const channel = open();
    runtime_
        .launch(
            a_, shape(1),
            [](Group const& group, Shared& shared, device::Channel const& at_a,
               device::Channel const& at_c) {
                ReceivedBatch batch;
                EXPECT_FALSE(at_a.is_destination());
                EXPECT_EQ(at_a.recv(group, shared, batch).code, ErrorCode::InvalidArgument);
                EXPECT_FALSE(at_c.is_source());
                EXPECT_EQ(offer(group, shared, at_c).code, ErrorCode::InvalidArgument);
                EXPECT_EQ(at_c.push(group, shared).code, ErrorCode::InvalidArgument);
                EXPECT_EQ(at_c.flush(group, shared).code, ErrorCode::InvalidArgument);
                EXPECT_EQ(at_a.flush_wait(group, shared), Status::Ok);
            },
            channel.on(a_), channel.on(c_))
        .wait(kLimit);
}

TEST_P(Misuse, SendToOutsideTheDestinations) {
    Channel const channel = open(Routing::direct());
    runtime_
        .launch(
            a_, shape(1),
            [wrong = a_.id](Group const& group, Shared& shared, device::Channel const& to) {
                DeviceBatch rows(make_batch(numbered_schema(), numbered_rows(10, 7)));
                EXPECT_EQ(to.send_to(group, shared, wrong, rows.slice(0, 10)).code,
                          ErrorCode::InvalidArgument);
                EXPECT_EQ(to.send_to(group, shared, 999, rows.slice(0, 10)).code,
                          ErrorCode::InvalidArgument);
                EXPECT_EQ(offer(group, shared, to).code, ErrorCode::InvalidArgument);
                EXPECT_EQ(to.flush_wait(group, shared), Status::Ok);
            },
            channel.on(a_))
        .wait(kLimit);
}

TEST_P(Misuse, MoreGroupsThanTheChannelTakes) {
    options_.max_groups = 2;
    Channel const channel = open();
    std::atomic<int> refused{0};
    runtime_.launch(
        a_, shape(3),
        [&](Group const& group, Shared& shared, device::Channel const& to) {
            if (group.block != 2) return;
            EXPECT_EQ(offer(group, shared, to).code, ErrorCode::InvalidArgument);
            ++refused;
        },
        channel.on(a_));
    for (device::u32 round = 0; refused.load() == 0; ++round) device::backoff(round);
}

TEST_P(Misuse, GroupThatItsSourceDoesNotCount) {
    Channel const channel = open();
    RecordBatch const batch = make_batch(numbered_schema(), numbered_rows(10, 7));
    channel.sender(a_, 0, 1).send(batch);
    Sender late = channel.sender(a_, 1, 3);
    expect_error(ErrorCode::Closed, {"sales", "group 1", "send", "3"}, [&] { late.send(batch); });
    expect_error(ErrorCode::Closed, {"sales", "group 1", "push", "3"}, [&] { late.push(); });
    expect_error(ErrorCode::Closed, {"sales", "group 1", "flush", "3"}, [&] { late.flush(); });
    EXPECT_NO_THROW(channel.check()) << "a refused call harms nobody";
}

TEST_P(Misuse, SecondConsumerOfAnOrderedChannel) {
    options_.ordered = true;
    Channel const channel = open();
    Receiver first = channel.receiver(c_, 0);
    RecordBatch batch;
    EXPECT_EQ(first.try_recv(batch), Status::Pending);
    expect_error(ErrorCode::Refused, {"sales", "ordered"},
                 [&] { channel.receiver(c_, 1).try_recv(batch); });
    EXPECT_EQ(channel.receiver(c_, 0).try_recv(batch), Status::Pending);
}

INSTANTIATE_TEST_SUITE_P(Transfer, Misuse, ::testing::Bool(), [](auto const& each) {
    return std::string(each.param ? "ByReference" : "ByCopy");
});

}  // namespace
}  // namespace mgi::test
