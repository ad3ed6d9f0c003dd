// Groups of kernels that host code starts by itself, with a driver that is made up: a kernel is a host function
// that a thread of its stream runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gpu/memory.hpp"
#include "support/expect_error.hpp"
#include "support/gpu_blocks.hpp"

namespace mgi::test::attached {
namespace {

using device::Group;
using device::KernelGroups;
using device::Shared;
using device::u32;
using device::u64;

constexpr u64 kRows = 10'000;
constexpr auto kLimit = std::chrono::seconds(60);

// What a kernel is given. It is the kernel's own, since who started it hears nothing of it when a context is lost.
struct Arguments {
    KernelGroups groups;
    BlockKernel body;
    void* parameters[1] = {this};
};

void run_kernel(void** parameters) {
    std::unique_ptr<Arguments const> const arguments(static_cast<Arguments*>(parameters[0]));
    run_blocks(arguments->groups, arguments->body);
}

// A stream of the user's, with one kernel in it.
class Kernel {
public:
    Kernel(KernelGroups const& groups, BlockKernel const& body) {
        gpu::Current const here(0);
        gpu::Driver const& driver = gpu::Driver::get();
        auto arguments = std::make_unique<Arguments>();
        arguments->groups = groups;
        arguments->body = body;
        driver.check(driver.cuLaunchKernel(reinterpret_cast<gpu::Function>(&run_kernel),
                                           groups.count, 1, 1, 32, 1, 1, groups.shared_bytes,
                                           stream_.get(), arguments.release()->parameters, nullptr),
                     "launch");
    }
    ~Kernel() {
        try {
            gpu::Current const here(0);
            (void)gpu::Driver::get().cuStreamSynchronize(stream_.get());
        } catch (Error const&) {
            // The context is lost.
        }
    }
    Kernel(Kernel const&) = delete;
    Kernel& operator=(Kernel const&) = delete;
    [[nodiscard]] void* stream() const { return stream_.get(); }

private:
    gpu::OwnStream stream_{0};
};

class GpuAttach : public testing::Test {
protected:
    GpuAttach() {
        runtime_ = Runtime::local(one_device());
        endpoint_ = runtime_->create_endpoint("cuda:0");
        channel_ = runtime_->create_channel(exchange_among({endpoint_}));
    }
    // The fake's streams end what is in them before the memory goes.
    ~GpuAttach() override { runtime_->delete_channel(channel_); }

    [[nodiscard]] AttachOptions groups(u32 count) const {
        AttachOptions options;
        options.groups = count;
        options.channels = {channel_.on(endpoint_)};
        return options;
    }

    // Sends its part of the rows.
    [[nodiscard]] BlockKernel sends() const {
        return [on = channel_.on(endpoint_)](Group const& group, Shared& shared) {
            std::vector<KeyValue> rows;
            for (u64 i = group.block; i < kRows; i += group.blocks) {
                rows.push_back({std::int64_t(i), 1});
            }
            send_all(on, group, shared, rows);
        };
    }
    [[nodiscard]] BlockKernel receives() {
        return [this, on = channel_.on(endpoint_)](Group const& group, Shared& shared) {
            receive_rows(
                on, group, shared, [] {},
                [&](device::ReceivedBatch const& batch) { received_ += batch.rows; });
        };
    }
    // Whether the group of that number has not ended.
    [[nodiscard]] bool runs(u64 number) const {
        auto const& registry = *runtime_->impl()->registry();
        std::lock_guard const lock(runtime_->impl()->registry()->mutex);
        auto const numbers = registry.groups_on(endpoint_, true);
        return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
    }
    // What kernels have said of the channel's only source, without a look at the GPU's memory.
    [[nodiscard]] bool said_flushed() const {
        auto const& registry = *runtime_->impl()->registry();
        std::lock_guard const lock(runtime_->impl()->registry()->mutex);
        return registry.channels.begin()->second->said_flushed(0);
    }
    void expect_failure(std::string const& word) const {
        expect_error(ErrorCode::GroupFailed, {word}, [&] { channel_.check(); });
    }
    static void expect_refusal(std::string const& word, std::function<void()> const& call) {
        expect_error(ErrorCode::InvalidArgument, {word}, call);
    }

