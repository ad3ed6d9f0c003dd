// Streams and links whose bytes are in GPUs' memory: a driver that is made up, and UCX that is told it knows CUDA.
#include <gtest/gtest.h>

#if MGI_TEST_UCX

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <mgi/runtime.hpp>

#include "gpu/memory.hpp"
#include "mover/link/shared_link.hpp"
#include "support/expect_error.hpp"
#include "support/fake_driver.hpp"
#include "support/fake_ucx.hpp"
#include "transport/ucx/ucx.hpp"
#include "wire/peer.hpp"

namespace mgi::test {
namespace {

using mover::link::kMillisecond;
using mover::link::LinkName;
using mover::link::LinkOptions;
using mover::link::NicBoard;
using mover::link::Route;
using mover::link::routes_of;
using mover::link::WireThread;
using transport::wire::Address;
using transport::wire::WireThreadOptions;

// Two ends of a stream over loopback, each with a GPU's memory beside the host's.
class GpuStreams : public ::testing::Test {
protected:
    GpuStreams() {
        for (int end : {0, 1}) {
            media_[end] = transport::ucx::open()(Address("127.0.0.1:0"));
            memories_[end] = std::make_unique<gpu::DeviceMemory>(0, kBytes);
            media_[end]->add_memory({0, memories_[end]->data(), kBytes});
            streams_[end] = media_[end]->make_stream();
        }
        for (int end : {0, 1}) streams_[end]->join(streams_[1 - end]->card());
    }
    ~GpuStreams() override {
        for (auto& stream : streams_) stream.reset();
        for (int end : {0, 1}) media_[end]->remove_memory({0, memories_[end]->data(), kBytes});
    }
    // Reads until so many bytes have come, or the stream is broken.
    void read(std::vector<iovec> room, std::size_t bytes) {
        auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        for (std::size_t got = 0; got < bytes && streams_[1]->broken().empty();) {
            ASSERT_LT(std::chrono::steady_clock::now(), until);
            for (auto& medium : media_) medium->progress();
            std::size_t here = streams_[1]->read(room);
            got += here;
            while (here != 0) {
                std::size_t const of_first = std::min(here, room.front().iov_len);
                room.front().iov_base = static_cast<char*>(room.front().iov_base) + of_first;
                room.front().iov_len -= of_first;
                here -= of_first;
                if (room.front().iov_len == 0) room.erase(room.begin());
            }
        }
    }

