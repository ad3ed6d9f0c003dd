// Groups of kernels that host code starts by itself, with a driver that is made up: a kernel is a host function
// that a thread of its stream runs.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <mgi/runtime.hpp>

#include "gpu/memory.hpp"
#include "support/fake_driver.hpp"

namespace mgi::test::attached {
namespace {

using device::Group;
using device::KernelGroups;
using device::Shared;
using device::Status;
using device::u32;
using device::u64;

struct Row {
    long long key;
    long long value;
};

constexpr u64 kRows = 10'000;
constexpr auto kLimit = std::chrono::seconds(60);

// What a kernel is given: blocks of it run as threads.
struct Arguments {
    KernelGroups groups;
    std::function<void(Group const&, Shared&)> body;
};

void run_blocks(void** parameters) {
    Arguments const& arguments = **static_cast<Arguments**>(parameters[0]);
    std::vector<std::thread> blocks;
    for (u32 b = 0; b < arguments.groups.count; ++b) {
        blocks.emplace_back([&arguments, b] {
            std::vector<std::byte> scratch(arguments.groups.shared_bytes);
            Shared shared = arguments.groups.shared(scratch.data());
            arguments.body(arguments.groups.group(b, 0, 1), shared);
        });
    }
    for (auto& block : blocks) block.join();
}

// A stream of the user's, with one kernel in it.
class Kernel {
public:
    Kernel(KernelGroups const& groups, std::function<void(Group const&, Shared&)> body)
        : arguments_{groups, std::move(body)} {
        gpu::Current const here(0);
        gpu::Driver const& driver = gpu::Driver::get();
        driver.check(driver.cuLaunchKernel(reinterpret_cast<gpu::Function>(&run_blocks),
                                           groups.count, 1, 1, 32, 1, 1, groups.shared_bytes,
                                           stream_.get(), parameters_.data(), nullptr),
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
    Arguments arguments_;
    Arguments* at_ = &arguments_;
    std::vector<void*> parameters_{static_cast<void*>(&at_)};
    gpu::OwnStream stream_{0};
};

class GpuAttach : public testing::Test {
protected:
    GpuAttach() {
        RuntimeOptions options;
        options.cpu_devices = 1;
        runtime_ = Runtime::local(options);
        endpoint_ = runtime_->create_endpoint("cuda:0");
        ChannelSpec spec;
        spec.sources = spec.destinations = {endpoint_};
        spec.schema = Schema{{"key", int64()}, {"value", int64()}};
        spec.routing = Routing::partition("key");
        spec.options.name = "attached";
        channel_ = runtime_->create_channel(spec);
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
    [[nodiscard]] std::function<void(Group const&, Shared&)> sends() const {
        return [on = channel_.on(endpoint_)](Group const& group, Shared& shared) {
            std::vector<Row> rows;
            for (u64 i = group.block; i < kRows; i += group.blocks) {
                rows.push_back({static_cast<long long>(i), 1});
            }
            for (u64 sent = 0; sent < rows.size();) {
                auto const result =
                    on.send_rows(group, shared, rows.data() + sent, rows.size() - sent);
                if (result.status == Status::Error) return;
                sent += result.rows;
            }
            (void)on.flush_wait(group, shared);
        };
    }
    [[nodiscard]] std::function<void(Group const&, Shared&)> receives() {
        return [this, on = channel_.on(endpoint_)](Group const& group, Shared& shared) {
            for (u32 idle = 0;;) {
                device::ReceivedBatch batch;
                Status const status = on.recv(group, shared, batch);
                if (status == Status::Pending) {
                    device::backoff(idle++);
                    continue;
                }
                if (status != Status::Ok) return;
                received_ += batch.rows;
                on.release(group, shared, batch);
                idle = 0;
            }
        };
    }
    [[nodiscard]] std::string failure() const {
        try {
            channel_.check();
        } catch (Error const& error) {
            EXPECT_EQ(error.code(), ErrorCode::GroupFailed);
            return error.what();
        }
        return "";
    }
    template <class Call>
    static std::string refusal(Call const& call) {
        try {
            call();
        } catch (Error const& error) {
            EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
            return error.what();
        }
        ADD_FAILURE() << "not refused";
        return "";
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
    EXPECT_EQ(failure(), "");
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
    EXPECT_EQ(failure(), "");
}

TEST_F(GpuAttach, AKernelThatEndsWithoutFlushingFailsItsChannel) {
    Attachment attached = runtime_->attach(endpoint_, groups(1));
    Kernel const kernel(attached.groups(),
                        [on = channel_.on(endpoint_)](Group const& group, Shared& shared) {
                            Row const row{1, 1};
                            (void)on.send_rows(group, shared, &row, 1);
                        });
    attached.launched(kernel.stream());
    EXPECT_THROW(attached.wait(kLimit), Error);
    EXPECT_NE(failure().find("without having flushed"), std::string::npos) << failure();
}

TEST_F(GpuAttach, GroupsThatNeverComeFailTheirChannel) {
    {
        Attachment const attached = runtime_->attach(endpoint_, groups(2));
    }
    EXPECT_NE(failure().find("launched"), std::string::npos) << failure();
}

TEST_F(GpuAttach, WhatIsAbandonedMayBeAttachedAgain) {
    {
        Attachment attached = runtime_->attach(endpoint_, groups(2));
        attached.abandon();
        EXPECT_TRUE(attached.done());
    }
    EXPECT_EQ(failure(), "");
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
    EXPECT_NE(failure().find("2 groups of this endpoint were to flush"), std::string::npos)
        << failure();
}

TEST_F(GpuAttach, AKernelThatFaultsFailsItsChannel) {
    Attachment attached = runtime_->attach(endpoint_, groups(1));
    Kernel const kernel(attached.groups(), [](Group const&, Shared&) {});
    gpus_.fail("cuEventQuery:1+:700");
    attached.launched(kernel.stream());
    EXPECT_THROW(attached.wait(kLimit), Error);
    EXPECT_NE(failure().find("restart the process"), std::string::npos) << failure();
}

TEST_F(GpuAttach, RefusesWhatCannotBe) {
    Endpoint const cpu = runtime_->create_endpoint("cpu:0");
    EXPECT_NE(refusal([&] { (void)runtime_->attach(cpu, {}); }).find("cpu:0"), std::string::npos);
    EXPECT_NE(refusal([&] { (void)runtime_->attach(endpoint_, groups(0)); }).find("no groups"),
              std::string::npos);
    AttachOptions options = groups(1);
    options.threads = 48;
    EXPECT_NE(refusal([&] { (void)runtime_->attach(endpoint_, options); }).find("48"),
              std::string::npos);
    Attachment attached = runtime_->attach(endpoint_, groups(2));
    gpu::OwnStream const stream(0);
    EXPECT_NE(refusal([&] { attached.launched(stream.get(), 1, 2); }).find("has 2"),
              std::string::npos);
    int no_stream = 0;
    EXPECT_NE(refusal([&] { attached.launched(&no_stream); }).find("no stream"), std::string::npos);
    attached.launched(stream.get(), 0, 1);
    EXPECT_NE(refusal([&] { attached.launched(stream.get()); }).find("told of before"),
              std::string::npos);
    attached.abandon();
}

TEST(GpuAttachOnce, GivesItsEventsBack) {
    FakeDriver const gpus({{"STREAMS", "late:5"}});
    std::size_t const before = gpus.alive("events");
    RuntimeOptions options;
    options.cpu_devices = 1;
    Runtime runtime = Runtime::local(options);
    Attachment attached = runtime.attach(runtime.create_endpoint("cuda:0"), {});
    gpu::OwnStream const stream(0);
    attached.launched(stream.get());
    attached.wait(kLimit);
    for (u32 idle = 0; gpus.alive("events") > before && idle < 10'000; ++idle) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(gpus.alive("events"), before);
}

}  // namespace
}  // namespace mgi::test::attached
