// Statistics and plans of channels.
#include <gtest/gtest.h>

#include <thread>

#include "support/flow.hpp"

namespace mgi::test {
namespace {

using namespace std::chrono_literals;

class Stats : public ::testing::TestWithParam<bool> {};

TEST_P(Stats, CountRowsBytesAndSegments) {
    Runtime runtime = Runtime::local();
    Endpoint const a = runtime.create_endpoint("cpu");
    Endpoint const b = runtime.create_endpoint("cpu");
    Endpoint const c = runtime.create_endpoint("cpu");
    ChannelSpec spec;
    spec.sources = {a};
    spec.destinations = {b, c};
    spec.schema = numbered_schema();
    spec.routing = Routing::partition("key", Hash::Modulo);
    spec.options.by_reference = GetParam();
    spec.options.segment_rows = 10;
    spec.options.slots = spec.options.credits = 8;
    spec.options.name = "sales";
    Channel const channel = runtime.create_channel(spec);
    EXPECT_EQ(channel.name(), "sales");
    EXPECT_EQ(channel.schema(), numbered_schema());
    EXPECT_EQ(channel.plan().transfer, GetParam() ? Transfer::ByReference : Transfer::ByCopy);
    EXPECT_EQ(channel.plan().segment_rows, 10U);
    EXPECT_EQ(channel.plan().slots, 8U);
    EXPECT_EQ(channel.plan().lanes, 2U);

    Sender sender = channel.sender(a);
    sender.send(
        make_batch(numbered_schema(), numbered_rows(60, 3)));  // keys 0, 1, 2: 40 and 20 rows
    sender.flush(20s);
    ChannelStats stats = channel.stats();
    EXPECT_EQ(stats.name, "sales");
    EXPECT_EQ(stats.rows, 60U);
    EXPECT_EQ(stats.bytes, 60U * 16);
    EXPECT_EQ(stats.segments, 6U);
    EXPECT_EQ(stats.memory_bytes, channel.plan().pool_bytes);
    ASSERT_EQ(stats.lanes.size(), 2U);
    EXPECT_EQ(stats.lanes[0].source, a.id);
    EXPECT_EQ(stats.lanes[0].destination, b.id);
    EXPECT_EQ(stats.lanes[0].rows, 40U);
    EXPECT_EQ(stats.lanes[0].segments, 4U);
    EXPECT_EQ(stats.lanes[1].destination, c.id);
    EXPECT_EQ(stats.lanes[1].rows, 20U);
    EXPECT_EQ(stats.lanes[1].bytes, 20U * 16);
    ASSERT_EQ(stats.queues.size(), 2U);
    EXPECT_EQ(stats.queues[0].destination, b.id);
    EXPECT_EQ(stats.queues[0].segments, 4U);
    EXPECT_EQ(stats.queues[0].taken, 0U);
    Receiver receiver = channel.receiver(b);
    while (receiver.recv(20s)) {
    }
    stats = channel.stats();
    EXPECT_EQ(stats.queues[0].taken, 4U);
    EXPECT_EQ(stats.queues[0].rows, 40U);
    EXPECT_EQ(stats.queues[1].rows, 0U);
    EXPECT_EQ(stats.detached_bytes, 0U);
}

TEST_P(Stats, EmptyChunksOfALastSegmentNeedNotBeTaken) {
    Runtime runtime = Runtime::local();
    Endpoint const a = runtime.create_endpoint("cpu");
    ChannelSpec spec;
    spec.sources = spec.destinations = {a};
    spec.schema = numbered_schema();
    spec.routing = Routing::partition("key");
    spec.options.by_reference = GetParam();
    spec.options.segment_rows = 300;
    spec.options.chunk_rows = 64;
    spec.options.stall_limit = 300ms;
    Channel const channel = runtime.create_channel(spec);
    Sender sender = channel.sender(a);
    sender.send(make_batch(numbered_schema(), numbered_rows(70, 3)));
    sender.flush(20s);
    Receiver receiver = channel.receiver(a);
    ASSERT_EQ(receiver.recv(20s)->rows, 64);
    EXPECT_EQ(channel.stats().queues[0].taken, 0U);
    ASSERT_EQ(receiver.recv(20s)->rows, 6);
    EXPECT_EQ(channel.stats().queues[0].taken, 1U);
    // Whoever knows that this was all need not ask for the end.
    std::this_thread::sleep_for(600ms);
    RecordBatch batch;
    EXPECT_EQ(receiver.try_recv(batch), device::Status::End);
}

TEST_P(Stats, ReadableWhileRowsMove) {
    FlowSetup flow;
    flow.options.by_reference = GetParam();
    flow.options.segment_rows = 5;
    flow.rows.assign(2, {numbered_rows(2000, 100)});
    FlowResult const result = run_flow(flow);
    std::uint64_t lanes = 0;
    std::uint64_t queues = 0;
    for (auto const& lane : result.stats.lanes) lanes += lane.rows;
    for (auto const& queue : result.stats.queues) {
        EXPECT_EQ(queue.segments, queue.taken);
        queues += queue.rows;
    }
    EXPECT_EQ(lanes, 4000U);
    EXPECT_EQ(queues, 4000U);
}

TEST_P(Stats, MemoryIsFixedAtCreation) {
    FlowSetup flow;
    flow.options.by_reference = GetParam();
    flow.options.segment_rows = 64;
    flow.options.slots = flow.options.credits = 2;
    flow.options.tile_rows = 64;
    flow.rows.assign(2, {numbered_rows(100, 100)});
    std::uint64_t const small = run_flow(flow).stats.memory_bytes;
    flow.rows.assign(2, {numbered_rows(20'000, 100)});
    EXPECT_EQ(run_flow(flow).stats.memory_bytes, small);
    std::uint64_t const segments = 2 * 2 * 2 * (GetParam() ? 1 : 2);
    EXPECT_GE(small, segments * 64 * 16);
    EXPECT_LT(small, segments * 64 * 16 + 64 * 1024) << "no more than pools and carry buffers";
}

INSTANTIATE_TEST_SUITE_P(Transfer, Stats, ::testing::Bool(), [](auto const& each) {
    return std::string(each.param ? "ByReference" : "ByCopy");
});

}  // namespace
}  // namespace mgi::test
