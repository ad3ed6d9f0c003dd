// What is counted of a channel between servers, and who is said to wait for whom across them.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "runtime/counters.hpp"
#include "runtime/crossing.hpp"
#include "runtime/runtime_impl.hpp"
#include "runtime/who_waits.hpp"
#include "support/expect_error.hpp"
#include "support/shared_channel.hpp"
#include "support/tables.hpp"

namespace mgi::test {
namespace {

using namespace std::chrono_literals;
using For = ClusterWait::For;
using Clock = Counters::Clock;

// Two servers with a process, a source and a destination each; time is the test's.
class ServersCounters : public ::testing::Test {
protected:
    ServersCounters() {
        spec_.schema = numbered_schema();
        spec_.routing = Routing::direct();
        spec_.options.name = "sales";
        for (std::uint32_t m = 0; m < 2; ++m) ends_.push_back(members_.create_endpoint(m));
    }
    // Small enough that a few rows fill it.
    void make_small() {
        spec_.options.segment_rows = 4;
        spec_.options.slots = spec_.options.credits = 2;
    }
    [[nodiscard]] Endpoint here(std::uint32_t member) const { return ends_[member].endpoint; }
    [[nodiscard]] Endpoint far(std::uint32_t member) const {
        return {ends_[member].endpoint.id, Endpoint::kElsewhere};
    }
    [[nodiscard]] std::string id(std::uint32_t member) const {
        return std::to_string(ends_[member].endpoint.id);
    }
    static RecordBatch rows(std::size_t count) {
        return make_batch(numbered_schema(), numbered_rows(count, 7));
    }
    void look(Channel const& channel, Clock::duration later = {}) {
        now_ += later;
        counters_.look(*channel.impl(), now_);
    }
    ClusterUse use(Channel const& channel) { return counters_.use(*channel.impl(), now_); }
    // The longest wait, as it is said after some looks.
    std::string wait_of(Channel const& channel) {
        look(channel);
        look(channel);
        look(channel, 2300ms);
        auto const found = who_waits(*channel.impl(), counters_, now_, 0ms, true);
        return found.empty() ? "" : wait_text(*channel.impl(), found[0]);
    }
    // Until what is on its way has arrived.
    void settle(Channel const& channel) {
        auto const until = Clock::now() + kPatience;
        auto const moving = [&] {
            ClusterUse const now = use(channel);
            return std::any_of(now.nics.begin(), now.nics.end(),
                               [](auto const& nic) { return nic.flow.in_flight != 0; });
        };
        while (moving() && Clock::now() < until) std::this_thread::sleep_for(1ms);
    }
    // Sends until there is no more room for a while.
    static void fill(Sender& sender, RecordBatch const& batch, Endpoint to) {
        std::int64_t sent = 0;
        for (int in_vain = 0; in_vain < 200 && sent < batch.rows;) {
            std::int64_t const accepted = sender.try_send_to(to, batch, sent);
            sent += accepted;
            in_vain = accepted == 0 ? in_vain + 1 : 0;
            std::this_thread::sleep_for(1ms);
        }
    }

