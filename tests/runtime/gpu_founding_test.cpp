// Processes that make a channel between GPUs together, played by threads: they share the GPUs' memory as their driver
// has it, and links do where it cannot be shared.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/runtime_impl.hpp"
#include "support/expect_error.hpp"
#include "support/gpu_blocks.hpp"
#include "support/meeting.hpp"

namespace mgi::test::gpu_founding {
namespace {

using device::Group;
using device::Shared;
using device::u32;
using device::u64;

constexpr u32 kProcesses = 2;
constexpr u64 kRows = 3'000;  // of each
constexpr std::chrono::seconds kPatience{30};

/// Where processes meet.
struct Board {
    std::atomic<u32> next{1};
    std::mutex mutex;
    std::condition_variable changed;
    struct Gathering {
        std::vector<std::string> said;
        u32 came = 0;
        u32 gone = 0;
    };
    std::map<std::string, Gathering> gatherings;
};

class OfBoard final : public Coordinator {
public:
    OfBoard(Board& board, u32 rank) : board_(board), rank_(rank) {}

    std::uint32_t create_endpoint(Device const&) override { return board_.next++; }
    void delete_endpoint(std::uint32_t) override {}
    std::uint32_t create_channel(ChannelSpec const&) override { return board_.next++; }
    void check_channel(std::uint32_t) const override {}
    void delete_channel(std::uint32_t) noexcept override {}
    void leave_channel(std::uint32_t) noexcept override {}
    void put_part(std::uint32_t, int) override {}
    int get_part(std::uint32_t) override { return -1; }
    int share_board(int) override { return -1; }
    [[nodiscard]] Job job() const override {
        Job job;
        job.rank = rank_;
        job.size = kProcesses;
        return job;
    }
    [[nodiscard]] std::string server() const override { return "here"; }
    std::vector<std::string> gather(std::string const& key, std::uint32_t rank, std::uint32_t size,
                                    std::string const& data, std::chrono::milliseconds) override {
        std::unique_lock lock(board_.mutex);
        auto& gathering = board_.gatherings[key];
        // The one before under this key is over when all have gone.
        board_.changed.wait_for(lock, kPatience, [&] { return gathering.gone == 0; });
        gathering.said.resize(size);
        gathering.said[rank] = data;
        ++gathering.came;
        board_.changed.notify_all();
        if (!board_.changed.wait_for(lock, kPatience, [&] { return gathering.came == size; })) {
            throw Error(ErrorCode::Timeout, "not all have come to " + key);
        }
        std::vector<std::string> all = gathering.said;
        if (++gathering.gone == size) {
            gathering = {};
            board_.changed.notify_all();
        }
        return all;
    }
    [[nodiscard]] std::string elsewhere() const override { return ""; }
    [[nodiscard]] bool may_wait() const override { return true; }
    void interrupt() noexcept override {}

private:
    Board& board_;
    u32 const rank_;
};

/// Runs one thread for each process.
void in_each(std::function<void(u32)> const& work) {
    std::vector<std::jthread> threads;
    for (u32 rank = 0; rank < kProcesses; ++rank) threads.emplace_back([&, rank] { work(rank); });
}

/// Processes with an endpoint on a GPU each, and channels among all of them.
class Processes {
public:
    explicit Processes(std::array<std::string, kProcesses> const& devices) {
        in_each([&](u32 rank) {
            RuntimeOptions options;
            options.cpu_devices = 1;
            runtimes_[rank] = std::make_unique<Runtime>(
                Runtime::Impl::joined(options, std::make_unique<OfBoard>(board_, rank)));
            mine_[rank] = runtimes_[rank]->create_endpoint(devices[rank]);
            all_[rank] = runtimes_[rank]->gather_endpoints({mine_[rank]});
        });
    }
    void make() {
        in_each([&](u32 rank) {
            try {
                channels_[rank] = runtimes_[rank]->create_channel(exchange_among(all_[rank]));
            } catch (Error const& error) {
                errors_[rank] = error.what();
            }
        });
    }
    /// Every row comes to one of them, once.
    void exchange() {
        std::map<std::int64_t, int> seen;
        std::mutex mutex;
        in_each([&](u32 rank) {
            device::Channel const on = channels_[rank]->on(mine_[rank]);
            auto const kernel = [&, on, rank](Group const& group, Shared& shared) {
                std::vector<KeyValue> rows;
                for (u64 i = 0; i < kRows; ++i) {
                    rows.push_back({std::int64_t(i * 7), std::int64_t(rank * kRows + i)});
                }
                std::map<std::int64_t, int> mine;
                exchange_rows(on, group, shared, rows, [&](device::ReceivedBatch const& batch) {
                    for (u32 i = 0; i < batch.rows; ++i) ++mine[batch.column<std::int64_t>(1)[i]];
                });
                std::lock_guard const lock(mutex);
                for (auto const& [value, count] : mine) seen[value] += count;
            };
            try {
                launch_blocks(*runtimes_[rank], mine_[rank], 1, {on}, kernel).wait(kPatience);
            } catch (Error const& error) {
                ADD_FAILURE() << error.what();
            }
        });
        EXPECT_EQ(seen.size(), kProcesses * kRows);
        for (auto const& [value, count] : seen) ASSERT_EQ(count, 1) << value;
    }
    /// How many destinations elsewhere a process copies into.
    [[nodiscard]] u32 copied_into(u32 rank) const { return test::copied_into(*channels_[rank]); }
    void leave(u32 rank) {
        runtimes_[rank]->delete_channel(*channels_[rank]);
        channels_[rank].reset();
    }
    /// None lasts when it is over for others: it waits for nobody.
    void leave() {
        in_each([&](u32 rank) { leave(rank); });
    }
    [[nodiscard]] std::string const& error(u32 rank) const { return errors_[rank]; }

private:
    Board board_;
    std::array<std::unique_ptr<Runtime>, kProcesses> runtimes_;
    std::array<Endpoint, kProcesses> mine_;
    std::array<std::vector<Endpoint>, kProcesses> all_;
    std::array<std::optional<Channel>, kProcesses> channels_;
    std::array<std::string, kProcesses> errors_;
};

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
        processes.make();
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
    }
    EXPECT_EQ(memory(), 0);
}

}  // namespace
}  // namespace mgi::test::gpu_founding
