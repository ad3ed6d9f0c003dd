// What a channel counts of itself, and who it says waits for whom.
#include "runtime/counters.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "runtime/runtime_impl.hpp"
#include "runtime/who_waits.hpp"
#include "support/expect_error.hpp"
#include "support/sales_channel.hpp"
#include "support/shared_channel.hpp"

namespace mgi::test {
namespace {

using namespace std::chrono_literals;
using For = ClusterWait::For;
using Clock = Counters::Clock;

// Time is the test's: nobody else looks.
class CountersTest : public SalesChannel {
protected:
    // Small enough that a few rows fill it.
    void make_small() {
        options_.segment_rows = 4;
        options_.slots = options_.credits = 2;
        options_.max_groups = 2;
    }
    void look(Channel const& channel, Clock::duration later = {}) {
        now_ += later;
        counters_.look(*channel.impl(), now_);
    }
    std::vector<ClusterWait> waits(Channel const& channel) {
        return who_waits(*channel.impl(), counters_, now_, 0ms, true);
    }
    // Sends until there is no more room.
    static void fill(Sender& sender, Endpoint to, std::int64_t rows = 100) {
        std::int64_t sent = 0;
        auto const batch = make_batch(numbered_schema(), numbered_rows(std::size_t(rows), 7));
        for (int in_vain = 0; in_vain < 20 && sent < rows;) {
            std::int64_t const accepted = sender.try_send_to(to, batch, sent);
            sent += accepted;
            in_vain = accepted == 0 ? in_vain + 1 : 0;
            std::this_thread::sleep_for(1ms);  // the mover's turn
        }
    }
    ClusterPathUse path(ClusterUse const& use, Endpoint from, Endpoint to) {
        for (ClusterPathUse const& one : use.paths) {
            if (one.source == from.id && one.destination == to.id) return one;
        }
        ADD_FAILURE() << "no path from " << from.id << " to " << to.id;
        return {};
    }

    Counters counters_;
    Clock::time_point now_ = Clock::now();
};

TEST_P(CountersTest, APathHasWhatWasSentOnIt) {
    Channel const channel = open(Routing::direct());
    Sender sender = channel.sender(a_);
    sender.send_to(b_, make_batch(numbered_schema(), numbered_rows(30, 7)), kLimit);
    sender.send_to(c_, make_batch(numbered_schema(), numbered_rows(10, 7)), kLimit);
    sender.flush(kLimit);
    look(channel);
    ClusterUse const use = counters_.use(*channel.impl(), now_);
    EXPECT_EQ(use.channel, channel.id());
    EXPECT_EQ(use.flow.rows, 40u);
    EXPECT_EQ(use.flow.bytes, 640u);
    EXPECT_EQ(use.flow.in_flight, 0u);
    EXPECT_EQ(use.flow.waits, 0u);
    EXPECT_EQ(use.queued, use.flow.segments);
    ASSERT_EQ(use.paths.size(), 4u);
    EXPECT_EQ(use.paths[0].flow.rows, 30u) << "the busiest first";
    ClusterPathUse const one = path(use, a_, c_);
    EXPECT_EQ(one.flow.bytes, 160u);
    EXPECT_EQ(one.flow.segments, 1u);
    EXPECT_EQ(one.by, GetParam() ? "reference" : "copy");
}

TEST_P(CountersTest, TheTimeThatASegmentWaitsForACredit) {
    make_small();
    Channel const channel = open(Routing::direct());
    Sender sender = channel.sender(a_);
    Receiver receiver = channel.receiver(c_);
    fill(sender, c_);
    look(channel);
    look(channel, 300ms);
    look(channel, 700ms);
    ClusterFlow const flow = path(counters_.use(*channel.impl(), now_), a_, c_).flow;
    EXPECT_EQ(flow.waits, 1u);
    EXPECT_EQ(flow.waited_ms, 1000u);
    EXPECT_EQ(flow.longest_wait_ms, 1000u);
    EXPECT_EQ(flow.waiting, GetParam() ? 1u : 2u);
    EXPECT_EQ(flow.in_flight, GetParam() ? 0u : 2u);
    // One segment is given back: the wait that follows is another one.
    ASSERT_TRUE(receiver.recv(kLimit));
    fill(sender, c_);
    look(channel, 50ms);
    look(channel, 50ms);
    ClusterFlow const next = path(counters_.use(*channel.impl(), now_), a_, c_).flow;
    EXPECT_EQ(next.waits, 2u);
    EXPECT_EQ(next.longest_wait_ms, 1000u);
    EXPECT_EQ(next.waited_ms, 1100u);
    // Time in which nobody could look is not waited.
    counters_.skip(5s);
    look(channel, 5s);
    EXPECT_EQ(path(counters_.use(*channel.impl(), now_), a_, c_).flow.waited_ms, 1100u);
}

// What moves does not wait, however often a look finds a segment on its way.
TEST_P(CountersTest, AChannelThatFlowsDoesNotWait) {
    Channel const channel = open(Routing::direct());
    Sender sender = channel.sender(a_);
    Receiver receiver = channel.receiver(c_);
    auto const rows = make_batch(numbered_schema(), numbered_rows(50, 7));
    for (int round = 0; round < 50; ++round) {
        sender.send_to(c_, rows, kLimit);
        sender.push();
        look(channel, 50ms);
        while (counters_.use(*channel.impl(), now_).flow.in_flight != 0) {
            std::this_thread::sleep_for(1ms);  // the mover's turn, which nobody looks at
        }
        EXPECT_TRUE(receiver.recv(kLimit));
    }
    EXPECT_EQ(counters_.use(*channel.impl(), now_).flow.waits, 0u);
}

TEST_P(CountersTest, ASourceWaitsForWhoDoesNotTake) {
    make_small();
    Channel const channel = open(Routing::direct());
    Sender sender = channel.sender(a_);
    fill(sender, c_);
    look(channel);
    look(channel, 2300ms);
    auto const found = waits(channel);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].what, For::Credit);
    EXPECT_EQ(found[0].who, a_.id);
    EXPECT_EQ(found[0].whom, std::vector<std::uint32_t>{c_.id});
    EXPECT_EQ(found[0].ms, 2300u);
    EXPECT_EQ(wait_text(*channel.impl(), found[0]),
              "source " + std::to_string(a_.id) +
                  " has waited 2300 ms for a credit of destination " + std::to_string(c_.id) +
                  ": nobody has received there yet");
    Receiver receiver = channel.receiver(c_);
    std::vector<RecordBatch> kept;
    kept.push_back(*receiver.recv(kLimit));
    look(channel);
    EXPECT_EQ(waits(channel).at(0).why, "1 segment is queued there and not taken");
    kept.push_back(*receiver.recv(kLimit));
    look(channel);
    EXPECT_EQ(waits(channel).at(0).why, "all segments there are taken, and none was given back");
}

