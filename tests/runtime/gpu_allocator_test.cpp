// Channels whose GPU memory a caller's allocator provides.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/expect_error.hpp"
#include "support/gpu_exchange.hpp"
#include "support/gpu_pool.hpp"
#include "support/shared_channel.hpp"

namespace mgi::test::between_gpus {
namespace {

RuntimeOptions with_pool(GpuPool const& pool) {
    RuntimeOptions options = one_device();
    options.gpu_allocator = pool.allocator();
    return options;
}

struct FromPool {
    char const* name;
    std::vector<std::string> devices;
    Routing routing;
    ChannelOptions options;
};

ChannelOptions with_sorters() {
    ChannelOptions options = small();
    options.sorters = 2;
    return options;
}

class GpuAllocatorChannels : public testing::TestWithParam<FromPool> {
protected:
    GpuAllocatorChannels() {
        // What peers are tried with is MGI's own.
        (void)Exchange(GetParam().devices, GetParam().routing, GetParam().options);
    }
    /// Makes a channel, and moves rows where kernels of this test can.
    [[nodiscard]] std::unique_ptr<Exchange> make() const {
        return std::make_unique<Exchange>(GetParam().devices, GetParam().routing,
                                          GetParam().options, with_pool(pool_));
    }
    static void run(Exchange& exchange) {
        if (GetParam().options.sorters != 0) return;  // their kernel is CUDA's
        exchange.run();
        if (GetParam().routing.kind == device::RoutingKind::Broadcast) {
            expect_all_everywhere(exchange);
        } else {
            expect_each_row_once(exchange);
        }
    }

