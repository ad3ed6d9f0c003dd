// Channels over several memories: GPUs and CPU devices. The movers between them copy by the driver's streams.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "support/expect_error.hpp"
#include "support/gpu_exchange.hpp"

namespace mgi::test::between_gpus {
namespace {

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
    bool const peers = devices() == std::vector<std::string>{"cuda:0", "cuda:1"};
    EXPECT_EQ(exchange.channel().plan().transfer, peers ? Transfer::ByReference : Transfer::Mixed);
    exchange.run();
    expect_each_row_once(exchange);
    EXPECT_EQ(exchange.channel().stats().rows, devices().size() * kRows);
}

TEST_P(GpuChannels, EveryRowArrivesInItsRange) {
    for (ChannelOptions const& options : {small(), by_copy()}) {
        std::vector<Row> splitters;
        auto const ends = std::int64_t(devices().size());
        std::int64_t const width = 7 * std::int64_t(kRows) / ends;
        for (std::int64_t d = 1; d < ends; ++d) splitters.push_back({cell(width * d), cell(d)});
        Exchange exchange(devices(),
                          Routing::range({{"key"}}, make_batch(numbered_schema(), splitters)),
                          options);
        exchange.run();
        expect_each_row_once(exchange);
        for (std::int64_t d = 0; d < ends; ++d) {
            for (auto const& [value, count] : exchange.received()[std::size_t(d)]) {
                std::int64_t const key = (value & 0xffffffff) * 7 + (value >> 32);
                ASSERT_EQ(std::min(key / width, ends - 1), d) << key;
            }
        }
    }
}

TEST_P(GpuChannels, EveryDestinationGetsABroadcast) {
    Exchange exchange(devices(), Routing::broadcast(), small());
    exchange.run();
    expect_all_everywhere(exchange);
}

TEST_P(GpuChannels, NamedRowsOfABroadcastArriveThereAlone) {
    for (ChannelOptions const& options : {small(), by_copy()}) {
        Exchange exchange(devices(), Routing::broadcast(), options);
        exchange.name_some();
        exchange.run();
        expect_where_named(exchange);
        EXPECT_EQ(exchange.channel().stats().rows, devices().size() * kRows);
    }
}

// Each GPU has a mover, which brings its segments on through the others, while those use the ways between them.
TEST(GpuChannelsOnce, BroadcastsOfSeveralSourcesArePassedOn) {
    for (char const* const links : {"0-1:4,0-2:4,1-2:4", "0-1:4,1-2:4"}) {
        FakeDriver const gpus({{"DEVICES", "4"}, {"STREAMS", "threads"}, {"LINKS", links}});
        for (std::vector<std::string> const& devices :
             {std::vector<std::string>{"cuda:0", "cuda:1", "cuda:2"},
              std::vector<std::string>{"cuda:0", "cuda:1", "cuda:2", "cuda:3"},
              std::vector<std::string>{"cuda:0", "cuda:1", "cuda:1", "cpu:0", "cuda:2"}}) {
            ChannelOptions options = small();
            options.credits = 2;
            Exchange exchange(devices, Routing::broadcast(), options);
            exchange.run();
            expect_all_everywhere(exchange);
            Exchange named(devices, Routing::broadcast(), options);
            named.name_some();
            named.run();
            expect_where_named(named);
        }
    }
}

TEST_P(GpuChannels, SomeDestinationGetsWhatIsBalanced) {
    Exchange exchange(devices(), Routing::balance(), small());
    EXPECT_EQ(exchange.channel().plan().transfer, Transfer::ByCopy);
    exchange.run();
    expect_each_row_once(exchange);
}

TEST_P(GpuChannels, ByCopyEvenWithinAGpu) {
    ChannelOptions options = by_copy();
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
        runtime.trim();
        EXPECT_GT(gpus.alive("memory"), before);
    }).wait(std::chrono::seconds(60));
    runtime.trim();
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