    FakeDriver const gpus_{{"STREAMS", "threads"}};
    std::optional<Runtime> runtime_;
    Endpoint endpoint_;
    Channel channel_;
    std::atomic<u64> received_{0};
};

TEST_F(GpuAttach, KernelsOnStreamsOfTheirOwnSendAndReceive) {
    Attachment sending = runtime_->attach(endpoint_, groups(3));
    Attachment receiving = runtime_->attach(endpoint_, groups(2));
    EXPECT_GE(sending.shared_bytes(), channel_.on(endpoint_).shared_bytes());
    Kernel const receiver(receiving.groups(), receives());
    receiving.launched(receiver.stream());
    Kernel const sender(sending.groups(), sends());
    sending.launched(sender.stream());
    sending.wait(kLimit);
    receiving.wait(kLimit);
    EXPECT_TRUE(sending.done());
    EXPECT_EQ(received_.load(), kRows);
    channel_.check();
}

// Ends of kernels are waited for: the host need not copy words from the GPU then.
TEST_F(GpuAttach, KernelsTellTheHostThatAllGroupsHaveFlushed) {
    Attachment sending = runtime_->attach(endpoint_, groups(2));
    Attachment receiving = runtime_->attach(endpoint_, groups(1));
    Kernel const receiver(receiving.groups(), receives());
    receiving.launched(receiver.stream());
    Kernel const first(sending.groups().part(0, 1), sends());
    sending.launched(first.stream(), 0, 1);
    while (runs(sending.groups().first_number)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_FALSE(said_flushed());
    Kernel const second(sending.groups().part(1, 1), sends());
    sending.launched(second.stream(), 1, 1);
    sending.wait(kLimit);
    EXPECT_TRUE(said_flushed());
    receiving.wait(kLimit);
    // A channel like it has its tables next, and is as new.
    runtime_->delete_channel(
        std::exchange(channel_, runtime_->create_channel(exchange_among({endpoint_}))));
    runtime_->delete_channel(
        std::exchange(channel_, runtime_->create_channel(exchange_among({endpoint_}))));
    EXPECT_FALSE(said_flushed());
}

TEST_F(GpuAttach, TwoKernelsShareAnEndpointsGroups) {
    Attachment sending = runtime_->attach(endpoint_, groups(4));
    Attachment receiving = runtime_->attach(endpoint_, groups(1));
    Kernel const receiver(receiving.groups(), receives());
    receiving.launched(receiver.stream());
    Kernel const first(sending.groups().part(0, 1), sends());
    sending.launched(first.stream(), 0, 1);
    Kernel const second(sending.groups().part(1, 3), sends());
    EXPECT_FALSE(sending.done());
    sending.launched(second.stream(), 1, 3);
    sending.wait(kLimit);
    receiving.wait(kLimit);
    EXPECT_EQ(received_.load(), kRows);
    channel_.check();
}

TEST_F(GpuAttach, AKernelThatEndsWithoutFlushingFailsItsChannel) {
    Attachment attached = runtime_->attach(endpoint_, groups(1));
    Kernel const kernel(attached.groups(),
                        [on = channel_.on(endpoint_)](Group const& group, Shared& shared) {
                            KeyValue const row{1, 1};
                            (void)on.send_rows(group, shared, &row, 1);
                        });
    attached.launched(kernel.stream());
    EXPECT_THROW(attached.wait(kLimit), Error);
    expect_failure("without having flushed");
}

TEST_F(GpuAttach, GroupsThatNeverComeFailTheirChannel) {
    {
        Attachment const attached = runtime_->attach(endpoint_, groups(2));
    }
    expect_failure("launched");
}

// The channel has room for few of the rows, and whoever is to receive them is not launched.
TEST_F(GpuAttach, NobodyWaitsForEverForGroupsThatWereNotLaunched) {
    ChannelSpec spec = exchange_among({endpoint_});
    spec.options.segment_rows = 64;
    spec.options.gone_limit = std::chrono::milliseconds(300);
    runtime_->delete_channel(std::exchange(channel_, runtime_->create_channel(spec)));
    Attachment sending = runtime_->attach(endpoint_, groups(1));
    Attachment receiving = runtime_->attach(endpoint_, groups(2));
    Kernel const sender(sending.groups(), sends());
    sending.launched(sender.stream());
    // Who hears of the failure ends without having flushed, which is no failure of its own.
    sending.wait(kLimit);
    expect_error(ErrorCode::Stalled,
                 {"nobody receives", "endpoint " + std::to_string(endpoint_.id),
                  "Attachment::launched was not called for 2 of 2 attached groups"},
                 [&] { channel_.check(); });
    EXPECT_FALSE(receiving.done());
}

// A group that ends leaves nobody in the lurch as long as others may still come.
TEST_F(GpuAttach, GroupsThatAreLaunchedLateAreAwaited) {
    Attachment sending = runtime_->attach(endpoint_, groups(2));
    Attachment receiving = runtime_->attach(endpoint_, groups(1));
    Kernel const first(sending.groups().part(0, 1),
                       [on = channel_.on(endpoint_)](Group const& group, Shared& shared) {
                           (void)on.flush(group, shared);
                       });
    sending.launched(first.stream(), 0, 1);
    while (runs(sending.groups().first_number)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    Kernel const second(sending.groups().part(1, 1), sends());
    sending.launched(second.stream(), 1, 1);
    Kernel const receiver(receiving.groups(), receives());
    receiving.launched(receiver.stream());
    sending.wait(kLimit);
    receiving.wait(kLimit);
    EXPECT_EQ(received_.load(), kRows / 2);
    channel_.check();
}

TEST_F(GpuAttach, WhatIsAbandonedMayBeAttachedAgain) {
    {
        Attachment attached = runtime_->attach(endpoint_, groups(2));
        attached.abandon();
        EXPECT_TRUE(attached.done());
    }
    channel_.check();
    Attachment again = runtime_->attach(endpoint_, groups(1));
    Kernel const kernel(again.groups(), [this](Group const& group, Shared& shared) {
        sends()(group, shared);
        receives()(group, shared);
    });
    again.launched(kernel.stream());
    again.wait(kLimit);
    EXPECT_EQ(received_.load(), kRows);
}

TEST_F(GpuAttach, GroupsAbandonedAmongOthersAreMissed) {
    Attachment attached = runtime_->attach(endpoint_, groups(2));
    Kernel const kernel(attached.groups().part(0, 1), sends());
    attached.launched(kernel.stream(), 0, 1);
    attached.abandon();
    EXPECT_THROW(attached.wait(kLimit), Error);
    expect_failure("2 groups of this endpoint were to flush");
}

TEST_F(GpuAttach, AKernelThatFaultsFailsItsChannel) {
    Attachment attached = runtime_->attach(endpoint_, groups(1));
    Kernel const kernel(attached.groups(), [](Group const&, Shared&) {});
    gpus_.fail("cuEventQuery:1+:700");
    attached.launched(kernel.stream());
    EXPECT_THROW(attached.wait(kLimit), Error);
    expect_failure("restart the process");
}

TEST_F(GpuAttach, RefusesWhatCannotBe) {
    Endpoint const cpu = runtime_->create_endpoint("cpu:0");
    expect_refusal("cpu:0", [&] { (void)runtime_->attach(cpu, {}); });
    expect_refusal("no groups", [&] { (void)runtime_->attach(endpoint_, groups(0)); });
    AttachOptions options = groups(1);
    options.threads = 48;
    expect_refusal("48", [&] { (void)runtime_->attach(endpoint_, options); });
    Attachment attached = runtime_->attach(endpoint_, groups(2));
    gpu::OwnStream const stream(0);
    expect_refusal("has 2", [&] { attached.launched(stream.get(), 1, 2); });
    int no_stream = 0;
    expect_refusal("no stream", [&] { attached.launched(&no_stream); });
    attached.launched(stream.get(), 0, 1);
    expect_refusal("told of before", [&] { attached.launched(stream.get()); });
    attached.abandon();
}

TEST(GpuAttachOnce, GivesItsEventsBack) {
    FakeDriver const gpus({{"STREAMS", "late:5"}});
    std::size_t const before = gpus.alive("events");
    Runtime runtime = Runtime::local(one_device());
    Attachment attached = runtime.attach(runtime.create_endpoint("cuda:0"), {});
    gpu::OwnStream const stream(0);
    attached.launched(stream.get());
    attached.wait(kLimit);
    for (u32 idle = 0; gpus.alive("events") > before && idle < 10'000; ++idle) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_LE(gpus.alive("events"), before);
}

}  // namespace
}  // namespace mgi::test::attached
