// Channels and launches on GPUs, with a driver that is made up: its GPUs' memory is the host's, and what
// stands for a kernel is threads of this process that run the same device code.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include <mgi/runtime.hpp>

#include "runtime/gpu_channels.hpp"
#include "runtime/runtime_impl.hpp"
#include "support/fake_driver.hpp"

namespace mgi::test::on_gpus {
namespace {

using device::Group;
using device::Shared;
using device::Status;
using device::u32;
using device::u64;

RuntimeOptions one_cpu() {
    RuntimeOptions options;
    options.cpu_devices = 1;
    return options;
}

Schema two_columns() {
    return Schema{{"key", int64()}, {"value", int64()}};
}

struct Row {
    long long key;
    long long value;
};

ChannelSpec exchange(std::vector<Endpoint> const& endpoints) {
    ChannelSpec spec;
    spec.sources = spec.destinations = endpoints;
    spec.schema = two_columns();
    spec.routing = Routing::partition("key");
    spec.options.name = "on a gpu";
    return spec;
}

template <class Call>
std::string error_of(ErrorCode code, Call const& call) {
    try {
        call();
    } catch (Error const& error) {
        EXPECT_EQ(error.code(), code) << error.what();
        return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
}

// A launch whose blocks are threads, one for each; it returns when they have ended, as a stream does whose
// work is over.
GpuStart blocks_of(std::function<void(Group const&, Shared&)> const& kernel) {
    return [kernel](GpuLaunch const& launch) {
        std::vector<std::thread> blocks;
        for (u32 b = 0; b < launch.groups; ++b) {
            blocks.emplace_back([&, b] {
                std::vector<std::byte> scratch(launch.shared_bytes);
                Shared shared{scratch.data(), launch.shared_bytes};
                kernel({b, launch.groups, 0, 1, launch.first_number + b, nullptr}, shared);
            });
        }
        for (auto& block : blocks) block.join();
    };
}

TEST(GpuRuntime, HasItsGpusBehindTheCpuDevices) {
    FakeDriver const gpus({{"DEVICES", "2"}});
    Runtime const runtime = Runtime::local(one_cpu());
    ASSERT_EQ(runtime.devices().size(), 3u);
    EXPECT_EQ(runtime.devices()[0].name, "cpu:0");
    EXPECT_EQ(runtime.devices()[2].name, "cuda:1");
    EXPECT_EQ(runtime.devices()[2].kind, VertexKind::Gpu);
}

TEST(GpuRuntime, FindsNoneWhereItIsToldNotToLook) {
    FakeDriver const gpus;
    RuntimeOptions options = one_cpu();
    options.gpus = false;
    EXPECT_EQ(Runtime::local(options).devices().size(), 1u);
}

TEST(GpuRuntime, EndpointsWithoutADeviceAreOnCpus) {
    FakeDriver const gpus;
    Runtime runtime = Runtime::local(one_cpu());
    for (int i = 0; i < 3; ++i) EXPECT_EQ(runtime.create_endpoint().device, 0u);
    EXPECT_EQ(runtime.create_endpoint("cuda:0").device, 1u);
}

TEST(GpuRuntime, ExchangesRowsBetweenTheBlocksOfAnEndpoint) {
    FakeDriver const gpus;
    Runtime runtime = Runtime::local(one_cpu());
    Endpoint const endpoint = runtime.create_endpoint("cuda:0");
    Channel const channel = runtime.create_channel(exchange({endpoint}));
    EXPECT_EQ(channel.plan().transfer, Transfer::ByReference);
    constexpr u64 kRows = 50'000;
    std::vector<Row> rows(kRows);
    for (u64 i = 0; i < kRows; ++i) rows[i] = {static_cast<long long>(i * 7), 1};
    std::atomic<u64> received{0};
    std::atomic<long long> sum{0};
    device::Channel const on = channel.on(endpoint);
    EXPECT_EQ(on.state().staged_bytes, 0u) << "there is one lane: nothing to deal out";
    LaunchOptions options;
    options.groups = 3;
    options.threads = 32;
    auto const kernel = [&](Group const& group, Shared& shared) {
        u64 sent = kRows * group.block / group.blocks;
        u64 const end = kRows * (group.block + 1) / group.blocks;
        bool flushed = false;
        for (u32 idle = 0;;) {
            if (sent < end) {
                sent += on.send_rows(group, shared, rows.data() + sent, end - sent).rows;
            } else if (!flushed) {
                flushed = on.flush(group, shared) != Status::Pending;
            }
            device::ReceivedBatch batch;
            Status const status = on.recv(group, shared, batch);
            if (status == Status::Ok) {
                for (u32 i = 0; i < batch.rows; ++i) sum += batch.column<long long>(0)[i];
                received += batch.rows;
                on.release(group, shared, batch);
                idle = 0;
            } else if (status == Status::Pending) {
                device::backoff(idle++);
            } else {
                return;
            }
        }
    };
    Launch launch =
        runtime.impl()->start(endpoint, options, {on}, [](auto&, auto&) {}, blocks_of(kernel));
    launch.wait(std::chrono::seconds(30));
    EXPECT_EQ(received.load(), kRows);
    EXPECT_EQ(sum.load(),
              7 * static_cast<long long>(kRows) * (static_cast<long long>(kRows) - 1) / 2);
    EXPECT_EQ(channel.stats().rows, kRows);
    runtime.delete_channel(channel);
}

TEST(GpuRuntime, OnlyTilesThatAreDealtOutByKeyTakeSharedMemory) {
    FakeDriver const gpus;
    Runtime runtime = Runtime::local(one_cpu());
    Endpoint const one = runtime.create_endpoint("cuda:0");
    Endpoint const other = runtime.create_endpoint("cuda:0");
    struct Case {
        std::vector<Endpoint> endpoints;
        Routing routing;
        bool staged;
    };
    for (Case const& of : {Case{{one, other}, Routing::partition("key"), true},
                           Case{{one}, Routing::partition("key"), false},
                           Case{{one, other}, Routing::direct(), false},
                           Case{{one, other}, Routing::broadcast(), false},
                           Case{{one, other}, Routing::balance(), false}}) {
        ChannelSpec spec = exchange(of.endpoints);
        spec.routing = of.routing;
        Channel const channel = runtime.create_channel(spec);
        device::Channel const on = channel.on(one);
        EXPECT_EQ(on.state().staged_bytes != 0, of.staged) << int(of.routing.kind);
        // The values of a tile are 64 KiB.
        EXPECT_EQ(on.shared_bytes() > (64u << 10), of.staged) << int(of.routing.kind);
        runtime.delete_channel(channel);
    }
}

TEST(GpuRuntime, TilesTooLargeForSharedMemoryStayWhereTheyLie) {
    FakeDriver const gpus;
    Runtime runtime = Runtime::local(one_cpu());
    Endpoint const endpoint = runtime.create_endpoint("cuda:0");
    Endpoint const other = runtime.create_endpoint("cuda:0");
    for (int const bytes : {8, 1000, 4000, 8000, 65'000}) {
        ChannelSpec spec = exchange({endpoint, other});
        spec.schema = Schema{{"key", int64()}, {"value", fixed_size_binary(bytes)}};
        spec.options.max_groups = 2;
        Channel const channel = runtime.create_channel(spec);
        device::Channel const on = channel.on(endpoint);
        EXPECT_EQ(on.state().staged_bytes != 0, bytes < 8000) << bytes;
        EXPECT_LT(on.shared_bytes(), 160u << 10) << bytes;
        runtime.delete_channel(channel);
    }
    device::ChannelState<device::LibcuAtomics> state;
    state.lane_count = 2;
    state.tile_rows = 1 << 15;
    state.layout.row_bytes = 1 << 17;  // times tile_rows no number of 32 bits
    stage_tiles(state);
    EXPECT_EQ(state.staged_bytes, 0u);
}

TEST(GpuRuntime, GivesTheMemoryBack) {
    FakeDriver const gpus;
    // What other tests have left: a GPU whose context is lost frees nothing.
    std::size_t const before = gpus.alive("memory");
    {
        Runtime runtime = Runtime::local(one_cpu());
        Channel channel = runtime.create_channel(exchange({runtime.create_endpoint("cuda:0")}));
        EXPECT_GT(gpus.alive("memory"), before);
        runtime.delete_channel(channel);
    }
    EXPECT_EQ(gpus.alive("memory"), before);
}

TEST(GpuRuntime, GivesTheStreamOfALaunchBack) {
    FakeDriver const gpus;
    std::size_t const before = gpus.alive("streams");
    Runtime runtime = Runtime::local(one_cpu());
    LaunchOptions options;
    options.threads = 32;
    runtime.impl()
        ->start(
            runtime.create_endpoint("cuda:0"), options, {}, [](auto&, auto&) {},
            blocks_of([](Group const&, Shared&) {}))
        .wait(std::chrono::seconds(30));
    // The thread that watched it does so, which has no context of its own.
    for (u32 idle = 0; gpus.alive("streams") > before && idle < 10'000; ++idle) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_LE(gpus.alive("streams"), before);
}

TEST(GpuRuntime, SaysThatAGpuHasNoMemoryLeft) {
    FakeDriver const gpus;
    Runtime runtime = Runtime::local(one_cpu());
    std::size_t const before = gpus.alive("memory");
    gpus.fail("cuMemAlloc:1+:2");
    Endpoint const endpoint = runtime.create_endpoint("cuda:0");
    std::string const text =
        error_of(ErrorCode::OutOfMemory, [&] { runtime.create_channel(exchange({endpoint})); });
    EXPECT_NE(text.find("cuda:0"), std::string::npos) << text;
    EXPECT_EQ(gpus.alive("memory"), before);
}

TEST(GpuRuntime, RefusesWhatAGpuCannotHaveYet) {
    FakeDriver const gpus;
    Runtime runtime = Runtime::local(one_cpu());
    Endpoint const endpoint = runtime.create_endpoint("cuda:0");
    auto const refusal = [&](ChannelSpec const& spec) {
        return error_of(ErrorCode::InvalidArgument, [&] { runtime.create_channel(spec); });
    };
    ChannelSpec spec = exchange({endpoint});
    spec.options.receive_limit = 1 << 20;
    EXPECT_NE(refusal(spec).find("receive_limit"), std::string::npos);
}

TEST(GpuRuntime, RefusesHostCodeOnAGpusChannel) {
    FakeDriver const gpus;
    Runtime runtime = Runtime::local(one_cpu());
    Endpoint const endpoint = runtime.create_endpoint("cuda:0");
    Channel const channel = runtime.create_channel(exchange({endpoint}));
    for (auto const& call : std::vector<std::function<void()>>{
             [&] { (void)channel.sender(endpoint); }, [&] { (void)channel.receiver(endpoint); }}) {
        std::string const text = error_of(ErrorCode::InvalidArgument, call);
        EXPECT_NE(text.find("only kernels"), std::string::npos) << text;
    }
}

TEST(GpuRuntime, RefusesKernelsThatNvccHasNotSeen) {
    FakeDriver const gpus;
    Runtime runtime = Runtime::local(one_cpu());
    Endpoint const endpoint = runtime.create_endpoint("cuda:0");
    LaunchOptions options;
    options.threads = 32;
    std::string const text = error_of(ErrorCode::InvalidArgument, [&] {
        runtime.launch(endpoint, options, [](Group const&, Shared&) {});
    });
    EXPECT_NE(text.find("nvcc"), std::string::npos) << text;
}

TEST(GpuRuntime, RefusesBlocksOfNoWholeWarpsAndLazyLoading) {
    auto const nothing = blocks_of([](Group const&, Shared&) {});
    auto const start = [&](u32 threads) {
        Runtime runtime = Runtime::local(one_cpu());
        Endpoint const endpoint = runtime.create_endpoint("cuda:0");
        LaunchOptions options;
        options.threads = threads;
        runtime.impl()->start(endpoint, options, {}, [](auto&, auto&) {}, nothing).wait();
    };
    {
        FakeDriver const gpus;
        start(64);
        for (u32 const threads : {1u, 48u, 2048u}) {
            error_of(ErrorCode::InvalidArgument, [&] { start(threads); });
        }
    }
    FakeDriver const gpus({{"LOADING", "LAZY"}});
    std::string const text = error_of(ErrorCode::InvalidArgument, [&] { start(64); });
    EXPECT_NE(text.find("CUDA_MODULE_LOADING=EAGER"), std::string::npos) << text;
}

TEST(GpuRuntime, AKernelThatFaultsFailsItsChannelAndItsLaunch) {
    FakeDriver const gpus;
    Runtime runtime = Runtime::local(one_cpu());
    Endpoint const endpoint = runtime.create_endpoint("cuda:0");
    Channel const channel = runtime.create_channel(exchange({endpoint}));
    LaunchOptions options;
    options.threads = 32;
    gpus.fail("cuStreamQuery:1:700");
    Launch launch = runtime.impl()->start(
        endpoint, options, {channel.on(endpoint)}, [](auto&, auto&) {},
        blocks_of([](Group const&, Shared&) {}));
    std::string const text =
        error_of(ErrorCode::GroupFailed, [&] { launch.wait(std::chrono::seconds(10)); });
    EXPECT_NE(text.find("cuda:0"), std::string::npos) << text;
    error_of(ErrorCode::GroupFailed, [&] { channel.check(); });
    // CPU endpoints go on.
    Endpoint const cpu = runtime.create_endpoint("cpu:0");
    Channel const other = runtime.create_channel(exchange({cpu}));
    other.check();
}

}  // namespace
}  // namespace mgi::test::on_gpus
