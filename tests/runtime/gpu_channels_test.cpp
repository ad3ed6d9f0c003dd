// Channels over several memories: GPUs and CPU devices, with a driver that is made up. What stands for a
// kernel on a GPU is threads of this process, one a block, that run the same device code; the movers between
// them copy by the driver's streams.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/channel_impl.hpp"
#include "support/expect_error.hpp"
#include "support/gpu_blocks.hpp"

namespace mgi::test::between_gpus {
namespace {

using device::Group;
using device::Shared;
using device::u32;
using device::u64;

constexpr u64 kRows = 20'000;  // of each source
constexpr u32 kBlocks = 2;

// Endpoints on devices, each a source and a destination, and what every one of them received.
class Exchange {
public:
    Exchange(std::vector<std::string> const& devices, Routing const& routing,
             ChannelOptions const& options) {
        runtime_ = Runtime::local(one_device());
        for (std::string const& device : devices) {
            endpoints_.push_back(runtime_->create_endpoint(device));
        }
        ChannelSpec spec = exchange_among(endpoints_);
        spec.routing = routing;
        spec.options = options;
        channel_ = runtime_->create_channel(spec);
        received_.resize(devices.size());
    }

    // Every block of every endpoint sends its part and receives. Throws what a start throws, or a launch.
    void run() {
        std::vector<Launch> launches;
        std::vector<std::thread> starters;
        std::mutex mutex;
        std::exception_ptr failure;
        for (std::size_t e = 0; e < endpoints_.size(); ++e) {
            starters.emplace_back([&, e] {
                try {
                    Launch launch = start(e);
                    std::lock_guard const lock(mutex);
                    launches.push_back(launch);
                } catch (Error const&) {  // the channel may have failed by then
                    std::lock_guard const lock(mutex);
                    failure = std::current_exception();
                }
            });
        }
        for (auto& starter : starters) starter.join();
        if (failure) std::rethrow_exception(failure);
        for (Launch& launch : launches) launch.wait(std::chrono::seconds(60));
    }

    // So long destinations look at each batch.
    void look_for(std::chrono::microseconds time) { look_ = time; }

    // How often each destination saw each value.
    [[nodiscard]] std::vector<std::map<std::int64_t, int>> const& received() const {
        return received_;
    }
    [[nodiscard]] Channel const& channel() const { return channel_; }
    [[nodiscard]] Runtime& runtime() { return *runtime_; }
    [[nodiscard]] std::vector<Endpoint> const& endpoints() const { return endpoints_; }

private:
    Launch start(std::size_t e) {
        device::Channel const on = channel_.on(endpoints_[e]);
        return launch_blocks(
            *runtime_, endpoints_[e], kBlocks, {on},
            [this, e, on](Group const& group, Shared& shared) { exchange(e, on, group, shared); });
    }

    void exchange(std::size_t e, device::Channel const& on, Group const& group, Shared& shared) {
        std::vector<KeyValue> rows;
        for (u64 i = group.block; i < kRows; i += group.blocks) {
            rows.push_back({std::int64_t(i * 7 + e), std::int64_t(e << 32 | i)});
        }
        std::map<std::int64_t, int> seen;
        exchange_rows(on, group, shared, rows, [&](device::ReceivedBatch const& batch) {
            if (look_.count() != 0) std::this_thread::sleep_for(look_);
            for (u32 i = 0; i < batch.rows; ++i) ++seen[batch.column<std::int64_t>(1)[i]];
        });
        std::lock_guard const lock(mutex_);
        for (auto const& [value, count] : seen) received_[e][value] += count;
    }