TEST_P(CountersTest, ADestinationWaitsForWhoNeitherSendsNorEnds) {
    Channel const channel = open(Routing::direct());
    Receiver receiver = channel.receiver(c_);
    RecordBatch batch;
    EXPECT_EQ(receiver.try_recv(batch), device::Status::Pending);
    look(channel);
    look(channel, 1s);
    auto found = waits(channel);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].what, For::Rows);
    EXPECT_EQ(found[0].who, c_.id);
    EXPECT_EQ(found[0].whom, (std::vector<std::uint32_t>{a_.id, b_.id}));
    EXPECT_EQ(found[0].ms, 1000u);
    EXPECT_NE(wait_text(*channel.impl(), found[0]).find("for rows of sources"), std::string::npos);

    Sender at_a = channel.sender(a_);
    Sender at_b = channel.sender(b_);
    at_a.send_to(c_, make_batch(numbered_schema(), numbered_rows(3, 7)));
    at_b.flush(kLimit);
    while (!channel.impl()->source_ended(1)) std::this_thread::sleep_for(1ms);  // the mover says it
    look(channel, 1s);
    found = waits(channel);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].whom, std::vector<std::uint32_t>{a_.id});
    EXPECT_NE(found[0].why.find("holds back rows"), std::string::npos) << found[0].why;

    at_a.flush(kLimit);
    EXPECT_TRUE(receiver.recv(kLimit));
    EXPECT_FALSE(receiver.recv(kLimit));
    look(channel, 1s);
    EXPECT_TRUE(waits(channel).empty()) << "it has ended";
}

TEST_P(CountersTest, ABroadcastWaitsForWhoIsBehind) {
    make_small();
    Channel const channel = open(Routing::broadcast());
    Sender sender = channel.sender(a_);
    Receiver at_b = channel.receiver(b_);
    auto const batch = make_batch(numbered_schema(), numbered_rows(100, 7));
    RecordBatch got;
    for (int in_vain = 0; in_vain < 20;) {
        in_vain = sender.try_send(batch) == 0 ? in_vain + 1 : 0;
        while (at_b.try_recv(got) == device::Status::Ok) got = {};
        std::this_thread::sleep_for(1ms);
    }
    look(channel);
    look(channel, 1s);
    auto const found = waits(channel);
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found[0].who, a_.id);
    EXPECT_EQ(found[0].whom, std::vector<std::uint32_t>{c_.id});
    EXPECT_EQ(counters_.use(*channel.impl(), now_).paths.at(0).destination, ClusterPathUse::kAll);
}

