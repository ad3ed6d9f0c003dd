// Processes of two servers that make a channel between GPUs, played by threads: over UCX, which is told that it knows CUDA
// memory, with GPUs of a driver that is made up. No RDMA: UCX brings the bytes over loopback.
#include <gtest/gtest.h>

#if MGI_TEST_UCX

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>

#include "support/fake_ucx.hpp"
#include "support/gpu_founding.hpp"
#include "support/gpu_pool.hpp"
#include "support/temporary_folder.hpp"

namespace mgi::test::gpu_founding {
namespace {

constexpr char const* kFlush = "cuFlushGPUDirectRDMAWrites";

class GpuDirectFounding : public testing::Test {
protected:
    explicit GpuDirectFounding(char const* nics = "flushed")
        : gpus_{{"DEVICES", "2"}, {"STREAMS", "threads"}, {"NICS", nics}} {
        set_log_level("off");
        setenv("MGI_WIRES", "ucx", 1);
        std::filesystem::create_directories(net_.file("lo/device/infiniband"));
    }
    ~GpuDirectFounding() override {
        for (char const* name : {"MGI_WIRES", "MGI_GPU_DIRECT"}) unsetenv(name);
        set_log_level("warn");
    }
    /// On two servers, whose NICs, loopback, are said to be RDMA devices.
    class Far : public Processes {
    public:
        explicit Far(GpuDirectFounding const& test, u32 able = kProcesses,
                     GpuAllocator const& allocator = {})
            : Processes({"cuda:0", "cuda:1"}, {"a", "b"}, allocator) {
            for (u32 rank = 0; rank < able; ++rank) {
                runtime(rank).impl()->network().look_in(test.net_.file(""));
            }
        }
        [[nodiscard]] bool is_direct(u32 rank) {
            return channel(rank).part()->members().is_direct();
        }
    };
    /// The host's memory has what goes between them, and it arrives.
    void expect_staged(Far& processes) const {
        processes.make();
        ASSERT_EQ(processes.error(0) + processes.error(1), "");
        EXPECT_FALSE(processes.is_direct(0));
        EXPECT_FALSE(processes.is_direct(1));
        EXPECT_EQ(ucx_.registered(), 0);
        processes.exchange();
        processes.leave();
        EXPECT_EQ(ucx_.sent() + ucx_.landed() + ucx_.mistaken(), 0U);
        EXPECT_EQ(gpus_.calls(kFlush), 0U);
    }
    static void expect_refused(Far& processes, std::string const& why) {
        processes.make();
        for (u32 rank = 0; rank < kProcesses; ++rank) {
            std::string const& said = processes.error(rank);
            EXPECT_NE(said.find("MGI_GPU_DIRECT"), std::string::npos) << said;
            EXPECT_NE(said.find(why), std::string::npos) << said;
        }
    }

