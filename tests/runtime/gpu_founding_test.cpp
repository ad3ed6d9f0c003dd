// Processes that make a channel between GPUs together, played by threads: they share the GPUs' memory as their driver
// has it, and links do where it cannot be shared.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "runtime/crossing.hpp"
#include "support/expect_error.hpp"
#include "support/gpu_founding.hpp"

namespace mgi::test::gpu_founding {
namespace {

class GpuFounding : public testing::Test {
protected:
    GpuFounding() { set_log_level("off"); }
    ~GpuFounding() override {
        set_log_level("warn");
        unsetenv("MGI_GPU_IPC");
    }
    /// What is alive of a kind that was not when it was asked for.
    static std::function<std::size_t()> counted(FakeDriver const& gpus, std::string const& kind) {
        return [&gpus, kind, before = gpus.alive(kind)] { return gpus.alive(kind) - before; };
    }
    void expect_links(Processes& processes) {
        for (int round = 0; round < 2; ++round) {
            processes.make();
            ASSERT_EQ(processes.error(0), "");
            ASSERT_EQ(processes.error(1), "");
            EXPECT_EQ(processes.copied_into(0), 0);
            EXPECT_EQ(processes.copied_into(1), 0);
            processes.exchange();
            processes.leave();
        }
    }
};

TEST_F(GpuFounding, GpusShareMappedMemory) {
    FakeDriver const gpus{{"DEVICES", "2"}, {"STREAMS", "threads"}};
    auto const mapped = counted(gpus, "mapped");
    auto const memory = counted(gpus, "memory");
    for (char const* second : {"cuda:0", "cuda:1"}) {
        Processes processes({"cuda:0", second});
        processes.make([](ChannelSpec& spec) { spec.options.by_reference = false; });
        ASSERT_EQ(processes.error(0) + processes.error(1), "");
        EXPECT_EQ(processes.copied_into(0), 1);
        EXPECT_EQ(processes.copied_into(1), 1);
        EXPECT_GT(mapped(), 0);
        processes.exchange();
        processes.leave();
        EXPECT_EQ(mapped(), 0);
        EXPECT_EQ(memory(), 0);
    }
}

TEST_F(GpuFounding, WiresAreEncryptedWhereAllWantThat) {
    FakeDriver const gpus{{"DEVICES", "2"}, {"STREAMS", "threads"}};
    Processes both({"cuda:0", "cuda:1"}, {"a", "b"}, {}, {true, true});
    both.make();
    ASSERT_EQ(both.error(0) + both.error(1), "");
    both.exchange();
    ClusterUse use;
    both.channel(0).crossing()->add_use(use);
    ASSERT_FALSE(use.paths.empty());
    EXPECT_EQ(use.paths[0].by, "wire (encrypted)");
    both.leave();
    Processes one({"cuda:0", "cuda:1"}, {"a", "b"}, {}, {true, false});
    one.make();
    for (u32 rank = 0; rank < kProcesses; ++rank) {
        EXPECT_NE(one.error(rank).find("MGI_WIRE_ENCRYPTION is 'on' for rank 0"), std::string::npos)
            << one.error(rank);
        EXPECT_NE(one.error(rank).find("and 'off' for rank 1"), std::string::npos);
    }
}

TEST_F(GpuFounding, PeersReadInPlaceWhatTheOthersHaveForThem) {
    FakeDriver const gpus{{"DEVICES", "2"}, {"STREAMS", "threads"}};
    auto const mapped = counted(gpus, "mapped");
    auto const memory = counted(gpus, "memory");
    Processes processes({"cuda:0", "cuda:1"});
    for (int round = 0; round < 2; ++round) {
        processes.make();
        ASSERT_EQ(processes.error(0) + processes.error(1), "");
        for (u32 rank = 0; rank < kProcesses; ++rank) {
            EXPECT_TRUE(processes.channel(rank).is_between_processes());
            EXPECT_EQ(processes.channel(rank).plan().transfer, Transfer::ByReference);
        }
        EXPECT_GT(mapped(), 0);
        processes.exchange();
        processes.leave();
        EXPECT_EQ(mapped(), 0);
        EXPECT_EQ(memory(), 0);
    }
}

TEST_F(GpuFounding, LinksWherePeersChangeBytes) {
    FakeDriver const gpus{{"DEVICES", "2"}, {"STREAMS", "threads"}, {"BROKEN", "0-1"}};
    Processes processes({"cuda:0", "cuda:1"});
    expect_links(processes);
}

TEST_F(GpuFounding, OneFailsTheOthersToo) {
    FakeDriver const gpus{{"DEVICES", "2"}, {"STREAMS", "threads"}};
    Processes processes({"cuda:0", "cuda:1"});
    processes.make();
    ASSERT_TRUE(processes.channel(0).is_between_processes());
    processes.channel(1).fail(ErrorCode::GroupFailed, "enough");
    auto const until = std::chrono::steady_clock::now() + kPatience;
    while (!processes.channel(0).failed() && std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_NE(processes.channel(0).failure_text().find("enough"), std::string::npos);
    processes.leave();
}

TEST_F(GpuFounding, MappedMemoryOfWhoHasLeftIsStillTheOthers) {
    FakeDriver const gpus{{"DEVICES", "2"}, {"STREAMS", "threads"}};
    auto const mapped = counted(gpus, "mapped");
    Processes processes({"cuda:0", "cuda:1"});
    processes.make();
    processes.exchange();
    std::size_t const before = mapped();
    processes.leave(0);
    EXPECT_LT(mapped(), before);
    processes.leave(1);
    EXPECT_EQ(mapped(), 0);
}

// Whatever channels there are, as long as no kernel runs.
TEST_F(GpuFounding, MappedMemoryIsLetGoOnceItsOwnerHasItNoMore) {
    FakeDriver const gpus{{"DEVICES", "2"}, {"STREAMS", "threads"}};
    auto const mapped = counted(gpus, "mapped");
    Processes processes({"cuda:0", "cuda:1"});
    Runtime& keeper = processes.runtime(1);
    Channel const beside =
        keeper.create_channel(exchange_among({keeper.create_endpoint("cuda:1")}));
    processes.make();
    ASSERT_TRUE(processes.channel(0).is_between_processes());
    processes.leave(1, false);
    processes.leave(0);
    auto const until = std::chrono::steady_clock::now() + kPatience;
    while (mapped() > 1 && std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(mapped(), 1) << "all but the keeper's own";
    keeper.delete_channel(beside);
}

TEST_F(GpuFounding, WhatIsImportedIsLetGoWhereMemoryIsShort) {
    FakeDriver const gpus{{"DEVICES", "2"}, {"STREAMS", "threads"}};
    auto const mapped = counted(gpus, "mapped");
    Processes processes({"cuda:0", "cuda:1"});
    processes.make();
    for (u32 rank = 0; rank < kProcesses; ++rank) processes.leave(rank, false);
    EXPECT_EQ(mapped(), 4) << "what each has, and what it has imported";
    Runtime& second = processes.runtime(1);
    ChannelSpec const spec = exchange_among({second.create_endpoint("cuda:1")});
    gpus.fail("cuMemAlloc:1:2");
    second.delete_channel(second.create_channel(spec));
    EXPECT_LE(mapped(), 2) << "the first process' memory, and its import of what is gone";
}

TEST_F(GpuFounding, PlainMemoryStaysUntilOthersHaveLetGo) {
    FakeDriver const gpus{{"DEVICES", "2"}, {"STREAMS", "threads"}, {"MAPS", "0"}};
    auto const memory = counted(gpus, "memory");
    Processes processes({"cuda:0", "cuda:1"});
    for (int round = 0; round < 2; ++round) {
        processes.make();
        ASSERT_EQ(processes.error(0) + processes.error(1), "");
        EXPECT_EQ(processes.copied_into(0), 1);
        EXPECT_EQ(processes.copied_into(1), 1);
        processes.exchange();
        std::size_t const before = memory();
        processes.leave(0);
        // Its tables have gone, its pool has not.
        EXPECT_EQ(memory(), before - 1);
        processes.leave(1);
        EXPECT_EQ(memory(), 0);
    }
}

TEST_F(GpuFounding, PlainMemoryIfTheUserSaysSo) {
    setenv("MGI_GPU_IPC", "plain", 1);
    FakeDriver const gpus{{"DEVICES", "1"}, {"STREAMS", "threads"}};
    auto const mapped = counted(gpus, "mapped");
    Processes processes({"cuda:0", "cuda:0"});
    processes.make();
    ASSERT_EQ(processes.error(0) + processes.error(1), "");
    EXPECT_EQ(mapped(), 0);
    EXPECT_EQ(processes.copied_into(0), 1);
    processes.exchange();
    processes.leave();
}

TEST_F(GpuFounding, LinksWhereTheUserSaysSo) {
    setenv("MGI_GPU_IPC", "off", 1);
    FakeDriver const gpus{{"DEVICES", "2"}, {"STREAMS", "threads"}};
    Processes processes({"cuda:0", "cuda:1"});
    expect_links(processes);
}

TEST_F(GpuFounding, LinksWhereMemoryCannotBeImported) {
    FakeDriver const gpus{{"DEVICES", "2"}, {"STREAMS", "threads"}};
    Processes processes({"cuda:0", "cuda:1"});
    gpus.fail("cuMemImportFromShareableHandle:1+:801");
    expect_links(processes);
    gpus.fail("");
}

TEST_F(GpuFounding, LinksWhereMappedMemoryCannotBeExported) {
    FakeDriver const gpus{{"DEVICES", "2"}, {"STREAMS", "threads"}};
    Processes processes({"cuda:0", "cuda:1"});
    processes.make();  // tries what GPUs can
    processes.leave();
    gpus.fail("cuMemExportToShareableHandle:1+:801");
    expect_links(processes);
    gpus.fail("");
}

TEST_F(GpuFounding, LinksWhereOneOfThemCannotImport) {
    FakeDriver const gpus{{"DEVICES", "2"}, {"STREAMS", "threads"}};
    auto const memory = counted(gpus, "memory");
    Processes processes({"cuda:0", "cuda:1"});
    gpus.fail("cuMemImportFromShareableHandle:1:801");
    processes.make();
    gpus.fail("");
    ASSERT_EQ(processes.error(0) + processes.error(1), "");
    EXPECT_EQ(processes.copied_into(0) + processes.copied_into(1), 1);
    processes.exchange();
    processes.leave();
    EXPECT_EQ(memory(), 0);
}

TEST_F(GpuFounding, LinksWhereMemoryCannotBeExported) {
    FakeDriver const gpus{{"DEVICES", "2"}, {"STREAMS", "threads"}, {"MAPS", "0"}};
    Processes processes({"cuda:0", "cuda:1"});
    gpus.fail("cuIpcGetMemHandle:1+:801");
    expect_links(processes);
    gpus.fail("");
}

TEST_F(GpuFounding, AGpuWithoutMemoryIsAnErrorForBoth) {
    FakeDriver const gpus{{"DEVICES", "2"}, {"STREAMS", "threads"}};
    auto const memory = counted(gpus, "memory");
    Processes processes({"cuda:0", "cuda:1"});
    gpus.fail("cuMemImportFromShareableHandle:1+:2");
    processes.make();
    gpus.fail("");
    for (u32 rank = 0; rank < kProcesses; ++rank) {
        EXPECT_NE(processes.error(rank).find("OUT_OF_MEMORY"), std::string::npos)
            << processes.error(rank);
        processes.runtime(rank).trim();
    }
    EXPECT_EQ(memory(), 0);
}

}  // namespace
}  // namespace mgi::test::gpu_founding
