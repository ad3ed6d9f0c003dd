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

#include <mgi/runtime.hpp>

#include "gpu/memory.hpp"
#include "runtime/runtime_impl.hpp"
#include "support/fake_driver.hpp"

namespace mgi::test::gpu_sorters {
namespace {

using device::Group;
using device::Shared;
using device::Status;
using device::u32;
using device::u64;

struct Row {
    long long key;
    long long value;
};

constexpr u64 kRows = 20'000;  // of each source
constexpr u32 kBlocks = 2;
constexpr auto kLimit = std::chrono::seconds(60);

void run_sorters(void* at) {
    std::unique_ptr<GpuSorters const> const sorters(static_cast<GpuSorters*>(at));
    std::vector<std::thread> blocks;
    for (u32 b = 0; b < sorters->launch.groups; ++b) {
        blocks.emplace_back([&sorters, b] {
            GpuLaunch const& launch = sorters->launch;
            std::vector<std::byte> scratch(launch.shared_bytes);
            Shared shared{scratch.data(), launch.shared_bytes};
            ErrorCode const code = device::Sorter<device::LibcuAtomics>()(
                {b, launch.groups, 0, 1, launch.first_number + b, nullptr}, shared,
                sorters->channel, sorters->source, sorters->stage);
            sorters->failures[b] = static_cast<u32>(code);
        });
    }
    for (auto& block : blocks) block.join();
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

// Its blocks run as threads; it comes back when they have ended.
GpuStart blocks_of(std::function<void(Group const&, Shared&)> const& kernel) {
    return [kernel](GpuLaunch const& launch) {
        beside = launch.beside;
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

class GpuSorting : public testing::TestWithParam<std::vector<std::string>> {
protected:
    GpuSorting() {
        started = 0;
        provide_gpu_sorters(&start_sorters);
        RuntimeOptions options;
        options.cpu_devices = 1;
        runtime_ = Runtime::local(options);
    }
    ~GpuSorting() override { provide_gpu_sorters(nullptr); }

    void make(std::vector<std::string> const& devices) {
        ChannelSpec spec;
        for (auto const& device : devices) endpoints_.push_back(runtime_->create_endpoint(device));
        spec.sources = spec.destinations = endpoints_;
        spec.schema = Schema{{"key", int64()}, {"value", int64()}};
        spec.routing = Routing::partition("key");
        spec.options.sorters = 3;
        spec.options.max_groups = 4;
        spec.options.name = "sorted";
        channel_ = runtime_->create_channel(spec);
    }
    void exchange(std::size_t e, device::Channel const& on, Group const& group, Shared& shared) {
        std::map<long long, int> seen;
        u64 next = group.block;
        bool flushed = false;
        for (u32 idle = 0;;) {
            if (next < kRows) {
                Row const row{static_cast<long long>(next * 7 + e),
                              static_cast<long long>(e * kRows + next)};
                auto const sent = on.send_row(group, row);
                if (sent.status == Status::Error) return;
                next += sent.rows * group.blocks;
                if (sent.rows != 0 && next % 64 != group.block) continue;
            } else if (!flushed) {
                flushed = on.flush(group, shared) != Status::Pending;
            }
            device::ReceivedBatch batch;
            Status const status = on.recv(group, shared, batch);
            if (status == Status::Pending) {
                device::backoff(idle++);
                continue;
            }
            if (status != Status::Ok) break;
            for (u32 i = 0; i < batch.rows; ++i) ++seen[batch.column<long long>(1)[i]];
            on.release(group, shared, batch);
            idle = 0;
        }
        std::lock_guard const lock(mutex_);
        for (auto const& [value, count] : seen) received_[value] += count;
    }
    Launch start(std::size_t e) {
        device::Channel const on = channel_.on(endpoints_[e]);
        auto const kernel = [this, e, on](Group const& group, Shared& shared) {
            exchange(e, on, group, shared);
        };
        LaunchOptions options;
        options.groups = kBlocks;
        bool const on_gpu = runtime_->devices()[endpoints_[e].device].kind == VertexKind::Gpu;
        options.threads = on_gpu ? 32 : 1;
        return runtime_->impl()->start(endpoints_[e], options, {on}, kernel, blocks_of(kernel));
    }

    FakeDriver const gpus_{{"DEVICES", "2"}, {"STREAMS", "threads"}};
    std::optional<Runtime> runtime_;
    std::vector<Endpoint> endpoints_;
    Channel channel_;
    std::mutex mutex_;
    std::map<long long, int> received_;
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
