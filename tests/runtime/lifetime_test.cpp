// Channels, endpoints and runtimes that end while they are used.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/expect_error.hpp"
#include "support/flow.hpp"

namespace mgi::test {
namespace {

using namespace std::chrono_literals;
using device::Group;
using device::ReceivedBatch;
using device::Shared;
using device::Status;

/// Sends and receives until the channel fails; says with what.
struct Endless {
    std::atomic<int>* running;
    std::atomic<int>* code;

    void operator()(Group const& group, Shared& shared, device::Channel const& channel) const {
        running->fetch_add(1);
        DeviceBatch rows(make_batch(numbered_schema(), numbered_rows(200, 40)));
        for (device::u32 round = 0;; ++round) {
            if (channel.send(group, shared, rows.slice(0, 200)).status == Status::Error) break;
            ReceivedBatch batch;
            Status const status = channel.recv(group, shared, batch);
            if (status == Status::Error) break;
            if (status == Status::Ok) channel.release(group, shared, batch);
            if (status == Status::Pending) device::backoff(round % 40);
        }
        code->store(static_cast<int>(channel.error()));
        running->fetch_sub(1);
    }
};

class Lifetime : public ::testing::TestWithParam<bool> {
protected:
    void SetUp() override {
        runtime_ = Runtime::local();
        for (int i = 0; i < 3; ++i) ends_.push_back(runtime_->create_endpoint("cpu"));
    }
    Channel open() {
        ChannelSpec spec;
        spec.sources = spec.destinations = ends_;
        spec.schema = numbered_schema();
        spec.routing = Routing::partition("key");
        spec.options.by_reference = GetParam();
        spec.options.segment_rows = 8;
        spec.options.slots = 2;
        spec.options.name = "sales";
        return runtime_->create_channel(spec);
    }
    std::vector<Launch> start(Channel const& channel) {
        LaunchOptions options;
        options.groups = 2;
        options.threads = 2;
        std::vector<Launch> launches;
        for (Endpoint const end : ends_) {
            launches.push_back(
                runtime_->launch(end, options, Endless{&running_, &code_}, channel.on(end)));
        }
        while (running_.load() < 12) std::this_thread::sleep_for(1ms);
        return launches;
    }
    std::optional<Runtime> runtime_;
    std::vector<Endpoint> ends_;
    std::atomic<int> running_{0};
    std::atomic<int> code_{0};
};

TEST_P(Lifetime, ChannelDeletedWhileItIsUsed) {
    for (int round = 0; round < 5; ++round) {
        Channel channel = open();
        auto launches = start(channel);
        std::this_thread::sleep_for(5ms * round);
        runtime_->delete_channel(channel);
        channel = Channel();  // the groups keep the memory they touch
        for (Launch& launch : launches) launch.wait(30s);
        EXPECT_EQ(code_.load(), static_cast<int>(ErrorCode::Deleted));
        EXPECT_EQ(running_.load(), 0);
    }
    for (Endpoint const end : ends_) EXPECT_NO_THROW(runtime_->delete_endpoint(end));
}

TEST_P(Lifetime, RuntimeEndsWhileGroupsRun) {
    auto launches = start(open());
    runtime_.reset();
    EXPECT_EQ(running_.load(), 0);
    EXPECT_EQ(code_.load(), static_cast<int>(ErrorCode::Deleted));
    for (Launch& launch : launches) launch.wait(1s);
}

TEST_P(Lifetime, HostThreadsThatWaitAreWoken) {
    Channel const channel = open();
    std::atomic<int> woken{0};
    std::vector<std::thread> threads;
    threads.emplace_back([&] {
        expect_error(ErrorCode::Deleted, {"sales"}, [&] {
            Receiver receiver = channel.receiver(ends_[0]);
            while (receiver.recv()) {
            }
        });
        ++woken;
    });
    threads.emplace_back([&] {
        expect_error(ErrorCode::Deleted, {"sales"}, [&] {
            Sender sender = channel.sender(ends_[1]);
            sender.send(make_batch(numbered_schema(), numbered_rows(100'000, 40)));
        });
        ++woken;
    });
    threads.emplace_back([&] {
        expect_error(ErrorCode::Deleted, {"sales"}, [&] {
            Sender sender = channel.sender(ends_[2], 0, 2);
            sender.send(make_batch(numbered_schema(), numbered_rows(1000, 40)));
            sender.flush();
        });
        ++woken;
    });
    std::this_thread::sleep_for(50ms);
    runtime_->delete_channel(channel);
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(woken.load(), 3);
}

TEST_P(Lifetime, HandlesOutliveTheRuntime) {
    Channel const channel = open();
    Sender sender = channel.sender(ends_[0]);
    Receiver receiver = channel.receiver(ends_[0]);
    runtime_.reset();
    expect_error(ErrorCode::Deleted, {"sales"},
                 [&] { sender.send(make_batch(numbered_schema(), numbered_rows(1, 1))); });
    expect_error(ErrorCode::Deleted, {"sales"}, [&] { (void)receiver.recv(1s); });
    EXPECT_EQ(channel.stats().rows, 0U);
}

TEST_P(Lifetime, ManyChannelsComeAndGo) {
    for (int i = 0; i < 100; ++i) {
        Channel const channel = open();
        EXPECT_EQ(channel.id(), static_cast<std::uint32_t>(i));
        runtime_->delete_channel(channel);
    }
    EXPECT_EQ(runtime_->create_endpoint("cpu").id, 3U);
    std::uint64_t const before = runtime_->memory_left();
    {
        Channel const channel = open();
        EXPECT_LT(runtime_->memory_left(), before);
        runtime_->delete_channel(channel);
    }
    EXPECT_EQ(runtime_->memory_left(), before);
}

TEST_P(Lifetime, MemoryGoesUnlessALaunchCouldTouchIt) {
    std::uint64_t const before = runtime_->memory_left();
    for (bool const stranger : {true, false}) {
        Channel channel = open();
        Endpoint const where = stranger ? runtime_->create_endpoint("cpu") : ends_[0];
        std::atomic<bool> on{true};
        // It may have the channel from elsewhere, as kernels at its endpoints may.
        Launch launch = runtime_->launch(where, {}, [&](Group const&, Shared&) {
            while (on) std::this_thread::sleep_for(1ms);
        });
        runtime_->delete_channel(channel);
        channel = Channel();
        EXPECT_EQ(runtime_->memory_left() == before, stranger);
        on = false;
        launch.wait(30s);
        EXPECT_EQ(runtime_->memory_left(), before);
    }
}

TEST_P(Lifetime, TwoRuntimesInOneProcess) {
    Runtime other = Runtime::local();
    Endpoint const foreign = other.create_endpoint("cpu");
    Channel const channel = open();
    expect_error(ErrorCode::NotFound, {"sales"}, [&] { other.delete_channel(channel); });
    EXPECT_NO_THROW(other.delete_endpoint(foreign));
    EXPECT_NO_THROW(channel.check());
}

INSTANTIATE_TEST_SUITE_P(Transfer, Lifetime, ::testing::Bool(), [](auto const& each) {
    return std::string(each.param ? "ByReference" : "ByCopy");
});

}  // namespace
}  // namespace mgi::test
