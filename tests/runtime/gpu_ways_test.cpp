// Copies between GPUs by all ways that they have: straight, by other GPUs, by the host.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/expect_error.hpp"
#include "support/gpu_exchange.hpp"

namespace mgi::test::between_gpus {
namespace {

// Three GPUs; between the first two segments go by some ways.
using WaysOf = std::vector<std::pair<std::string, u64>>;  // names, and segments that went by them
WaysOf ways_of(Exchange const& exchange) {
    WaysOf found;
    for (mover::Way const& way : exchange.channel().impl()->relays()->ways().at({0, 1})) {
        found.emplace_back(way.name, way.counts->segments.value());
    }
    return found;
}
std::vector<std::string> names(WaysOf const& ways) {
    std::vector<std::string> all;
    for (auto const& way : ways) all.push_back(way.first);
    return all;
}
u64 segments(WaysOf const& ways) {
    u64 all = 0;
    for (auto const& way : ways) all += way.second;
    return all;
}
// Of a channel that fails: groups may hear of it before they have flushed.
void run_until_it_fails(Exchange& exchange) {
    try {
        exchange.run();
    } catch (Error const&) {
        // The channel says why.
    }
}
constexpr char const* kMesh = "0-1:4,0-2:4,1-2:4";
using Names = std::vector<std::string>;

class GpuWayChannels : public testing::TestWithParam<char const*> {
protected:
    void run(char const* peers, char const* links, ChannelOptions const& options,
             Names const& expected) {
        FakeDriver const gpus(
            {{"DEVICES", "3"}, {"STREAMS", GetParam()}, {"PEERS", peers}, {"LINKS", links}});
        Exchange exchange({"cuda:0", "cuda:1"}, Routing::partition("key"), options);
        EXPECT_EQ(names(ways_of(exchange)), expected);
        exchange.run();
        expect_each_row_once(exchange);
        EXPECT_GT(segments(ways_of(exchange)), 0U);
    }
};

INSTANTIATE_TEST_SUITE_P(Streams, GpuWayChannels, testing::Values("at once", "late:3", "threads"),
                         [](auto const& of) {
                             std::string const streams = of.param;
                             return std::string(streams == "at once"   ? "AtOnce"
                                                : streams == "threads" ? "Threads"
                                                                       : "Late");
                         });

TEST_P(GpuWayChannels, ByACommonNeighbourOfGpusThatAreNoPeers) {
    run("0-2,1-2", "0-2:4,1-2:4", by_copy(), {"by cuda:2", "by the host"});
}

TEST_P(GpuWayChannels, StraightAndByTheThirdGpuOfAMesh) {
    run("all", kMesh, by_copy(), {"straight", "by cuda:2", "by the host"});
}

TEST_P(GpuWayChannels, WithTheSmallestPools) {
    ChannelOptions options = by_copy();
    options.credits = 1;
    options.slots = 2;
    run("0-2,1-2", "0-2:4,1-2:4", options, {"by cuda:2", "by the host"});
}

TEST_P(GpuWayChannels, WithoutRelaysWhereTheyAreSwitchedOff) {
    ChannelOptions options = by_copy();
    options.relay_host = false;
    run("all", kMesh, options, {"straight", "by cuda:2"});
    options.relay_gpus = false;
    run("all", kMesh, options, {"straight"});
    run("none", "", options, {"by the host"});
}

TEST_P(GpuWayChannels, SlowConsumersStopNobodyForGood) {
    FakeDriver const gpus({{"DEVICES", "3"}, {"STREAMS", GetParam()}, {"LINKS", kMesh}});
    Exchange exchange({"cuda:0", "cuda:1", "cuda:0"}, Routing::partition("key"), by_copy());
    exchange.look_for(std::chrono::microseconds(500));
    exchange.run();
    expect_each_row_once(exchange);
}

// Of a broadcast, whose rows are read in place on their own GPU: only what goes between GPUs can fail.
TEST_P(GpuWayChannels, CarryOnWithoutAWayThatFails) {
    FakeDriver const gpus({{"DEVICES", "3"}, {"STREAMS", GetParam()}, {"LINKS", kMesh}});
    Exchange exchange({"cuda:0", "cuda:1"}, Routing::broadcast(), small());
    gpus.fail("cuMemcpyAsync:9:2,cuEventRecord:20:2");
    exchange.run();
    expect_all_everywhere(exchange);
}

TEST_P(GpuWayChannels, FailWithTheLastWay) {
    FakeDriver const gpus({{"DEVICES", "3"}, {"STREAMS", GetParam()}, {"LINKS", kMesh}});
    Exchange exchange({"cuda:0", "cuda:1"}, Routing::broadcast(), small());
    gpus.fail("cuMemcpyAsync:9+:2");
    run_until_it_fails(exchange);
    expect_error(ErrorCode::Internal,
                 {"no way is left for segments from cuda:", "straight: ", "by cuda:2: ",
                  "by the host: ", "restart the process"},
                 [&] { exchange.channel().check(); });
}

TEST_P(GpuWayChannels, AreDeletedInTheMidst) {
    FakeDriver const gpus({{"DEVICES", "3"}, {"STREAMS", GetParam()}, {"LINKS", kMesh}});
    Exchange exchange({"cuda:0", "cuda:1"}, Routing::partition("key"), by_copy());
    exchange.look_for(std::chrono::milliseconds(5));
    std::thread deleting([&] {
        while (segments(ways_of(exchange)) < 5) std::this_thread::yield();
        exchange.runtime().delete_channel(exchange.channel());
    });
    run_until_it_fails(exchange);
    deleting.join();
    expect_error(ErrorCode::Deleted, {"was deleted"}, [&] { exchange.channel().check(); });
}

TEST(GpuWayChannelsOnce, DoWithoutARelayThatHasNoMemory) {
    // The first are those that peers are tried with, segments' and tables'.
    FakeDriver const gpus({{"DEVICES", "3"}, {"LINKS", kMesh}, {"FAIL", "cuMemAlloc:9+:2"}});
    ChannelOptions options = by_copy();
    options.relay_host = false;
    Exchange exchange({"cuda:0", "cuda:1"}, Routing::partition("key"), options);
    EXPECT_EQ(names(ways_of(exchange)), Names{"straight"});
    exchange.run();
    expect_each_row_once(exchange);
}

TEST(GpuWayChannelsOnce, DoWithoutAGpuThatFailsAndHasNoEndpoint) {
    // As of a GPU whose context is lost, and of one that another process has for itself.
    for (char const* const failing : {"cuMemAlloc:10:700", "cuDevicePrimaryCtxRetain:3+:101"}) {
        FakeDriver const gpus({{"DEVICES", "3"}, {"LINKS", kMesh}, {"FAIL", failing}});
        ChannelOptions options = by_copy();
        options.relay_host = false;
        Exchange exchange({"cuda:0", "cuda:1"}, Routing::partition("key"), options);
        EXPECT_EQ(names(ways_of(exchange)), Names{"straight"}) << failing;
        exchange.run();
        expect_each_row_once(exchange);
    }
}

TEST(GpuWayChannelsOnce, GiveTheMemoryOfRelaysBack) {
    FakeDriver const gpus({{"DEVICES", "3"}, {"LINKS", kMesh}});
    std::size_t const before = gpus.alive("memory");
    std::size_t const pinned = gpus.alive("pinned");
    {
        Exchange exchange({"cuda:0", "cuda:1"}, Routing::partition("key"), by_copy());
        std::uint64_t const left = exchange.runtime().memory_left();
        exchange.run();
        exchange.runtime().delete_channel(exchange.channel());
        EXPECT_LE(left, exchange.runtime().memory_left());
    }
    EXPECT_LE(gpus.alive("memory"), before);
    EXPECT_LE(gpus.alive("pinned"), pinned);
}

}  // namespace
}  // namespace mgi::test::between_gpus
