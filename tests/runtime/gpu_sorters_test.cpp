// Sorters on GPUs, with a driver that is made up: what stands for their kernel is threads that a stream of the
// fake's runs.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gpu/memory.hpp"
#include "support/gpu_blocks.hpp"

namespace mgi::test::gpu_sorters {
namespace {

using device::Group;
using device::Shared;
using device::Status;
using device::u32;
using device::u64;

constexpr u64 kRows = 20'000;  // of each source
constexpr u32 kBlocks = 2;
constexpr auto kLimit = std::chrono::seconds(60);

void run_sorters(void* at) {
    std::unique_ptr<GpuSorters const> const sorters(static_cast<GpuSorters*>(at));
    run_blocks(sorters->launch, [&](Group const& group, Shared& shared) {
        ErrorCode const code = device::Sorter<device::LibcuAtomics>()(
            group, shared, sorters->channel, sorters->source, sorters->stage);
        sorters->failures[group.block] = static_cast<u32>(code);
    });
}

std::atomic<u32> started{0};
std::atomic<u32> beside{0};

void start_sorters(GpuSorters const& sorters) {
    ++started;
    gpu::Driver const& driver = gpu::Driver::get();
    driver.check(
        driver.cuLaunchHostFunc(static_cast<gpu::Stream>(sorters.launch.stream), &run_sorters,
                                std::make_unique<GpuSorters>(sorters).release()),
        "start sorters");
}

class GpuSorting : public testing::TestWithParam<std::vector<std::string>> {
protected:
    GpuSorting() {
        started = 0;
        provide_gpu_sorters(&start_sorters);
        runtime_ = Runtime::local(one_device());
    }
    ~GpuSorting() override { provide_gpu_sorters(nullptr); }

    void make(std::vector<std::string> const& devices) {
        for (auto const& device : devices) endpoints_.push_back(runtime_->create_endpoint(device));
        ChannelSpec spec = exchange_among(endpoints_);
        spec.options.sorters = 3;
        spec.options.max_groups = 4;
        channel_ = runtime_->create_channel(spec);
    }
    void exchange(std::size_t e, device::Channel const& on, Group const& group, Shared& shared) {
        std::map<std::int64_t, int> seen;
        u64 next = group.block;
        bool flushed = false;
        auto const step = [&] {
            if (next >= kRows && !flushed) {
                flushed = on.flush(group, shared) != Status::Pending;
            }
            // Some at a time, as far as there is room.
            for (u64 sent = 1, tries = 0; sent != 0 && next < kRows && tries < 32; ++tries) {
                KeyValue const row{std::int64_t(next * 7 + e), std::int64_t(e * kRows + next)};
                sent = on.send_row(group, row).rows;
                next += sent * group.blocks;
            }
        };
        receive_rows(on, group, shared, step, [&](device::ReceivedBatch const& batch) {
            for (u32 i = 0; i < batch.rows; ++i) ++seen[batch.column<std::int64_t>(1)[i]];
        });
        std::lock_guard const lock(mutex_);
        for (auto const& [value, count] : seen) received_[value] += count;
    }
    Launch start(std::size_t e) {
        device::Channel const on = channel_.on(endpoints_[e]);
        auto const kernel = [this, e, on](Group const& group, Shared& shared) {
            exchange(e, on, group, shared);
        };
        return launch_blocks(*runtime_, endpoints_[e], kBlocks, {on}, kernel,
                             [kernel](GpuLaunch const& launch) {
                                 beside = launch.beside;
                                 run_blocks(launch, kernel);
                             });
    }