    static constexpr std::size_t kBytes = 100'000;
    FakeDriver const gpus_;
    FakeUcx ucx_;
    std::unique_ptr<gpu::DeviceMemory> memories_[2];
    std::unique_ptr<transport::wire::Medium> media_[2];
    std::unique_ptr<transport::wire::Stream> streams_[2];
};

TEST_F(GpuStreams, LandFromMemoryToMemoryWhateverTheSize) {
    char* const from = memories_[0]->data();
    char* const to = memories_[1]->data();
    for (std::size_t i = 0; i < kBytes; ++i) from[i] = char(i * 7 + i / 251);
    std::string head = "a header";
    std::string seen(head.size(), '?');
    // Small and large ones, behind and ahead of the host's.
    std::vector<std::size_t> const sizes{100, 60'000, 1, 1024, 20'000};
    std::vector<iovec> pieces{{head.data(), head.size()}};
    std::vector<iovec> room{{seen.data(), seen.size()}};
    std::size_t all = 0;
    for (std::size_t const size : sizes) {
        pieces.push_back({from + all, size});
        room.push_back({to + all, size});
        all += size;
    }
    EXPECT_EQ(streams_[0]->write(pieces), head.size() + all);
    read(room, head.size() + all);
    EXPECT_EQ(streams_[1]->broken(), "");
    EXPECT_EQ(seen, head);
    EXPECT_EQ(std::string_view(to, all), std::string_view(from, all));
    EXPECT_EQ(ucx_.sent(), sizes.size());
    EXPECT_EQ(ucx_.landed(), sizes.size());
    EXPECT_EQ(ucx_.mistaken(), 0U);
}

TEST_F(GpuStreams, BreakWhereTheHostWouldWriteAGpusMemory) {
    std::string small = "by the host";
    iovec const piece{small.data(), small.size()};
    EXPECT_EQ(streams_[0]->write({&piece, 1}), small.size());
    read({{memories_[1]->data(), kBytes}}, small.size());
    EXPECT_NE(streams_[1]->broken().find("by the host"), std::string::npos);
    EXPECT_EQ(memories_[1]->data()[0], 0);
}

TEST_F(GpuStreams, BreakWhereAPieceWouldLandInTwoMemories) {
    iovec const piece{memories_[0]->data(), 50'000};
    EXPECT_EQ(streams_[0]->write({&piece, 1}), piece.iov_len);
    std::string host(10'000, '?');
    read({{host.data(), host.size()}, {memories_[1]->data(), kBytes}}, piece.iov_len);
    EXPECT_NE(streams_[1]->broken().find("several memories"), std::string::npos);
    EXPECT_EQ(ucx_.landed() + ucx_.mistaken(), 0U);
}

TEST_F(GpuStreams, MemoryThatCannotBeRegisteredIsAnError) {
    ucx_.register_at_most(0);
    gpu::DeviceMemory const more(0, 1000);
    expect_error(ErrorCode::Refused, {"UCX cannot register 1000 bytes of cuda:0's memory"},
                 [&] { media_[0]->add_memory({0, more.data(), 1000}); });
    EXPECT_EQ(media_[0]->why_not_gpus(), "");
    ucx_.know_cuda(false);
    EXPECT_NE(media_[0]->why_not_gpus().find("knows no CUDA memory"), std::string::npos);
}

// Also a medium that comes later.
TEST(GpuWires, HaveMemoryUntilItIsGivenBack) {
    FakeDriver const gpus;
    FakeUcx ucx;
    WireThreadOptions options;
    options.medium = transport::ucx::open();
    WireThread wires(options);
    gpu::DeviceMemory const one(0, 1000);
    gpu::DeviceMemory const other(0, 1000);
    auto added = wires.add_memory({0, one.data(), 1000});
    EXPECT_EQ(ucx.registered(), 0);
    wires.listen({Address("127.0.0.1:0")});
    EXPECT_EQ(wires.why_not_gpus(), "");
    EXPECT_EQ(ucx.registered(), 1);
    auto more = wires.add_memory({0, other.data(), 1000});
    EXPECT_EQ(ucx.registered(), 2);
    added.reset();
    more.reset();
    EXPECT_EQ(ucx.registered(), 0);
    ucx.register_at_most(0);
    EXPECT_THROW((void)wires.add_memory({0, one.data(), 1000}), Error);
    EXPECT_EQ(ucx.registered(), 0);
    EXPECT_NE(WireThread().why_not_gpus().find("MGI_WIRES=ucx"), std::string::npos);
}

TEST(GpuWires, AreNoneOverTcp) {
    set_log_level("off");
    WireThread near;
    WireThread far;
    NicBoard near_board;
    NicBoard far_board;
    LinkName name{};
    name.fill(3);
    LinkOptions options;
    options.slots.resize(1);
    options.by_streams = true;
    options.progress_limit = 300 * kMillisecond;
    Peer one(1, 1000);
    Peer two(0, 1000);
    Address const to = far.listen({Address("127.0.0.1:0")}).front();
    SharedLink sending(near, name, secret_of(1), routes_of({Route{Address("127.0.0.1:0"), to}}),
                       options, one, near_board);
    SharedLink receiving(far, name, secret_of(1), {}, options, two, far_board);
    one.link = &sending;
    two.link = &receiving;
    one.send_all(sending);
    one.wait_for_failure();
    EXPECT_NE(one.why().find("over TCP"), std::string::npos) << one.why();
    set_log_level("warn");
}

}  // namespace
}  // namespace mgi::test

#endif
