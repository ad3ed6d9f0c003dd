// What goes wrong while rows move: everybody gets the error, nobody waits for ever.
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "runtime/host_groups.hpp"
#include "support/expect_error.hpp"
#include "support/sales_channel.hpp"

namespace mgi::test {
namespace {

using namespace std::chrono_literals;
using device::Group;
using device::Shared;
using device::Status;

using Failure = SalesChannel;

// Uses up numbers, as launches do, until the next groups' straddle a multiple of 2^32.
void reach_32_bits() {
    std::uint32_t const next = std::uint32_t(take_group_numbers(0));
    take_group_numbers(UINT32_MAX - 1 - next);
}

TEST_P(Failure, ExceptionInAKernel) {
    Channel const channel = open();
    std::atomic<int> errors{0};
    Launch at_b = receive_at(b_, channel, errors, 2, 2);
    Launch at_c = receive_at(c_, channel, errors);
    Launch at_a = runtime_.launch(
        a_, shape(2, 2),
        [](Group const& group, Shared& shared, device::Channel const& to) {
            if (group.block == 1 && group.thread == 1) throw std::runtime_error("out of coffee");
            (void)offer(group, shared, to, 100);
            (void)to.flush_wait(group, shared);
        },
        channel.on(a_));
    try {
        at_a.wait(kLimit);
        FAIL() << "threw nothing";
    } catch (std::runtime_error const& error) {
        EXPECT_STREQ(error.what(), "out of coffee");
    }
    at_b.wait(kLimit);
    at_c.wait(kLimit);
    EXPECT_EQ(errors.load(), 2 * 2 + 2);
    expect_error(ErrorCode::GroupFailed,
                 {"sales", "group 1", "endpoint " + std::to_string(a_.id), "out of coffee"},
                 [&] { channel.check(); });
    expect_error(ErrorCode::GroupFailed, {"out of coffee"}, [&] { (void)channel.on(b_); });
}

TEST_P(Failure, ExceptionOfAReceiver) {
    options_.segment_rows = 4;
    options_.slots = options_.credits = 1;
    Channel const channel = open();
    device::Channel const handle = channel.on(a_);  // before the channel fails
    device::Channel const throwing = channel.on(b_);
    std::atomic<int> errors{0};
    Launch at_c = receive_at(c_, channel, errors);
    Launch at_b = runtime_.launch(
        b_, shape(1), [](Group const&, Shared&, device::Channel const&) { throw 5; }, throwing);
    Launch at_a = runtime_.launch(
        a_, shape(1),
        [&](Group const& group, Shared& shared, device::Channel const& to) {
            auto const send = [&](auto const& batch) { return to.send(group, shared, batch); };
            EXPECT_EQ(send_until_it_fails(1000, 70, send), ErrorCode::GroupFailed);
            ++errors;
        },
        handle);
    EXPECT_THROW(at_b.wait(kLimit), int);
    at_a.wait(kLimit);
    at_c.wait(kLimit);
    EXPECT_EQ(errors.load(), 3);
}

TEST_P(Failure, GroupThatNeverFlushes) {
    Channel const channel = open();
    std::atomic<int> errors{0};
    Launch at_b = receive_at(b_, channel, errors);
    Launch at_c = receive_at(c_, channel, errors);
    Launch at_a = runtime_.launch(
        a_, shape(3),
        [](Group const& group, Shared& shared, device::Channel const& to) {
            (void)offer(group, shared, to);
            if (group.block != 2) (void)to.flush_wait(group, shared);
        },
        channel.on(a_));
    expect_error(ErrorCode::GroupFailed, {"sales", "group 2", std::to_string(a_.id), "flush"},
                 [&] { at_a.wait(kLimit); });
    at_b.wait(kLimit);
    at_c.wait(kLimit);
    EXPECT_EQ(errors.load(), 4);
}

TEST_P(Failure, GroupWhoseNumberFills32BitsIsKnown) {
    Channel const channel = open();
    reach_32_bits();
    Launch at_a = runtime_.launch(
        a_, shape(4),
        [](Group const& group, Shared& shared, device::Channel const& to) {
            EXPECT_EQ(std::uint32_t(group.launch + 1), group.block - 1);
            (void)offer(group, shared, to);
            if (group.block != 1) (void)to.flush_wait(group, shared);
        },
        channel.on(a_));
    expect_error(ErrorCode::GroupFailed, {"sales", "group 1", "ended without having flushed"},
                 [&] { at_a.wait(kLimit); });
}

TEST_P(Failure, GroupThatNeitherSendsNorFlushes) {
    Channel const channel = open();
    std::atomic<int> errors{0};
    Launch at_b = receive_at(b_, channel, errors);
    Launch at_c = receive_at(c_, channel, errors);
    Launch at_a = runtime_.launch(
        a_, shape(3),
        [](Group const& group, Shared& shared, device::Channel const& to) {
            if (group.block == 1) return;
            (void)offer(group, shared, to);
            (void)to.flush_wait(group, shared);
        },
        channel.on(a_));
    expect_error(ErrorCode::GroupFailed, {"sales", std::to_string(a_.id), "flush"},
                 [&] { at_a.wait(kLimit); });
    at_b.wait(kLimit);
    at_c.wait(kLimit);
    EXPECT_EQ(errors.load(), 4);
}

TEST_P(Failure, SourceOfWhichNoGroupEverCalls) {
    Channel const channel = open();
    std::atomic<int> errors{0};
    Launch at_b = receive_at(b_, channel, errors);
    Launch at_c = receive_at(c_, channel, errors);
    Launch at_a = runtime_.launch(
        a_, shape(2), [](Group const&, Shared&, device::Channel const&) {}, channel.on(a_));
    expect_error(ErrorCode::GroupFailed, {"sales", std::to_string(a_.id), "flush"},
                 [&] { at_a.wait(kLimit); });
    at_b.wait(kLimit);
    at_c.wait(kLimit);
    EXPECT_EQ(errors.load(), 4);
}

TEST_P(Failure, GroupThatSpinsForEverMeetsTheStallLimit) {
    options_.stall_limit = 300ms;
    Channel const channel = open();
    std::atomic<int> errors{0};
    std::atomic<bool> stop{false};
    Launch at_b = receive_at(b_, channel, errors);
    Launch at_c = receive_at(c_, channel, errors);
    Launch at_a = runtime_.launch(
        a_, shape(1),
        [&](Group const& group, Shared& shared, device::Channel const& to) {
            (void)offer(group, shared, to);
            while (!stop.load()) std::this_thread::sleep_for(1ms);
            EXPECT_EQ(to.flush(group, shared), Status::Error);
            EXPECT_EQ(to.error(), ErrorCode::Stalled);
        },
        channel.on(a_));
    at_b.wait(kLimit);
    at_c.wait(kLimit);
    EXPECT_EQ(errors.load(), 4);
    expect_error(ErrorCode::Stalled, {"sales", "stall_limit", "source " + std::to_string(a_.id)},
                 [&] { channel.check(); });
    stop = true;
    at_a.wait(kLimit);
}

TEST_P(Failure, StallLimitSparesWhoMoves) {
    options_.stall_limit = 700ms;
    Channel const channel = open(Routing::broadcast());
    Sender sender = channel.sender(a_);
    Receiver at_b = channel.receiver(b_);
    Receiver at_c = channel.receiver(c_);
    for (int i = 0; i < 8; ++i) {
        sender.send(make_batch(numbered_schema(), numbered_rows(2, 2)));
        sender.push();
        EXPECT_EQ(at_b.recv(20s)->rows, 2);
        EXPECT_EQ(at_c.recv(20s)->rows, 2);
        std::this_thread::sleep_for(100ms);
    }
    sender.flush();
    channel.sender(b_).flush();
    EXPECT_FALSE(at_b.recv(20s).has_value());
    EXPECT_FALSE(at_c.recv(20s).has_value());
    std::this_thread::sleep_for(900ms);
    EXPECT_NO_THROW(channel.check()) << "what is complete does not stall";
}

TEST_P(Failure, TableLargerThanThePoolsWithoutConsumer) {
    options_.segment_rows = 8;
    options_.slots = options_.credits = 2;
    options_.gone_limit = 200ms;
    Channel const channel = open(Routing::broadcast());
    Sender sender = channel.sender(a_);
    expect_error(ErrorCode::Stalled, {"sales", "endpoint", std::to_string(c_.id), "gone_limit"},
                 [&] {
                     sender.send(make_batch(numbered_schema(), numbered_rows(10000, 10)), kLimit);
                     sender.flush(kLimit);
                 });
}

TEST_P(Failure, KernelThatSendsToNobody) {
    options_.segment_rows = 8;
    options_.slots = options_.credits = 2;
    options_.gone_limit = 200ms;
    Channel const channel = open(Routing::direct());
    Launch at_a = runtime_.launch(
        a_, shape(2, 2),
        [to_id = c_.id](Group const& group, Shared& shared, device::Channel const& to) {
            auto const send = [&](auto const& batch) {
                return to.send_to(group, shared, to_id, batch);
            };
            EXPECT_EQ(send_until_it_fails(10000, 10, send), ErrorCode::Stalled);
        },
        channel.on(a_));
    at_a.wait(kLimit);
    expect_error(ErrorCode::Stalled, {"sales", "endpoint " + std::to_string(c_.id)},
                 [&] { channel.check(); });
}

TEST_P(Failure, SlowConsumerIsNotGone) {
    options_.segment_rows = 8;
    options_.slots = options_.credits = 1;
    options_.gone_limit = 100ms;
    Channel const channel = open(Routing::direct());
    Receiver receiver = channel.receiver(c_);  // whoever holds one means to receive
    std::int64_t got = 0;
    std::jthread slow([&] {
        for (int i = 0; auto const batch = receiver.recv(20s); ++i) {
            got += batch->rows;
            if (i < 3) std::this_thread::sleep_for(300ms);
        }
    });
    Sender sender = channel.sender(a_);
    sender.send_to(c_, make_batch(numbered_schema(), numbered_rows(200, 10)), kLimit);
    sender.flush(kLimit);
    channel.sender(b_).flush(kLimit);
    slow.join();
    EXPECT_EQ(got, 200);
    EXPECT_NO_THROW(channel.check());
}

TEST_P(Failure, UsersOwnFailure) {
    Channel const channel = open();
    std::atomic<int> errors{0};
    Launch at_c = receive_at(c_, channel, errors);
    channel.fail(ErrorCode::Interrupted, "the user pressed Ctrl-C");
    channel.fail(ErrorCode::Internal, "too late");
    at_c.wait(kLimit);
    EXPECT_EQ(errors.load(), 2);
    expect_error(ErrorCode::Interrupted, {"sales", "Ctrl-C"}, [&] { channel.check(); });
    expect_error(ErrorCode::Interrupted, {"sales", "Ctrl-C"}, [&] { (void)channel.sender(a_); });
}

TEST_P(Failure, OtherChannelsOfTheEndpointGoOn) {
    Channel const bad = open();
    Channel const good = open(Routing::broadcast());
    Launch at_a = runtime_.launch(
        a_, shape(1), [](Group const&, Shared&, device::Channel const&) { throw 1; }, bad.on(a_));
    EXPECT_THROW(at_a.wait(kLimit), int);
    EXPECT_THROW(bad.check(), Error);
    EXPECT_NO_THROW(good.check());
    good.sender(a_).send(make_batch(numbered_schema(), numbered_rows(5, 5)));
    good.sender(a_).flush(kLimit);
    good.sender(b_).flush(kLimit);
    EXPECT_EQ(good.receiver(c_).recv(kLimit)->rows, 5);
}

INSTANTIATE_TEST_SUITE_P(Transfer, Failure, ::testing::Bool(), [](auto const& each) {
    return std::string(each.param ? "ByReference" : "ByCopy");
});

}  // namespace
}  // namespace mgi::test