    FakeDriver const gpus_;
    TemporaryFolder const net_;
    FakeUcx ucx_;
};

TEST_F(GpuDirectFounding, SegmentsLieInTheGpusMemoryAndNicsCarryThem) {
    for (char const* wish : {"auto", "on"}) {
        setenv("MGI_GPU_DIRECT", wish, 1);
        std::uint64_t const sent = ucx_.sent();
        Far processes(*this);
        std::uint64_t const host = processes.runtime(0).memory_left();
        processes.make();
        ASSERT_EQ(processes.error(0) + processes.error(1), "");
        ASSERT_TRUE(processes.is_direct(0));
        ASSERT_TRUE(processes.is_direct(1));
        EXPECT_EQ(processes.runtime(0).memory_left(), host);
        for (u32 rank = 0; rank < kProcesses; ++rank) {
            auto const& place = *processes.channel(rank).places().front();
            auto const is_in_gpu = [&](char const* at) {
                auto const memory = place.memory();
                return at >= memory.data && at < memory.data + memory.bytes;
            };
            auto const& source = place.state().sources[rank];
            auto const& destination = place.state().destinations[rank];
            EXPECT_TRUE(is_in_gpu(source.pool + source.lanes[1 - rank].slots[0].offset));
            EXPECT_TRUE(is_in_gpu(destination.pool + destination.rings[1 - rank].slots[0].offset));
        }
        EXPECT_EQ(ucx_.registered(), 2);
        processes.exchange();
        processes.leave();
        EXPECT_EQ(ucx_.registered(), 0);
        EXPECT_GT(ucx_.sent(), sent);
        EXPECT_EQ(ucx_.landed(), ucx_.sent());
        EXPECT_EQ(ucx_.mistaken(), 0U);
    }
}

// NICs need not reach what it has.
TEST_F(GpuDirectFounding, SegmentsAreNoneOfACallersAllocator) {
    GpuPool const pool;
    Far processes(*this, kProcesses, pool.allocator());
    processes.make();
    ASSERT_EQ(processes.error(0) + processes.error(1), "");
    for (u32 rank = 0; rank < kProcesses; ++rank) {
        ASSERT_TRUE(processes.is_direct(rank));
        EXPECT_FALSE(pool.has(processes.channel(rank).places().front()->memory().data));
    }
    EXPECT_EQ(pool.calls(), 2) << "tables are";
    processes.exchange();
    processes.leave();
    EXPECT_EQ(pool.out(), 0U);
}

TEST_F(GpuDirectFounding, ByAnyRoutingAndInSmallSegments) {
    for (Routing const& routing :
         {Routing::partition("key"), Routing::balance(), Routing::broadcast()}) {
        Far processes(*this);
        processes.make([&](ChannelSpec& spec) {
            spec.routing = routing;
            spec.options.segment_rows = spec.options.chunk_rows = spec.options.tile_rows = 64;
            spec.options.slots = 2;
            spec.options.credits = 1;
        });
        ASSERT_EQ(processes.error(0) + processes.error(1), "");
        ASSERT_TRUE(processes.is_direct(0));
        bool const to_all = routing.kind == device::RoutingKind::Broadcast;
        processes.exchange({}, to_all ? int(kProcesses) : 1);
        processes.leave();
        EXPECT_EQ(ucx_.mistaken(), 0U);
    }
}

// Each batch of the other server's is a segment, and there was a flush for it before a kernel saw it.
TEST_F(GpuDirectFounding, WhatNicsHaveWrittenIsFlushedAheadOfItsPublication) {
    Far processes(*this);
    processes.make([](ChannelSpec& spec) {
        spec.options.segment_rows = spec.options.chunk_rows = spec.options.tile_rows = 64;
    });
    ASSERT_EQ(processes.error(0) + processes.error(1), "");
    std::mutex mutex;
    std::uint64_t seen = 0;
    processes.exchange([&](u32 rank, device::ReceivedBatch const& batch) {
        bool const is_own = batch.column<std::int64_t>(1)[0] / std::int64_t(kRows) == rank;
        if (is_own) return;
        std::lock_guard const lock(mutex);
        EXPECT_GE(gpus_.calls(kFlush), ++seen);
    });
    EXPECT_GT(seen, 10U);
    processes.leave();
}

TEST_F(GpuDirectFounding, OffIsByTheHost) {
    setenv("MGI_GPU_DIRECT", "off", 1);
    Far processes(*this);
    expect_staged(processes);
}

TEST_F(GpuDirectFounding, NicsThatAreNoRdmaDevicesAreByTheHost) {
    Far neither(*this, 0);
    expect_staged(neither);
    Far one(*this, 1);
    expect_staged(one);
}

TEST_F(GpuDirectFounding, UcxWithoutCudaIsByTheHost) {
    ucx_.know_cuda(false);
    Far processes(*this);
    expect_staged(processes);
    setenv("MGI_GPU_DIRECT", "on", 1);
    expect_refused(processes, "knows no CUDA memory");
}

TEST_F(GpuDirectFounding, OnWithoutUcxIsRefused) {
    unsetenv("MGI_WIRES");
    setenv("MGI_GPU_DIRECT", "on", 1);
    Far processes(*this);
    expect_refused(processes, "MGI_WIRES=ucx");
}

TEST_F(GpuDirectFounding, OnForOneWhoseOtherEndCannotIsRefusedForBoth) {
    setenv("MGI_GPU_DIRECT", "on", 1);
    Far processes(*this, 1);
    expect_refused(processes, "rank 1 on server b: its NIC lo is no RDMA device");
}

// The first time one of them finds that it cannot; from then on both know.
TEST_F(GpuDirectFounding, MemoryThatCannotBeRegisteredIsByTheHost) {
    for (int const registered : {0, 1}) {
        ucx_.register_at_most(registered);
        Far processes(*this);
        for (int round = 0; round < 2; ++round) expect_staged(processes);
    }
}

TEST_F(GpuDirectFounding, OnIsRefusedWhereMemoryCannotBeRegistered) {
    setenv("MGI_GPU_DIRECT", "on", 1);
    ucx_.register_at_most(1);
    Far processes(*this);
    processes.make();
    for (u32 rank = 0; rank < kProcesses; ++rank) {
        EXPECT_NE(processes.error(rank).find("UCX cannot register"), std::string::npos)
            << processes.error(rank);
    }
    EXPECT_EQ(ucx_.registered(), 0);
}

TEST_F(GpuDirectFounding, ChannelsThatOutliveTheirRuntimesKeepNothingRegistered) {
    Far processes(*this);
    processes.make();
    ASSERT_EQ(processes.error(0) + processes.error(1), "");
    ASSERT_TRUE(processes.is_direct(0));
    processes.end_runtimes();
    EXPECT_EQ(ucx_.registered(), 0);
}

class OrderedNics : public GpuDirectFounding {
protected:
    OrderedNics() : GpuDirectFounding("ordered") {}
};

TEST_F(OrderedNics, NeedNoFlush) {
    Far processes(*this);
    processes.make();
    ASSERT_EQ(processes.error(0) + processes.error(1), "");
    ASSERT_TRUE(processes.is_direct(0));
    processes.exchange();
    processes.leave();
    EXPECT_EQ(gpus_.calls(kFlush), 0U);
}

class UnseenNics : public GpuDirectFounding {
protected:
    UnseenNics() : GpuDirectFounding("unseen") {}
};

TEST_F(UnseenNics, AreByTheHost) {
    Far processes(*this);
    expect_staged(processes);
    setenv("MGI_GPU_DIRECT", "on", 1);
    expect_refused(processes, "cannot say when its kernels see");
}

}  // namespace
}  // namespace mgi::test::gpu_founding

#endif