    std::optional<Runtime> runtime_;
    std::vector<Endpoint> endpoints_;
    Channel channel_;
    std::chrono::microseconds look_{0};
    std::mutex mutex_;
    std::vector<std::map<std::int64_t, int>> received_;
};

ChannelOptions small() {
    ChannelOptions options;
    options.segment_rows = 512;
    options.tile_rows = 256;
    options.chunk_rows = 256;
    options.max_groups = 4;
    return options;
}

void expect_each_row_once(Exchange const& exchange) {
    std::map<std::int64_t, int> all;
    for (auto const& destination : exchange.received()) {
        for (auto const& [value, count] : destination) all[value] += count;
    }
    EXPECT_EQ(all.size(), exchange.endpoints().size() * kRows);
    EXPECT_TRUE(std::all_of(all.begin(), all.end(), [](auto const& of) { return of.second == 1; }));
}

struct Devices {
    char const* name;
    std::vector<std::string> devices;
};

class GpuChannels : public testing::TestWithParam<std::tuple<Devices, char const*>> {
protected:
    [[nodiscard]] static std::vector<std::string> const& devices() {
        return std::get<0>(GetParam()).devices;
    }
    FakeDriver const gpus_{{"DEVICES", "2"}, {"STREAMS", std::get<1>(GetParam())}};
};

INSTANTIATE_TEST_SUITE_P(
    Memories, GpuChannels,
    testing::Combine(testing::Values(Devices{"CpuAndGpu", {"cpu:0", "cuda:0"}},
                                     Devices{"TwoGpus", {"cuda:0", "cuda:1"}},
                                     Devices{"SeveralOfEach",
                                             {"cuda:0", "cpu:0", "cuda:1", "cuda:0", "cpu:0"}}),
                     testing::Values("at once", "late:3", "threads")),
    [](auto const& of) {
        std::string name = std::get<0>(of.param).name;
        std::string const streams = std::get<1>(of.param);
        return name + (streams == "at once" ? "AtOnce" : streams == "threads" ? "Threads" : "Late");
    });

TEST_P(GpuChannels, EveryRowArrivesOnceWhereItsKeyBelongs) {
    Exchange exchange(devices(), Routing::partition("key"), small());
    EXPECT_EQ(exchange.channel().plan().transfer, Transfer::Mixed);
    exchange.run();
    expect_each_row_once(exchange);
    EXPECT_EQ(exchange.channel().stats().rows, devices().size() * kRows);
}

TEST_P(GpuChannels, EveryDestinationGetsABroadcast) {
    Exchange exchange(devices(), Routing::broadcast(), small());
    exchange.run();
    for (auto const& destination : exchange.received()) {
        EXPECT_EQ(destination.size(), devices().size() * kRows);
        EXPECT_TRUE(std::all_of(destination.begin(), destination.end(),
                                [](auto const& of) { return of.second == 1; }));
    }
}

TEST_P(GpuChannels, SomeDestinationGetsWhatIsBalanced) {
    Exchange exchange(devices(), Routing::balance(), small());
    EXPECT_EQ(exchange.channel().plan().transfer, Transfer::ByCopy);
    exchange.run();
    expect_each_row_once(exchange);
}

TEST_P(GpuChannels, ByCopyEvenWithinAGpu) {
    ChannelOptions options = small();
    options.by_reference = false;
    options.credits = 1;
    Exchange exchange(devices(), Routing::partition("key"), options);
    EXPECT_EQ(exchange.channel().plan().transfer, Transfer::ByCopy);
    exchange.run();
    expect_each_row_once(exchange);
}

TEST(GpuChannelsOnce, GiveAllMemoryBack) {
    FakeDriver const gpus({{"DEVICES", "2"}});
    std::map<std::string, std::size_t> before;
    std::vector<std::string> const kinds{"memory", "pinned", "registered", "streams", "events"};
    for (auto const& kind : kinds) before[kind] = gpus.alive(kind);
    {
        Exchange exchange({"cpu:0", "cuda:0", "cuda:1"}, Routing::partition("key"), small());
        EXPECT_GT(gpus.alive("pinned"), before["pinned"]);
        EXPECT_GT(gpus.alive("registered"), before["registered"]);
        exchange.run();
        exchange.runtime().delete_channel(exchange.channel());
    }
    // Fewer: what a test before has left may have gone meanwhile.
    for (auto const& kind : kinds) EXPECT_LE(gpus.alive(kind), before[kind]) << kind;
}

// Freeing a GPU's memory waits for its kernels, also for those that have nothing to do with it.
TEST(GpuChannelsOnce, KernelsKeepWhatIsDeletedMeanwhile) {
    FakeDriver const gpus({{"DEVICES", "2"}});
    Runtime runtime = Runtime::local(one_device());
    Endpoint const used = runtime.create_endpoint("cuda:0");
    std::size_t const before = gpus.alive("memory");
    Channel channel = runtime.create_channel(exchange_among({used}));
    Endpoint const other = runtime.create_endpoint("cuda:1");
    launch_blocks(runtime, other, 1, {}, [&](Group const&, Shared&) {
        runtime.delete_channel(channel);
        channel = Channel();
        EXPECT_GT(gpus.alive("memory"), before);
    }).wait(std::chrono::seconds(60));
    EXPECT_LE(gpus.alive("memory"), before);
}

TEST(GpuChannelsOnce, ACopyThatFailsFailsTheChannelEverywhere) {
    FakeDriver const gpus({{"DEVICES", "2"}});
    Exchange exchange({"cpu:0", "cuda:0"}, Routing::partition("key"), small());
    gpus.fail("cuMemcpyAsync:3:2");
    try {
        exchange.run();
    } catch (Error const&) {
        // Groups may hear of it before they have flushed.
    }
    try {
        exchange.channel().check();
        FAIL() << "it has not failed";
    } catch (Error const& error) {
        EXPECT_NE(std::string(error.what()).find("copy a segment"), std::string::npos)
            << error.what();
    }
    auto const on_gpu = exchange.channel();
    EXPECT_THROW((void)on_gpu.on(exchange.endpoints()[1]), Error);
}

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
    run("0-2,1-2", "0-2:4,1-2:4", small(), {"by cuda:2", "by the host"});
}

TEST_P(GpuWayChannels, StraightAndByTheThirdGpuOfAMesh) {
    run("all", kMesh, small(), {"straight", "by cuda:2", "by the host"});
}

TEST_P(GpuWayChannels, WithTheSmallestPools) {
    ChannelOptions options = small();
    options.by_reference = false;
    options.credits = 1;
    options.slots = 2;
    run("0-2,1-2", "0-2:4,1-2:4", options, {"by cuda:2", "by the host"});
}

TEST_P(GpuWayChannels, WithoutRelaysWhereTheyAreSwitchedOff) {
    ChannelOptions options = small();
    options.relay_host = false;
    run("all", kMesh, options, {"straight", "by cuda:2"});
    options.relay_gpus = false;
    run("all", kMesh, options, {"straight"});
    run("none", "", options, {"by the host"});
}

TEST_P(GpuWayChannels, SlowConsumersStopNobodyForGood) {
    FakeDriver const gpus({{"DEVICES", "3"}, {"STREAMS", GetParam()}, {"LINKS", kMesh}});
    Exchange exchange({"cuda:0", "cuda:1", "cuda:0"}, Routing::partition("key"), small());
    exchange.look_for(std::chrono::microseconds(500));
    exchange.run();
    expect_each_row_once(exchange);
}

TEST_P(GpuWayChannels, CarryOnWithoutAWayThatFails) {
    FakeDriver const gpus({{"DEVICES", "3"}, {"STREAMS", GetParam()}, {"LINKS", kMesh}});
    Exchange exchange({"cuda:0", "cuda:1"}, Routing::partition("key"), small());
    gpus.fail("cuMemcpyAsync:9:2,cuEventRecord:20:2");
    exchange.run();
    expect_each_row_once(exchange);
}

TEST_P(GpuWayChannels, FailWithTheLastWay) {
    FakeDriver const gpus({{"DEVICES", "3"}, {"STREAMS", GetParam()}, {"LINKS", kMesh}});
    Exchange exchange({"cuda:0", "cuda:1"}, Routing::partition("key"), small());
    gpus.fail("cuMemcpyAsync:9+:2");
    run_until_it_fails(exchange);
    expect_error(ErrorCode::Internal,
                 {"no way is left for segments from cuda:", "straight: ", "by cuda:2: ",
                  "by the host: ", "restart the process"},
                 [&] { exchange.channel().check(); });
}

TEST_P(GpuWayChannels, AreDeletedInTheMidst) {
    FakeDriver const gpus({{"DEVICES", "3"}, {"STREAMS", GetParam()}, {"LINKS", kMesh}});
    Exchange exchange({"cuda:0", "cuda:1"}, Routing::partition("key"), small());
    exchange.look_for(std::chrono::milliseconds(5));
    std::thread deleting([&] {
        while (segments(ways_of(exchange)) < 5) std::this_thread::yield();
        exchange.runtime().delete_channel(exchange.channel());
    });
    run_until_it_fails(exchange);
    deleting.join();
    expect_error(ErrorCode::Deleted, {"was deleted"}, [&] { exchange.channel().check(); });
}

TEST(GpuChannelsOnce, DoWithoutARelayThatHasNoMemory) {
    // The first two are segments'.
    FakeDriver const gpus({{"DEVICES", "3"}, {"LINKS", kMesh}, {"FAIL", "cuMemAlloc:3+:2"}});
    ChannelOptions options = small();
    options.relay_host = false;
    Exchange exchange({"cuda:0", "cuda:1"}, Routing::partition("key"), options);
    EXPECT_EQ(names(ways_of(exchange)), Names{"straight"});
    exchange.run();
    expect_each_row_once(exchange);
}

TEST(GpuChannelsOnce, DoWithoutAGpuThatFailsAndHasNoEndpoint) {
    // As of a GPU whose context is lost, and of one that another process has for itself.
    for (char const* const failing : {"cuMemAlloc:3+:700", "cuDevicePrimaryCtxRetain:3+:101"}) {
        FakeDriver const gpus({{"DEVICES", "3"}, {"LINKS", kMesh}, {"FAIL", failing}});
        ChannelOptions options = small();
        options.relay_host = false;
        Exchange exchange({"cuda:0", "cuda:1"}, Routing::partition("key"), options);
        EXPECT_EQ(names(ways_of(exchange)), Names{"straight"}) << failing;
        exchange.run();
        expect_each_row_once(exchange);
    }
}

TEST(GpuChannelsOnce, GiveTheMemoryOfRelaysBack) {
    FakeDriver const gpus({{"DEVICES", "3"}, {"LINKS", kMesh}});
    std::size_t const before = gpus.alive("memory");
    std::size_t const pinned = gpus.alive("pinned");
    {
        Exchange exchange({"cuda:0", "cuda:1"}, Routing::partition("key"), small());
        std::uint64_t const left = exchange.runtime().memory_left();
        exchange.run();
        exchange.runtime().delete_channel(exchange.channel());
        EXPECT_LE(left, exchange.runtime().memory_left());
    }
    EXPECT_LE(gpus.alive("memory"), before);
    EXPECT_LE(gpus.alive("pinned"), pinned);
}

TEST(GpuChannelsOnce, HostCodeSendsToAGpuAndReceivesFromIt) {
    FakeDriver const gpus;
    Runtime runtime = Runtime::local(one_device());
    Endpoint const host = runtime.create_endpoint("cpu:0");
    Endpoint const gpu = runtime.create_endpoint("cuda:0");
    ChannelSpec spec = exchange_among({host});
    spec.destinations = {gpu};
    Channel const there = runtime.create_channel(spec);
    std::swap(spec.sources, spec.destinations);
    Channel const back = runtime.create_channel(spec);

    // A kernel that sends on what it receives.
    device::Channel const in = there.on(gpu);
    device::Channel const out = back.on(gpu);
    auto const kernel = [in, out](Group const& group, Shared& shared) {
        auto const nothing_else = [] {};
        receive_rows(in, group, shared, nothing_else, [&](device::ReceivedBatch const& batch) {
            std::vector<KeyValue> rows(batch.rows);
            for (u32 i = 0; i < batch.rows; ++i) {
                rows[i] = {batch.column<std::int64_t>(0)[i], batch.column<std::int64_t>(1)[i]};
            }
            for (u64 sent = 0; sent < rows.size();) {
                sent += out.send_rows(group, shared, rows.data() + sent, rows.size() - sent).rows;
            }
        });
        (void)out.flush_wait(group, shared);
    };
    std::thread echo(
        [&] { launch_blocks(runtime, gpu, 1, {in, out}, kernel).wait(std::chrono::seconds(60)); });
    std::vector<KeyValue> rows(kRows);
    for (u64 i = 0; i < kRows; ++i) rows[i] = {std::int64_t(i), 3};
    std::thread sending([&] {
        Sender sender = there.sender(host);
        for (u64 sent = 0; sent < kRows;) {
            sent += static_cast<u64>(sender.try_send_rows(rows.data() + sent, sizeof(KeyValue),
                                                          static_cast<std::int64_t>(kRows - sent)));
        }
        sender.flush(std::chrono::seconds(60));
    });
    Receiver receiver = back.receiver(host);
    u64 received = 0;
    while (auto const batch = receiver.recv(std::chrono::seconds(60))) {
        received += static_cast<u64>(batch->rows);
    }
    sending.join();
    echo.join();
    EXPECT_EQ(received, kRows);
}

}  // namespace
}  // namespace mgi::test::between_gpus
