// What is special about a channel between servers; all else is shared_channel_test's and property_test's.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

#include "runtime/channel_impl.hpp"
#include "runtime/runtime_impl.hpp"
#include "support/expect_error.hpp"
#include "support/shared_channel.hpp"
#include "support/tables.hpp"
#include "transport/wire/own_addresses.hpp"

namespace mgi::test {
namespace {

using namespace std::chrono_literals;

// Two servers with a process, a source and a destination each.
class Servers : public ::testing::Test {
protected:
    Servers() {
        spec_.schema = numbered_schema();
        spec_.routing = Routing::broadcast();
        spec_.options.name = "sales";
        spec_.options.segment_rows = 16;
        for (std::uint32_t m = 0; m < 2; ++m) ends_.push_back(members_.create_endpoint(m));
    }
    Members members_{2, {}, 2};
    std::vector<Owned> ends_;
    ChannelSpec spec_;
};

TEST_F(Servers, EachHasMemoryForItsOwnEndpoints) {
    spec_.options.slots = 4;  // between servers there are others by themselves
    spec_.options.by_reference = false;
    std::uint64_t const before[]{members_.runtime(0).memory_left(),
                                 members_.runtime(1).memory_left()};
    auto const both = members_.open(spec_, ends_, ends_);
    for (Channel const& channel : both) {
        EXPECT_EQ(channel.plan().transfer, Transfer::ByCopy);
        EXPECT_EQ(channel.impl()->here().sources.size(), 1U);
        EXPECT_EQ(channel.impl()->here().destinations.size(), 1U);
    }
    Members one(1);
    std::vector<Owned> const all{one.create_endpoint(0), one.create_endpoint(0)};
    ChannelSpec const spec = Members::seen_from(0, spec_, all, all);
    std::uint64_t const whole = one.runtime(0).create_channel(spec).plan().pool_bytes;
    EXPECT_EQ(both[0].plan().pool_bytes + both[1].plan().pool_bytes, whole);
    for (std::uint32_t m = 0; m < 2; ++m) {
        EXPECT_EQ(before[m] - members_.runtime(m).memory_left(), both[m].plan().pool_bytes);
    }
}

// What stays on a server is read in place: it has no receive ring, and no mover touches it.
TEST_F(Servers, RowsThatStayOnAServerAreReadInPlace) {
    spec_.routing = Routing::direct();
    auto const both = members_.open(spec_, ends_, ends_);
    for (std::uint32_t m = 0; m < 2; ++m) {
        EXPECT_EQ(both[m].plan().transfer, Transfer::Mixed);
        State const& state = both[m].impl()->state();
        auto const* const lanes = state.sources[m].lanes;
        EXPECT_EQ(lanes[m].moves, 0U);
        EXPECT_EQ(lanes[1 - m].moves, 1U);
        EXPECT_EQ(state.destinations[m].rings[m].slots, lanes[m].slots);
    }
    std::uint64_t const mixed = both[0].plan().pool_bytes;
    Endpoint const here = ends_[0].endpoint;
    Endpoint const there = both[0].impl()->spec().destinations[1];  // as this process sees it
    std::jthread sending([&] {
        Sender sender = both[0].sender(here);
        sender.send_to(here, make_batch(numbered_schema(), numbered_rows(40, 5)), kPatience);
        sender.send_to(there, make_batch(numbered_schema(), numbered_rows(30, 5)), kPatience);
        sender.flush(kPatience);
    });
    both[1].sender(ends_[1].endpoint).flush(kPatience);
    std::int64_t rows[2] = {};
    for (std::uint32_t m = 0; m < 2; ++m) {
        Receiver receiver = both[m].receiver(ends_[m].endpoint);
        while (auto const batch = receiver.recv(kPatience)) rows[m] += batch->rows;
    }
    EXPECT_EQ(rows[0], 40);
    EXPECT_EQ(rows[1], 30);
    State const& state = both[0].impl()->state();
    EXPECT_EQ(state.sources[0].lanes[0].delivered.load(device::relaxed), 0U);
    EXPECT_NE(state.sources[0].lanes[1].delivered.load(device::relaxed), 0U);
    // Without it there are receive rings for both.
    spec_.options.by_reference = false;
    auto const copied = members_.open(spec_, ends_, ends_);
    EXPECT_EQ(copied[0].plan().transfer, Transfer::ByCopy);
    EXPECT_GT(copied[0].plan().pool_bytes, mixed);
}

TEST_F(Servers, AnOrderedBroadcastOfTwoServersIsRefused) {
    spec_.options.ordered = true;
    expect_error(ErrorCode::InvalidArgument,
                 {"sales", "one order", std::to_string(ends_[1].endpoint.id)},
                 [&] { (void)members_.open(spec_, ends_, ends_); });
    // Of one server's source it is not.
    EXPECT_NO_THROW((void)members_.open(spec_, {ends_[0]}, ends_));
}

TEST_F(Servers, AServerThatIsBusyElsewhereIsNotStalled) {
    // Rows go from server 1 to itself; server 0 sees none of them, and awaits the end.
    spec_.routing = Routing::direct();
    spec_.options.stall_limit = 1500ms;
    auto const channels = members_.open(spec_, ends_, ends_);
    Endpoint const other = ends_[1].endpoint;
    std::jthread waiting([&] {
        channels[0].sender(ends_[0].endpoint).flush(kPatience);
        Receiver receiver = channels[0].receiver(ends_[0].endpoint);
        EXPECT_NO_THROW({
            while (receiver.recv(kPatience)) continue;
        });
    });
    Sender sender = channels[1].sender(other);
    Receiver receiver = channels[1].receiver(other);
    auto const until = std::chrono::steady_clock::now() + 3s;
    while (std::chrono::steady_clock::now() < until) {
        sender.send_to(other, make_batch(numbered_schema(), numbered_rows(16, 5)), kPatience);
        sender.push();
        EXPECT_TRUE(receiver.recv(kPatience));
        std::this_thread::sleep_for(20ms);
    }
    sender.flush(kPatience);
    EXPECT_FALSE(receiver.recv(kPatience));
    waiting.join();
    EXPECT_NO_THROW(channels[0].check());
}

TEST_F(Servers, AKernelThatThrowsWhereThereAreSourcesAloneFailsAll) {
    auto const channels = members_.open(spec_, {ends_[0]}, {ends_[1]});
    Launch const failing = members_.runtime(0).launch(
        ends_[0].endpoint, {},
        [](device::Group const&, device::Shared&, device::Channel const&) {
            throw std::runtime_error("the disk is full");
        },
        channels[0].on(ends_[0].endpoint));
    expect_error(ErrorCode::GroupFailed, {"sales", "process 0", "the disk is full"},
                 [&] { (void)channels[1].receiver(ends_[1].endpoint).recv(kPatience); });
}

// Before all processes have the channel nobody is dialed, and nothing that is said or sent is lost.
TEST_F(Servers, WhatIsSentBeforeTheLinksBeginWaits) {
    auto const channels = members_.open_only(spec_, {ends_[0]}, {ends_[1]});
    Sender sender = channels[0].sender(ends_[0].endpoint);
    sender.send(make_batch(numbered_schema(), numbered_rows(20, 5)), kPatience);
    sender.push();
    std::this_thread::sleep_for(100ms);
    EXPECT_EQ(channels[1].stats().queues.at(0).segments, 0U);
    for (Channel const& channel : channels) channel.impl()->crossing()->begin();
    std::jthread flushing([&] { sender.flush(kPatience); });
    Receiver receiver = channels[1].receiver(ends_[1].endpoint);
    std::int64_t rows = 0;
    while (auto const batch = receiver.recv(kPatience)) rows += batch->rows;
    EXPECT_EQ(rows, 20);
}

// Whose calls cannot go on moves what it waits for; on one server there is nothing to be moved.
TEST_F(Servers, CallsThatCannotGoOnMakeProgress) {
    spec_.options.slots = spec_.options.credits = 2;
    auto const channels = members_.open(spec_, {ends_[0]}, {ends_[1]});
    struct Rounds {
        device::Progress real;
        std::atomic<int> made{0};
    };
    std::array<Rounds, 2> rounds;
    for (std::uint32_t m = 0; m < 2; ++m) {
        device::Progress& hook = channels[m].impl()->state().progress;
        rounds[m].real = hook;
        hook = {[](void* context) {
                    auto* const one = static_cast<Rounds*>(context);
                    ++one->made;
                    one->real.make(one->real.context);
                },
                &rounds[m]};
    }
    Sender sender = channels[0].sender(ends_[0].endpoint);
    auto const rows = make_batch(numbered_schema(), numbered_rows(5000, 5));
    EXPECT_THROW((void)sender.send(rows, 50ms), Error);  // nobody receives
    EXPECT_GT(rounds[0].made, 0);
    Receiver receiver = channels[1].receiver(ends_[1].endpoint);
    EXPECT_THROW(
        {
            while (receiver.recv(50ms)) continue;
        },
        Error);
    EXPECT_GT(rounds[1].made, 0);

    std::vector<Owned> const alone{members_.create_endpoint(0)};
    Channel const local =
        members_.runtime(0).create_channel(Members::seen_from(0, spec_, alone, alone));
    EXPECT_EQ(local.impl()->state().progress.make, nullptr);
}

// A kernel may be inside a call of a channel whose runtime has given it up.
TEST_F(Servers, ARuntimeThatHasEndedLeavesNothingToMove) {
    auto const channels = members_.open(spec_, {ends_[0]}, {ends_[1]});
    std::atomic<bool> ended = false;
    std::jthread calling([&, hook = channels[0].impl()->state().progress] {
        while (!ended) hook.make(hook.context);
    });
    std::this_thread::sleep_for(20ms);
    members_.end(0);
    std::this_thread::sleep_for(20ms);
    ended = true;
}

TEST_F(Servers, AStallSaysWhatItsLinksDo) {
    spec_.options.stall_limit = 500ms;
    auto const channels = members_.open(spec_, ends_, ends_);
    Receiver receiver = channels[0].receiver(ends_[0].endpoint);
    Receiver other = channels[1].receiver(ends_[1].endpoint);
    expect_error(ErrorCode::Stalled, {"stall_limit", "to process 1: ", "wire 0"}, [&] {
        while (receiver.recv(kPatience)) continue;
    });
}

TEST(ServersEncryption, IsSaidByTheOptionOrTheVariable) {
    EXPECT_FALSE(ChannelNetwork({}).encrypts());
    ASSERT_EQ(setenv("MGI_WIRE_ENCRYPTION", "on", 1), 0);
    EXPECT_TRUE(ChannelNetwork({}).wire_options().encryption.on);
    EXPECT_FALSE(ChannelNetwork({}, {}, false).encrypts());
    ASSERT_EQ(setenv("MGI_WIRE_ENCRYPTION", "tls", 1), 0);
    expect_error(ErrorCode::InvalidArgument, {"MGI_WIRE_ENCRYPTION", "tls"},
                 [] { (void)ChannelNetwork({"lo"}).addresses(); });
    ASSERT_EQ(unsetenv("MGI_WIRE_ENCRYPTION"), 0);
    EXPECT_TRUE(ChannelNetwork({}, {}, true).encrypts());
}

TEST(ServersAddresses, WithoutAnyTheErrorSaysWhatToSet) {
    ASSERT_EQ(unsetenv("MGI_ADDRESSES"), 0);
    expect_error(ErrorCode::InvalidArgument, {"MGI_ADDRESSES=eth0"},
                 [] { (void)ChannelNetwork({}).addresses(); });
    ASSERT_EQ(setenv("MGI_ADDRESSES", "lo,,127.0.0.1", 1), 0);
    ChannelNetwork network({});
    auto const addresses = network.addresses();
    ASSERT_EQ(addresses.size(), 2U);
    EXPECT_EQ(addresses[0].substr(0, 10), "127.0.0.1:");
    EXPECT_EQ(network.addresses(), addresses) << "another port each time";
    ASSERT_EQ(unsetenv("MGI_ADDRESSES"), 0);
}

TEST(ServersAddresses, ThoseOfTheMachineAreKnownByNameAndNumber) {
    using transport::wire::own_addresses;
    EXPECT_EQ(own_addresses({"lo"})[0].address.text(), "127.0.0.1:0");
    EXPECT_EQ(own_addresses({"127.0.0.1"})[0].nic, "lo");
    EXPECT_EQ(own_addresses({"127.0.0.1", "lo"}).size(), 2U);
    for (char const* const wrong : {"", "eth99", "203.0.113.9", "::5", "127.0.0.1:80"}) {
        expect_error(ErrorCode::NotFound, {wrong, "it has", "lo 127.0.0.1"},
                     [&] { (void)own_addresses({wrong}); });
    }
}

}  // namespace
}  // namespace mgi::test
