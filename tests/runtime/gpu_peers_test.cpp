// GPUs that reach each other's memory hand rows over by reference.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "support/expect_error.hpp"
#include "support/gpu_exchange.hpp"

namespace mgi::test::between_gpus {
namespace {

TEST(GpuPeerChannels, PeersThatAreOfOneMind) {
    FakeDriver const gpus({{"DEVICES", "3"}});
    auto const transfer = [](Routing const& routing, ChannelOptions const& options) {
        Exchange const exchange({"cuda:2", "cuda:0", "cuda:2", "cuda:1"}, routing, options);
        return exchange.channel().plan().transfer;
    };
    EXPECT_EQ(transfer(Routing::partition("key"), small()), Transfer::ByReference);
    EXPECT_EQ(transfer(Routing::direct(), small()), Transfer::ByReference);
    EXPECT_EQ(transfer(Routing::partition("key"), by_copy()), Transfer::ByCopy);
    EXPECT_NE(transfer(Routing::broadcast(), small()), Transfer::ByReference);
    EXPECT_NE(transfer(Routing::balance(), small()), Transfer::ByReference);
}

TEST(GpuPeerChannels, GpusThatAreNoPeersOfOneOfThem) {
    FakeDriver const gpus({{"DEVICES", "3"}, {"PEERS", "0-1,1-2"}});
    Exchange const exchange({"cuda:0", "cuda:1", "cuda:2"}, Routing::partition("key"), small());
    EXPECT_EQ(exchange.channel().plan().transfer, Transfer::Mixed);
}

// Their rows go through the host.
TEST(GpuPeerChannels, PeersThatChangeBytesAreNone) {
    FakeDriver const gpus({{"DEVICES", "2"}, {"STREAMS", "threads"}, {"BROKEN", "0-1"}});
    Exchange exchange({"cuda:0", "cuda:1"}, Routing::partition("key"), small());
    EXPECT_EQ(exchange.channel().plan().transfer, Transfer::Mixed);
    exchange.run();
    expect_each_row_once(exchange);
}

TEST(GpuPeerChannels, PeersByTurns) {
    FakeDriver const gpus({{"DEVICES", "3"}, {"STREAMS", "threads"}});
    Exchange exchange({"cuda:2", "cuda:0", "cuda:2", "cuda:1"}, Routing::partition("key"), small());
    exchange.run();
    expect_each_row_once(exchange);
    EXPECT_EQ(exchange.channel().stats().rows, 4 * kRows);
}

// The second has the memory and the tables of the first.
TEST(GpuPeerChannels, AChannelLikeOneThatIsGoneIsMadeOfIt) {
    FakeDriver const gpus({{"DEVICES", "2"}, {"STREAMS", "threads"}});
    Exchange exchange({"cuda:0", "cuda:1"}, Routing::partition("key"), small());
    std::uint64_t made = 0;
    for (int round = 0; round < 4; ++round) {
        exchange.run();
        expect_each_row_once(exchange);
        exchange.make_again();
        if (round == 0) made = gpus.calls("cuMemAlloc") + gpus.calls("cuMemHostAlloc");
        EXPECT_EQ(gpus.calls("cuMemAlloc") + gpus.calls("cuMemHostAlloc"), made);
    }
}

// Kernels on all of the GPUs hear of it.
TEST(GpuPeerChannels, AFailureReachesPeers) {
    FakeDriver const gpus({{"DEVICES", "2"}, {"STREAMS", "threads"}});
    Runtime runtime = Runtime::local(one_device());
    std::vector<Endpoint> const at{runtime.create_endpoint("cuda:0"),
                                   runtime.create_endpoint("cuda:1")};
    Channel const channel = runtime.create_channel(exchange_among(at));
    std::atomic<int> waiting = 0;
    std::vector<std::thread> kernels;
    for (Endpoint const endpoint : at) {
        device::Channel const on = channel.on(endpoint);
        auto const kernel = [&waiting, on](Group const& group, Shared& shared) {
            ++waiting;
            device::ReceivedBatch batch;
            while (on.recv(group, shared, batch) == device::Status::Pending) {
                std::this_thread::yield();
            }
        };
        kernels.emplace_back([&runtime, endpoint, on, kernel] {
            try {
                launch_blocks(runtime, endpoint, 1, {on}, kernel).wait(std::chrono::seconds(60));
            } catch (Error const& error) {
                EXPECT_NE(error.code(), ErrorCode::Timeout) << error.what();
            }
        });
    }
    while (waiting != 2) std::this_thread::yield();
    channel.fail(ErrorCode::Interrupted, "the test wants it so");
    for (std::thread& kernel : kernels) kernel.join();
}

}  // namespace
}  // namespace mgi::test::between_gpus