    FakeDriver const gpus_{{"DEVICES", "2"}, {"STREAMS", "threads"}};
    std::optional<Runtime> runtime_;
    std::vector<Endpoint> endpoints_;
    Channel channel_;
    std::mutex mutex_;
    std::map<std::int64_t, int> received_;
};

INSTANTIATE_TEST_SUITE_P(Devices, GpuSorting,
                         testing::Values(std::vector<std::string>{"cuda:0"},
                                         std::vector<std::string>{"cuda:0", "cuda:0", "cuda:1"},
                                         std::vector<std::string>{"cpu:0", "cuda:0", "cpu:0"}));

TEST_P(GpuSorting, EveryRowOfEveryThreadArrivesOnce) {
    make(GetParam());
    std::vector<std::thread> starters;
    for (std::size_t e = 0; e < endpoints_.size(); ++e) {
        starters.emplace_back([this, e] { start(e).wait(kLimit); });
    }
    for (auto& starter : starters) starter.join();
    channel_.check();
    EXPECT_EQ(received_.size(), endpoints_.size() * kRows);
    for (auto const& [value, count] : received_) ASSERT_EQ(count, 1) << value;
    u32 gpus = 0;
    for (auto const& device : GetParam()) gpus += device != "cpu:0" ? 1 : 0;
    EXPECT_EQ(started.load(), gpus);
    EXPECT_GE(beside.load(), 3u);
    runtime_->delete_channel(channel_);
}

TEST_F(GpuSorting, SecondLaunchesFindTheirSorters) {
    make({"cuda:0"});
    for (int i = 0; i < 2; ++i) {
        AttachOptions attached;
        attached.channels = {channel_.on(endpoints_[0])};
        runtime_->attach(endpoints_[0], attached).abandon();
    }
    EXPECT_EQ(started.load(), 1u);
    channel_.check();
    // The sorters end with their channel.
    runtime_->delete_channel(channel_);
}

TEST_F(GpuSorting, WhatFitsIsWhatALaunchWouldFind) {
    make({"cuda:0"});
    LaunchOptions options;
    options.threads = 32;
    options.shared_bytes = 100;
    GpuLaunch asked;
    auto const ask = [&](Endpoint endpoint, std::vector<device::Channel> const& given) {
        return runtime_->impl()->fitting(endpoint, options, given, [&](GpuLaunch const& launch) {
            asked = launch;
            return 7u;
        });
    };
    device::Channel const on = channel_.on(endpoints_[0]);
    EXPECT_EQ(ask(endpoints_[0], {on}), 7u);
    EXPECT_EQ(asked.beside, 3u) << "sorters that the launch will start";
    EXPECT_EQ(started.load(), 0u) << "a question starts nothing";
    EXPECT_GE(asked.shared_bytes, on.shared_bytes() + options.shared_bytes);
    // An operator's own channel at an endpoint that another channel is open at.
    ChannelSpec small;
    small.sources = small.destinations = endpoints_;
    small.schema = Schema{{"key", int32()}};
    small.routing = Routing::partition("key");
    small.options.tile_rows = 32;
    Channel const own = runtime_->create_channel(small);
    AttachOptions attached;
    attached.channels = {on};
    Attachment attachment = runtime_->attach(endpoints_[0], attached);
    EXPECT_EQ(ask(endpoints_[0], {own.on(endpoints_[0])}), 7u);
    EXPECT_EQ(asked.beside, 3u) << "sorters that run";
    EXPECT_GE(asked.shared_bytes, on.shared_bytes() + options.shared_bytes);
    EXPECT_EQ(asked.gpu, 0);
    EXPECT_EQ(asked.threads, 32u);
    attachment.abandon();
    Endpoint const cpu = runtime_->create_endpoint("cpu:0");
    EXPECT_EQ(runtime_->most_groups(cpu, options, [](Group const&, Shared&) {}), UINT32_MAX);
    EXPECT_THROW((void)runtime_->most_groups(endpoints_[0], options, [](Group const&, Shared&) {}),
                 Error)
        << "it was not compiled for GPUs";
    runtime_->delete_channel(own);
    runtime_->delete_channel(channel_);
}

TEST_F(GpuSorting, AProgramWithoutTheirKernelIsToldSo) {
    make({"cuda:0"});
    provide_gpu_sorters(nullptr);
    try {
        start(0);
        FAIL() << "launched";
    } catch (Error const& error) {
        EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
        EXPECT_NE(std::string(error.what()).find("gpu_sorters.hpp"), std::string::npos);
    }
    provide_gpu_sorters(&start_sorters);
    start(0).wait(kLimit);
    EXPECT_EQ(received_.size(), kRows);
}

TEST_F(GpuSorting, ASorterThatCannotGoOnFailsItsChannel) {
    make({"cuda:0"});
    provide_gpu_sorters([](GpuSorters const& sorters) {
        sorters.failures[1] = static_cast<u32>(ErrorCode::Closed);
    });
    AttachOptions attached;
    attached.channels = {channel_.on(endpoints_[0])};
    Attachment const attachment = runtime_->attach(endpoints_[0], attached);
    for (int i = 0; i < 10'000 && !channel_.impl()->failed(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    try {
        channel_.check();
        FAIL() << "it has not failed";
    } catch (Error const& error) {
        EXPECT_NE(std::string(error.what()).find("a sorter could not go on"), std::string::npos)
            << error.what();
    }
}

}  // namespace
}  // namespace mgi::test::gpu_sorters