    FakeDriver const gpus_{
        {"DEVICES", "3"}, {"STREAMS", "threads"}, {"LINKS", "0-1:4,0-2:4,1-2:4"}};
    GpuPool const pool_;
};

INSTANTIATE_TEST_SUITE_P(
    Of, GpuAllocatorChannels,
    testing::Values(FromPool{"OneGpu", {"cuda:0", "cuda:0"}, Routing::partition("key"), small()},
                    FromPool{"Peers", {"cuda:0", "cuda:1"}, Routing::partition("key"), small()},
                    FromPool{"Copies", {"cuda:0", "cuda:1"}, Routing::partition("key"), by_copy()},
                    FromPool{"ABroadcast", {"cuda:0", "cuda:1"}, Routing::broadcast(), small()},
                    FromPool{"GpuAndCpu", {"cuda:0", "cpu:0"}, Routing::partition("key"), small()},
                    FromPool{"Sorters", {"cuda:0"}, Routing::partition("key"), with_sorters()}),
    [](auto const& of) { return std::string(of.param.name); });

TEST_P(GpuAllocatorChannels, HaveAllTheirGpuMemoryOfIt) {
    std::size_t const before = gpus_.alive("memory");
    gpus_.fail("none:1:1");  // counts from here
    {
        auto const exchange = make();
        EXPECT_GT(pool_.calls(), 0);
        EXPECT_EQ(gpus_.calls("cuMemAlloc"), std::uint64_t(pool_.calls()));
        EXPECT_EQ(gpus_.calls("cuMemCreate"), 0U);
        run(*exchange);
    }
    EXPECT_EQ(pool_.out(), 0U);
    EXPECT_EQ(gpus_.alive("memory"), before);
}

TEST_P(GpuAllocatorChannels, GiveItBackWhenTheyAreDeleted) {
    auto const exchange = make();
    std::size_t const out = pool_.out();
    for (int round = 0; round < 3; ++round) {
        run(*exchange);
        exchange->make_again();
        EXPECT_EQ(pool_.out(), out);
    }
    Runtime runtime = exchange->runtime();
    runtime.trim();
    EXPECT_EQ(pool_.out(), out) << "of the channel that is there";
}

// Whatever block is missing: nothing is left taken, and the runtime makes channels as before. Channels do without relays
// that have no memory.
TEST_P(GpuAllocatorChannels, FailWithoutALeakWhateverBlockIsMissing) {
    auto exchange = make();
    int const blocks = pool_.calls();
    Runtime runtime = exchange->runtime();
    ChannelSpec const spec = exchange->channel().impl()->spec();
    runtime.delete_channel(exchange->channel());
    exchange = nullptr;
    int failed = 0;
    for (int k = 0; k < blocks; ++k) {
        pool_.throw_at(k);
        try {
            runtime.delete_channel(runtime.create_channel(spec));
        } catch (Error const& error) {
            ++failed;
            EXPECT_EQ(error.code(), ErrorCode::OutOfMemory) << error.what();
            EXPECT_NE(std::string(error.what()).find("gpu_allocator"), std::string::npos)
                << error.what();
        }
        EXPECT_EQ(pool_.out(), 0U) << "without block " << k;
    }
    EXPECT_GT(failed, 0);
    pool_.throw_at(1 << 30);
    runtime.delete_channel(runtime.create_channel(spec));
    EXPECT_EQ(pool_.calls(), blocks);
    EXPECT_EQ(pool_.out(), 0U);
}

TEST_P(GpuAllocatorChannels, AreMadeWhereItHasABlockTheSecondTime) {
    for (int k = 0; k < 3; ++k) {
        pool_.throw_at(k, 1);
        run(*make());
        EXPECT_EQ(pool_.out(), 0U);
    }
}

TEST_P(GpuAllocatorChannels, FailWithoutALeakWhateverTheDriverRefuses) {
    auto const refused = [&](std::string const& call) {
        for (int k = 1; k <= 4; ++k) {
            GpuPool const pool;
            {
                RuntimeOptions options = with_pool(pool);
                gpus_.fail(call + ":" + std::to_string(k) + ":1");
                try {
                    Exchange const exchange(GetParam().devices, GetParam().routing,
                                            GetParam().options, options);
                } catch (Error const&) {
                    EXPECT_EQ(pool.out(), 0U) << call << k;
                }
                gpus_.fail("none:1:1");
            }
            EXPECT_EQ(pool.out(), 0U) << call << k;
        }
    };
    for (char const* const call :
         {"cuMemsetD8Async", "cuMemHostAlloc", "cuMemcpyHtoDAsync", "cuPointerGetAttribute"}) {
        refused(call);
    }
}

TEST_P(GpuAllocatorChannels, ThatFailedGiveItBackBehindAllThatRuns) {
    auto const exchange = make();
    exchange->channel().fail(ErrorCode::Interrupted, "the test wants it so");
    gpus_.fail("none:1:1");
    exchange->make_again();
    EXPECT_GT(gpus_.calls("cuCtxSynchronize"), 0U);
    run(*exchange);
}

TEST_P(GpuAllocatorChannels, TakeAsMuchOfTheMemoryLimit) {
    auto const left = [&](RuntimeOptions const& options) {
        Exchange exchange(GetParam().devices, GetParam().routing, GetParam().options, options);
        return exchange.runtime().memory_left();
    };
    EXPECT_EQ(left(with_pool(pool_)), left(one_device()));
}

TEST(GpuAllocator, GetsItsMemoryBackFromAChannelThatOutlivesTheRuntime) {
    FakeDriver const gpus;
    GpuPool const pool;
    std::optional<Channel> channel;
    {
        Runtime runtime = Runtime::local(with_pool(pool));
        channel = runtime.create_channel(exchange_among({runtime.create_endpoint("cuda:0")}));
    }
    EXPECT_GT(pool.out(), 0U);
    channel.reset();
    EXPECT_EQ(pool.out(), 0U);
}

TEST(GpuAllocator, ThatGivesMemoryOfAnotherGpuIsRefused) {
    FakeDriver const gpus({{"DEVICES", "2"}});
    RuntimeOptions options = one_device();
    options.gpu_allocator.allocate = [](int, std::uint64_t bytes) {
        gpu::Current const there(1);
        gpu::Address at = 0;
        EXPECT_EQ(gpu::Driver::get().cuMemAlloc(&at, bytes), gpu::kSuccess);
        return reinterpret_cast<void*>(at);
    };
    int back = 0;
    options.gpu_allocator.deallocate = [&back](int, void* at, std::uint64_t) {
        ++back;
        (void)gpu::Driver::get().cuMemFree(reinterpret_cast<gpu::Address>(at));
    };
    Runtime runtime = Runtime::local(options);
    Endpoint const on_gpu = runtime.create_endpoint("cuda:0");
    expect_error(ErrorCode::InvalidArgument, {"cuda:0", "gpu_allocator", "memory of cuda:1"},
                 [&] { (void)runtime.create_channel(exchange_among({on_gpu})); });
    EXPECT_EQ(back, 1);
    (void)runtime.create_channel(exchange_among({runtime.create_endpoint("cuda:1")}));
}

TEST(GpuAllocator, HasBothFunctions) {
    RuntimeOptions options = one_device();
    options.gpu_allocator = GpuPool().allocator();
    options.gpu_allocator.deallocate = nullptr;
    expect_error(ErrorCode::InvalidArgument, {"gpu_allocator", "deallocate"},
                 [&] { (void)Runtime::local(options); });
}

// What one process shares with the other is MGI's own, and all else is the allocator's.
TEST(GpuAllocator, ProvidesNothingThatOtherProcessesReach) {
    FakeDriver const gpus({{"DEVICES", "2"}, {"STREAMS", "threads"}});
    auto const calls = [&](std::vector<std::string> const& devices, bool shares) {
        GpuPool const pool;
        {
            Members members(u32(devices.size()), with_pool(pool), u32(devices.size()));
            members.share_gpus(shares);
            std::vector<Owned> ends;
            for (u32 m = 0; m < devices.size(); ++m) {
                ends.push_back(members.create_endpoint(m, devices[m]));
            }
            ChannelSpec spec;
            spec.schema = numbered_schema();
            spec.routing = Routing::partition("key");
            spec.options = small();
            auto const channels = members.open(spec, ends, ends);
            for (Channel const& channel : channels) {
                auto const& place = *channel.impl()->places().front();
                EXPECT_EQ(pool.has(place.memory().data), !shares);
            }
        }
        EXPECT_EQ(pool.out(), 0U);
        return pool.calls();
    };
    EXPECT_EQ(calls({"cuda:0", "cuda:1"}, true), 0) << "peers share tables as well";
    EXPECT_EQ(calls({"cuda:0", "cuda:0"}, true), 2) << "tables alone";
    EXPECT_EQ(calls({"cuda:0", "cuda:1"}, false), 4);
}

}  // namespace
}  // namespace mgi::test::between_gpus
