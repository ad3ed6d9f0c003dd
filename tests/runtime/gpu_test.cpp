// Channels and launches on GPUs, with a driver that is made up: its GPUs' memory is the host's, and what
// stands for a kernel is threads of this process that run the same device code.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "runtime/gpu_channels.hpp"
#include "support/expect_error.hpp"
#include "support/gpu_blocks.hpp"

namespace mgi::test::on_gpus {
namespace {

using device::Group;
using device::Shared;
using device::u32;
using device::u64;

void nothing(Group const&, Shared&) {}

TEST(GpuRuntime, HasItsGpusBehindTheCpuDevices) {
    FakeDriver const gpus({{"DEVICES", "2"}});
    Runtime const runtime = Runtime::local(one_device());
    ASSERT_EQ(runtime.devices().size(), 3u);
    EXPECT_EQ(runtime.devices()[0].name, "cpu:0");
    EXPECT_EQ(runtime.devices()[2].name, "cuda:1");
    EXPECT_EQ(runtime.devices()[2].kind, VertexKind::Gpu);
}

TEST(GpuRuntime, FindsNoneWhereItIsToldNotToLook) {
    FakeDriver const gpus;
    RuntimeOptions options = one_device();
    options.gpus = false;
    EXPECT_EQ(Runtime::local(options).devices().size(), 1u);
}

TEST(GpuRuntime, EndpointsWithoutADeviceTakeTheFirstFreeGpu) {
    FakeDriver const gpus({{"DEVICES", "3"}});
    Runtime runtime = Runtime::local(one_device());
    EXPECT_EQ(runtime.create_endpoint().device, 1u);
    EXPECT_EQ(runtime.create_endpoint("cuda:1").device, 2u);
    EXPECT_EQ(runtime.create_endpoint("cuda").device, 3u);
    Endpoint const again = runtime.create_endpoint();
    EXPECT_EQ(again.device, 1u);
    runtime.delete_endpoint(again);
    EXPECT_EQ(runtime.create_endpoint("cuda").device, 1u);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(runtime.create_endpoint("cpu").device, 0u);
}

TEST(GpuRuntime, ProcessesOfAServerShareItsGpusOut) {
    FakeDriver const gpus({{"DEVICES", "3"}});
    std::pair<char const*, char const*> const place[] = {
        {"MGI_RANK", "7"}, {"MGI_SIZE", "8"}, {"MGI_LOCAL_RANK", "4"}, {"MGI_LOCAL_SIZE", "5"}};
    for (auto const& [name, value] : place) setenv(name, value, 1);
    Runtime runtime = Runtime::local(one_device());
    for (u32 const device : {3u, 1u, 2u, 3u}) {
        EXPECT_EQ(runtime.create_endpoint().device, device);
    }
    EXPECT_EQ(runtime.create_endpoint("cpu").device, 0u);
    for (auto const& [name, value] : place) unsetenv(name);
}

TEST(GpuRuntime, WithoutAGpuEndpointsAreOnCpusAndNoneIsOnAGpu) {
    FakeDriver const gpus({{"DEVICES", "0"}});
    Runtime runtime = Runtime::local(one_device());
    EXPECT_EQ(runtime.create_endpoint().device, 0u);
    expect_error(ErrorCode::NotFound, {"cuda", "cpu:0"},
                 [&] { (void)runtime.create_endpoint("cuda"); });
}

TEST(GpuRuntime, ExchangesRowsBetweenTheBlocksOfAnEndpoint) {
    FakeDriver const gpus;
    Runtime runtime = Runtime::local(one_device());
    Endpoint const endpoint = runtime.create_endpoint("cuda:0");
    Channel const channel = runtime.create_channel(exchange_among({endpoint}));
    EXPECT_EQ(channel.plan().transfer, Transfer::ByReference);
    constexpr std::int64_t kRows = 50'000;
    std::atomic<std::int64_t> received{0};
    std::atomic<std::int64_t> sum{0};
    device::Channel const on = channel.on(endpoint);
    EXPECT_EQ(on.state().staged_bytes, 0u) << "there is one lane: nothing to deal out";
    auto const kernel = [&](Group const& group, Shared& shared) {
        std::vector<KeyValue> rows;
        for (std::int64_t i = group.block; i < kRows; i += group.blocks) rows.push_back({i * 7, 1});
        exchange_rows(on, group, shared, rows, [&](device::ReceivedBatch const& batch) {
            for (u32 i = 0; i < batch.rows; ++i) sum += batch.column<std::int64_t>(0)[i];
            received += batch.rows;
        });
    };
    launch_blocks(runtime, endpoint, 3, {on}, kernel).wait(std::chrono::seconds(30));
    EXPECT_EQ(received.load(), kRows);
    EXPECT_EQ(sum.load(), 7 * kRows * (kRows - 1) / 2);
    EXPECT_EQ(channel.stats().rows, u64(kRows));
    runtime.delete_channel(channel);
}

TEST(GpuRuntime, OnlyTilesThatAreDealtOutByKeyTakeSharedMemory) {
    FakeDriver const gpus;
    Runtime runtime = Runtime::local(one_device());
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
        ChannelSpec spec = exchange_among(of.endpoints);
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
    Runtime runtime = Runtime::local(one_device());
    Endpoint const endpoint = runtime.create_endpoint("cuda:0");
    Endpoint const other = runtime.create_endpoint("cuda:0");
    for (int const bytes : {8, 1000, 4000, 8000, 65'000}) {
        ChannelSpec spec = exchange_among({endpoint, other});
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

TEST(GpuRuntime, SegmentsAreNoLargerThanWhatIsExpectedFills) {
    FakeDriver const gpus;
    Runtime runtime = Runtime::local(one_device());
    Endpoint const endpoint = runtime.create_endpoint("cuda:0");
    auto const segment = [&](u64 expected) {
        ChannelSpec spec = exchange_among({endpoint});
        spec.options.expected_bytes = expected;
        spec.options.max_groups = 2;
        Channel const channel = runtime.create_channel(spec);
        u64 const bytes = channel.plan().segment_bytes;
        runtime.delete_channel(channel);
        return bytes;
    };
    EXPECT_EQ(segment(1), segment(64 << 10)) << "there is a smallest size that is of use";
    EXPECT_NEAR(double(segment(1 << 18)), 2.0 * (1 << 18), 64.0 * 1024);
    EXPECT_EQ(segment(u64{1} << 40), segment(0));
}

TEST(GpuRuntime, GivesTheMemoryBack) {
    FakeDriver const gpus;
    // What other tests have left: a GPU whose context is lost frees nothing.
    std::size_t const before = gpus.alive("memory");
    {
        Runtime runtime = Runtime::local(one_device());
        Channel channel =
            runtime.create_channel(exchange_among({runtime.create_endpoint("cuda:0")}));
        EXPECT_GT(gpus.alive("memory"), before);
        runtime.delete_channel(channel);
    }
    EXPECT_EQ(gpus.alive("memory"), before);
}

TEST(GpuRuntime, UsesTheStreamOfALaunchAgain) {
    FakeDriver const gpus;
    std::size_t const before = gpus.alive("streams");
    {
        Runtime runtime = Runtime::local(one_device());
        Endpoint const endpoint = runtime.create_endpoint("cuda:0");
        for (int round = 0; round < 5; ++round) {
            launch_blocks(runtime, endpoint, 1, {}, nothing).wait(std::chrono::seconds(30));
            EXPECT_LE(gpus.alive("streams"), before + 1);
        }
    }
    // The thread that watched it has let go of it, which has no context of its own.
    EXPECT_LE(gpus.alive("streams"), before);
}

TEST(GpuRuntime, MakesAChannelAgainOfWhatTheLastOneHad) {
    FakeDriver const gpus({{"DEVICES", "2"}});
    std::size_t const before = gpus.alive("memory");
    Runtime runtime = Runtime::local(one_device());
    ChannelSpec const spec =
        exchange_among({runtime.create_endpoint("cuda:0"), runtime.create_endpoint("cuda:1")});
    auto const make = [&] {
        Channel const channel = runtime.create_channel(spec);
        EXPECT_GT(gpus.alive("memory"), before);
        runtime.delete_channel(channel);
    };
    make();
    std::vector<std::string> const costly{"cuMemAlloc", "cuMemFree", "cuMemHostAlloc",
                                          "cuMemFreeHost", "cuStreamCreate"};
    std::map<std::string, std::uint64_t> calls;
    for (auto const& call : costly) calls[call] = gpus.calls(call);
    make();
    for (auto const& call : costly) EXPECT_EQ(gpus.calls(call), calls[call]) << call;
    runtime.trim();
    EXPECT_EQ(gpus.alive("memory"), before);
}

TEST(GpuRuntime, SaysThatAGpuHasNoMemoryLeft) {
    FakeDriver const gpus;
    Runtime runtime = Runtime::local(one_device());
    std::size_t const before = gpus.alive("memory");
    gpus.fail("cuMemAlloc:1+:2");
    Endpoint const endpoint = runtime.create_endpoint("cuda:0");
    expect_error(ErrorCode::OutOfMemory, {"cuda:0"},
                 [&] { runtime.create_channel(exchange_among({endpoint})); });
    EXPECT_EQ(gpus.alive("memory"), before);
}

TEST(GpuRuntime, RefusesWhatAGpuCannotHaveYet) {
    FakeDriver const gpus;
    Runtime runtime = Runtime::local(one_device());
    Endpoint const endpoint = runtime.create_endpoint("cuda:0");
    ChannelSpec spec = exchange_among({endpoint});
    spec.options.receive_limit = 1 << 20;
    expect_error(ErrorCode::InvalidArgument, {"receive_limit"},
                 [&] { runtime.create_channel(spec); });
}

TEST(GpuRuntime, RefusesHostCodeOnAGpusChannel) {
    FakeDriver const gpus;
    Runtime runtime = Runtime::local(one_device());
    Endpoint const endpoint = runtime.create_endpoint("cuda:0");
    Channel const channel = runtime.create_channel(exchange_among({endpoint}));
    for (auto const& call : std::vector<std::function<void()>>{
             [&] { (void)channel.sender(endpoint); }, [&] { (void)channel.receiver(endpoint); }}) {
        expect_error(ErrorCode::InvalidArgument, {"only kernels"}, call);
    }
}

TEST(GpuRuntime, RefusesKernelsThatNvccHasNotSeen) {
    FakeDriver const gpus;
    Runtime runtime = Runtime::local(one_device());
    Endpoint const endpoint = runtime.create_endpoint("cuda:0");
    LaunchOptions options;
    options.threads = 32;
    expect_error(ErrorCode::InvalidArgument, {"nvcc"},
                 [&] { runtime.launch(endpoint, options, nothing); });
}

TEST(GpuRuntime, RefusesBlocksOfNoWholeWarps) {
    FakeDriver const gpus;
    for (u32 const threads : {64u, 1u, 48u, 2048u}) {
        Runtime runtime = Runtime::local(one_device());
        Endpoint const endpoint = runtime.create_endpoint("cuda:0");
        LaunchOptions options;
        options.threads = threads;
        auto const start = [&] {
            runtime.impl()->start(endpoint, options, {}, nothing, blocks_of(nothing)).wait();
        };
        if (threads == 64) {
            start();
        } else {
            expect_error(ErrorCode::InvalidArgument, {}, start);
        }
    }
}

// The driver would load them when they are first used.
TEST(GpuRuntime, LoadsKernelsBeforeAnyIsResident) {
    ASSERT_TRUE(know_gpu_kernels([](int gpu) -> void* {
        static std::array<char, 8> kernels;
        return &kernels.at(gpu);
    }));
    FakeDriver const gpus({{"DEVICES", "8"}, {"LOADING", "LAZY"}});
    Runtime runtime = Runtime::local(one_device());
    EXPECT_EQ(gpus.calls("cuFuncLoad"), 0U);
    (void)runtime.create_endpoint("cuda:6");
    EXPECT_EQ(gpus.calls("cuFuncLoad"), 1U);
    (void)runtime.create_endpoint("cuda:6");
    EXPECT_EQ(gpus.calls("cuFuncLoad"), 1U);
    (void)runtime.create_endpoint("cuda:7");
    EXPECT_EQ(gpus.calls("cuFuncLoad"), 2U);
}

TEST(GpuRuntime, GoesOnWhereKernelsCannotBeLoaded) {
    ASSERT_TRUE(know_gpu_kernels(
        [](int) -> void* { throw Error(ErrorCode::InvalidArgument, "no kernel for this GPU"); }));
    FakeDriver const gpus({{"DEVICES", "6"}, {"LOADING", "LAZY"}});
    Runtime runtime = Runtime::local(one_device());
    (void)runtime.create_endpoint("cuda:5");
}

TEST(GpuRuntime, ALaunchThatCudaRefusesSaysWhatToDo) {
    FakeDriver const gpus;
    Runtime runtime = Runtime::local(one_device());
    Endpoint const endpoint = runtime.create_endpoint("cuda:0");
    auto const launch = [&](int error) {
        launch_blocks(runtime, endpoint, 1, {}, nothing, [error](GpuLaunch const& on) {
            throw_gpu_error(error, on.gpu, "cudaErrorOfSomeKind", "start a kernel");
        });
    };
    expect_error(ErrorCode::GroupFailed,
                 {"cuda:0: start a kernel: cudaErrorOfSomeKind", "restart the process"},
                 [&] { launch(719); });
    expect_error(ErrorCode::OutOfMemory, {"cuda:0"}, [&] { launch(2); });
    expect_error(ErrorCode::InvalidArgument, {"cudaErrorOfSomeKind"}, [&] { launch(98); });
}

TEST(GpuRuntime, AThreadGetsBackTheGpuThatItHadOrNone) {
    FakeDriver const gpus({{"DEVICES", "8"}});
    auto const current = [] {
        gpu::Context context = nullptr;
        EXPECT_EQ(gpu::Driver::get().cuCtxGetCurrent(&context), gpu::kSuccess);
        return context;
    };
    std::size_t const before = gpus.alive("contexts");
    {
        GpuOfThread const here(7);
        gpu::Context const seventh = current();
        EXPECT_NE(seventh, nullptr);
        {
            GpuOfThread const there(6);
            EXPECT_NE(current(), seventh);
        }
        EXPECT_EQ(current(), seventh);
    }
    EXPECT_EQ(current(), nullptr);
    EXPECT_LE(gpus.alive("contexts"), before + 2) << "of these two and no other";
    expect_error(ErrorCode::InvalidArgument, {"cuda:8"}, [] { GpuOfThread const none(8); });
}

TEST(GpuRuntime, AKernelThatFaultsFailsItsChannelAndItsLaunch) {
    FakeDriver const gpus;
    Runtime runtime = Runtime::local(one_device());
    Endpoint const endpoint = runtime.create_endpoint("cuda:0");
    Channel const channel = runtime.create_channel(exchange_among({endpoint}));
    gpus.fail("cuStreamQuery:1:700");
    Launch launch = launch_blocks(runtime, endpoint, 1, {channel.on(endpoint)}, nothing);
    expect_error(ErrorCode::GroupFailed, {"cuda:0"},
                 [&] { launch.wait(std::chrono::seconds(10)); });
    expect_error(ErrorCode::GroupFailed, {}, [&] { channel.check(); });
    // CPU endpoints go on.
    Endpoint const cpu = runtime.create_endpoint("cpu:0");
    Channel const other = runtime.create_channel(exchange_among({cpu}));
    other.check();
}

}  // namespace
}  // namespace mgi::test::on_gpus