    Members members_{2, {}, 2};
    std::vector<Owned> ends_;
    ChannelSpec spec_;
    Counters counters_;
    Clock::time_point now_ = Clock::now();
};

TEST_F(ServersCounters, WhatGoesOverEachWireAndNic) {
    auto const channels = members_.open(spec_, ends_, ends_);
    Sender sender = channels[0].sender(here(0));
    sender.send_to(far(1), rows(30), kPatience);
    sender.send_to(here(0), rows(10), kPatience);
    sender.flush(kPatience);
    look(channels[0]);
    ClusterUse const found = use(channels[0]);
    EXPECT_EQ(found.flow.rows, 40U);
    EXPECT_EQ(found.flow.resends, 0U);
    ASSERT_EQ(found.paths.size(), 3U);
    for (ClusterPathUse const& path : found.paths) {
        if (path.source == ClusterPathUse::kAll) {
            EXPECT_EQ(path.by, "wire");
            EXPECT_EQ(path.nic, "lo");
            EXPECT_EQ(path.peer, "process 1");
            EXPECT_EQ(path.flow.segments, 1U);
            EXPECT_EQ(path.flow.bytes, 480U);
        } else {
            bool const far = path.destination == ends_[1].endpoint.id;
            EXPECT_EQ(path.by, far ? "wire" : "reference");
            EXPECT_EQ(path.flow.bytes, far ? 480U : 160U);
            EXPECT_EQ(path.flow.in_flight, 0U);
        }
    }
    ASSERT_EQ(found.nics.size(), 1U);
    EXPECT_EQ(found.nics[0].nic, "lo");
    EXPECT_EQ(found.nics[0].flow.bytes, 480U);
    // The other server has sent nothing, and knows what has come.
    EXPECT_EQ(use(channels[1]).flow.rows, 0U);
    EXPECT_EQ(use(channels[1]).queued, 1U);
}

TEST_F(ServersCounters, OneLaneForServersFarAndNear) {
    spec_.routing = Routing::broadcast();
    auto const channels = members_.open(spec_, {ends_[0]}, ends_);
    auto const paths = use(channels[0]).paths;
    ASSERT_EQ(paths.size(), 2U);
    EXPECT_TRUE(std::any_of(paths.begin(), paths.end(),
                            [](auto const& path) { return path.by == "reference and wire"; }));
}

TEST_F(ServersCounters, ASourceWaitsForCreditsOfAnotherServer) {
    make_small();
    auto const channels = members_.open(spec_, ends_, ends_);
    Sender sender = channels[0].sender(here(0));
    Receiver receiver = channels[1].receiver(here(1));
    fill(sender, rows(100), far(1));
    settle(channels[0]);
    EXPECT_EQ(wait_of(channels[0]),
              "source " + id(0) + " (process 0) has waited 2300 ms for a credit of destination " +
                  id(1) + " (process 1): 2 segments have arrived there and were not given back");
    ClusterUse const found = use(channels[0]);
    EXPECT_EQ(found.flow.waits, 1U);
    EXPECT_EQ(found.flow.waited_ms, 2300U);
    ASSERT_EQ(found.waits.size(), 1U);
    EXPECT_EQ(found.waits[0].what, For::Credit);
    // A credit comes; the next wait is another one.
    {
        EXPECT_TRUE(receiver.recv(kPatience));
    }
    fill(sender, rows(100), far(1));
    settle(channels[0]);
    look(channels[0], 50ms);
    EXPECT_EQ(use(channels[0]).flow.waits, 2U);
}

// Nobody has begun the links: what was sent is on its way, and does not arrive.
TEST_F(ServersCounters, ASourceWaitsForTheLink) {
    make_small();
    auto const channels = members_.open_only(spec_, {ends_[0]}, {ends_[1]});
    Sender sender = channels[0].sender(here(0));
    fill(sender, rows(4), far(1));
    auto const& links = channels[0].impl()->crossing()->links();
    auto const until = Clock::now() + kPatience;
    while (links.progress(0, 0)->in_flight == 0 && Clock::now() < until) {
        std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(wait_of(channels[0]),
              "source " + id(0) + " (process 0) has waited 2300 ms for the link to destination " +
                  id(1) + " (process 1): 1 segment is on its way there");
    ClusterUse const found = use(channels[0]);
    ASSERT_EQ(found.waits.size(), 1U);
    EXPECT_EQ(found.waits[0].what, For::Link);
    EXPECT_EQ(found.flow.waiting, 1U);
    for (Channel const& channel : channels) channel.impl()->crossing()->begin();
    EXPECT_EQ(channels[1].receiver(here(1)).recv(kPatience)->rows, 4);
    while (use(channels[0]).flow.in_flight != 0 && Clock::now() < until) {
        std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(wait_of(channels[0]), "") << "it has arrived";
}

TEST_F(ServersCounters, ABroadcastWaitsForWhoIsBehind) {
    make_small();
    spec_.routing = Routing::broadcast();
    auto const channels = members_.open(spec_, {ends_[0]}, ends_);
    Sender sender = channels[0].sender(here(0));
    auto const batch = rows(100);
    // One takes what comes; the other one is named.
    for (std::uint32_t const taking : {0U, 1U}) {
        Receiver receiver = channels[taking].receiver(here(taking));
        RecordBatch got;
        for (int in_vain = 0; in_vain < 200;) {
            in_vain = sender.try_send(batch) == 0 ? in_vain + 1 : 0;
            while (receiver.try_recv(got) == device::Status::Ok) got = {};
            std::this_thread::sleep_for(1ms);
        }
        settle(channels[0]);
        std::uint32_t const behind = 1 - taking;
        std::string const text = wait_of(channels[0]);
        EXPECT_NE(text.find("for a credit of destination " + id(behind) + " (process " +
                            std::to_string(behind) + ")"),
                  std::string::npos)
            << text;
    }
}

TEST_F(ServersCounters, ADestinationWaitsForWhoIsOnAnotherServer) {
    auto const channels = members_.open(spec_, {ends_[1]}, {ends_[0]});
    Receiver receiver = channels[0].receiver(here(0));
    RecordBatch batch;
    EXPECT_EQ(receiver.try_recv(batch), device::Status::Pending);
    EXPECT_EQ(wait_of(channels[0]),
              "destination " + id(0) + " (process 0) has waited 2300 ms for rows of source " +
                  id(1) + " (process 1): elsewhere, and has not said that it has ended");
    channels[1].sender(here(1)).flush(kPatience);
    EXPECT_FALSE(receiver.recv(kPatience));
    EXPECT_EQ(wait_of(channels[0]), "");
}

// The watchdog's error: who waits for whom, on both servers.
TEST_F(ServersCounters, AStallNamesWhoIsOnAnotherServer) {
    make_small();
    spec_.options.stall_limit = 500ms;
    auto const channels = members_.open(spec_, {ends_[0]}, {ends_[1]});
    Sender sender = channels[0].sender(here(0));
    expect_error(ErrorCode::Stalled,
                 {"source " + id(0) + " (process 0) has waited ",
                  "for a credit of destination " + id(1) + " (process 1): 2 segments have arrived",
                  "to process 1: "},
                 [&] { sender.send_to(far(1), rows(100), kPatience); });
}

// Figures are asked for while rows move and the channel is left.
TEST_F(ServersCounters, FiguresMayBeAskedForAtAnyTime) {
    for (int round = 0; round < 5; ++round) {
        auto channels = members_.open(spec_, ends_, ends_);
        std::jthread asking([&, channel = channels[0]](std::stop_token const& stop) {
            Counters counters;
            std::uint64_t bytes = 0;
            while (!stop.stop_requested()) {
                counters.look(*channel.impl(), Clock::now());
                ClusterUse const found = counters.use(*channel.impl(), Clock::now());
                EXPECT_GE(found.nics.at(0).flow.bytes, bytes);
                bytes = found.nics[0].flow.bytes;
            }
        });
        std::jthread receiving([&] {
            Receiver receiver = channels[1].receiver(here(1));
            channels[1].sender(here(1)).flush(kPatience);
            while (receiver.recv(kPatience)) continue;
        });
        Sender sender = channels[0].sender(here(0));
        Receiver receiver = channels[0].receiver(here(0));
        for (int i = 0; i < 20; ++i) sender.send_to(far(1), rows(1000), kPatience);
        sender.flush(kPatience);
        while (receiver.recv(kPatience)) continue;
        receiving.join();
        for (std::uint32_t m = 0; m < 2; ++m) members_.runtime(m).delete_channel(channels[m]);
    }
}

}  // namespace
}  // namespace mgi::test