TEST_P(CountersTest, OnlySoManyPathsAreTold) {
    ChannelSpec spec;
    for (int i = 0; i < 5; ++i) spec.sources.push_back(runtime_.create_endpoint("cpu"));
    spec.destinations = spec.sources;
    spec.schema = numbered_schema();
    spec.routing = Routing::partition("key");
    spec.options.by_reference = GetParam();
    Channel const channel = runtime_.create_channel(spec);
    look(channel);
    ClusterUse const use = counters_.use(*channel.impl(), now_);
    EXPECT_EQ(use.paths.size(), ClusterUse::kMostPaths);
    EXPECT_EQ(use.more_paths, 25 - ClusterUse::kMostPaths);
}

// The watchdog's error, with what it has itself seen.
TEST_P(CountersTest, AStallSaysWhoWaitsForWhom) {
    make_small();
    options_.stall_limit = 400ms;
    Channel const channel = open(Routing::direct());
    Sender sender = channel.sender(a_);
    Receiver at_b = channel.receiver(b_);
    Receiver at_c = channel.receiver(c_);
    RecordBatch batch;
    EXPECT_EQ(at_b.try_recv(batch), device::Status::Pending);
    std::string const a = std::to_string(a_.id);
    std::string const b = std::to_string(b_.id);
    std::string const c = std::to_string(c_.id);
    expect_error(
        ErrorCode::Stalled,
        {"stall_limit", "source " + a + " has waited ", " ms for a credit of destination " + c,
         "segments are queued there and not taken", "destination " + b + " has waited ",
         " ms for rows of source " + b, "nobody has sent there, or flushed"},
        [&] {
            auto const rows = make_batch(numbered_schema(), numbered_rows(100, 7));
            std::thread slow([&] { (void)at_c.recv(kLimit); });
            try {
                sender.send_to(c_, rows, kLimit);
            } catch (...) {
                slow.join();
                throw;
            }
            slow.join();
        });
}

INSTANTIATE_TEST_SUITE_P(Transfer, CountersTest, ::testing::Bool(), [](auto const& each) {
    return std::string(each.param ? "ByReference" : "ByCopy");
});

// Of a channel over processes each tells what its own endpoints do, and a stall names processes.
TEST(SharedCounters, EachTellsOfItsOwn) {
    Members members(2);
    std::vector<Owned> const ends{members.create_endpoint(0), members.create_endpoint(1)};
    ChannelSpec spec;
    spec.schema = numbered_schema();
    spec.routing = Routing::direct();
    spec.options.name = "sales";
    auto const channels = members.open(spec, ends, ends);
    Sender sender = channels[0].sender(ends[0].endpoint);
    sender.send_to(Endpoint{ends[1].endpoint.id, Endpoint::kElsewhere},
                   make_batch(numbered_schema(), numbered_rows(10, 7)));
    sender.flush(kLimit);
    Receiver receiver = channels[1].receiver(ends[1].endpoint);
    EXPECT_EQ(receiver.recv(kLimit)->rows, 10);
    RecordBatch batch;
    EXPECT_EQ(receiver.try_recv(batch), device::Status::Pending);
    auto const start = Clock::now();
    std::vector<ClusterUse> uses;
    for (Channel const& channel : channels) {
        Counters counters;
        counters.look(*channel.impl(), start);
        counters.look(*channel.impl(), start + 1s);
        uses.push_back(counters.use(*channel.impl(), start + 1s));
        auto const all = who_waits(*channel.impl(), counters, start + 1s, 0ms, true);
        ASSERT_EQ(all.size(), 1u) << "everybody sees everything";
        EXPECT_EQ(wait_text(*channel.impl(), all[0]),
                  "destination " + std::to_string(ends[1].endpoint.id) +
                      " (process 1) has waited 1000 ms for rows of source " +
                      std::to_string(ends[1].endpoint.id) +
                      " (process 1): nobody has sent there, or flushed");
    }
    EXPECT_EQ(uses[0].flow.rows, 10u);
    EXPECT_EQ(uses[1].flow.rows, 0u);
    EXPECT_EQ(uses[0].paths.size(), 2u);
    EXPECT_TRUE(uses[0].waits.empty());
    ASSERT_EQ(uses[1].waits.size(), 1u);
    EXPECT_EQ(uses[1].waits[0].who, ends[1].endpoint.id);
}

}  // namespace
}  // namespace mgi::test
