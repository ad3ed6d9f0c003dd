/// \file
/// Two processes that make a channel between GPUs together, played by threads: of one server or of two.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/runtime_impl.hpp"
#include "support/gpu_blocks.hpp"
#include "support/meeting.hpp"

namespace mgi::test::gpu_founding {

using device::Group;
using device::Shared;
using device::u32;
using device::u64;

inline constexpr u32 kProcesses = 2;
inline constexpr u64 kRows = 3'000;  // of each
inline constexpr std::chrono::seconds kPatience{30};

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
    OfBoard(Board& board, u32 rank, std::string server)
        : board_(board), rank_(rank), server_(std::move(server)) {}

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
    [[nodiscard]] std::string server() const override { return server_; }
    std::vector<std::string> gather(ClusterGather const& said) override {
        std::uint32_t const size = said.size;
        std::unique_lock lock(board_.mutex);
        auto& gathering = board_.gatherings[said.key];
        // The one before under this key is over when all have gone.
        board_.changed.wait_for(lock, kPatience, [&] { return gathering.gone == 0; });
        gathering.said.resize(size);
        gathering.said[said.rank] = said.data;
        ++gathering.came;
        board_.changed.notify_all();
        if (!board_.changed.wait_for(lock, kPatience, [&] { return gathering.came == size; })) {
            throw Error(ErrorCode::Timeout, "not all have come to " + said.key);
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
    std::string const server_;
};

/// Runs one thread for each process.
inline void in_each(std::function<void(u32)> const& work) {
    std::vector<std::jthread> threads;
    for (u32 rank = 0; rank < kProcesses; ++rank) threads.emplace_back([&, rank] { work(rank); });
}

/// Processes with an endpoint on a GPU each, and channels among all of them.
class Processes {
public:
    explicit Processes(std::array<std::string, kProcesses> const& devices,
                       std::array<std::string, kProcesses> const& servers = {"here", "here"},
                       GpuAllocator const& allocator = {},
                       std::array<std::optional<bool>, kProcesses> const& encrypts = {}) {
        in_each([&](u32 rank) {
            RuntimeOptions options;
            options.cpu_devices = 1;
            options.gpu_allocator = allocator;
            options.encrypt_wires = encrypts[rank];
            if (servers[0] != servers[1]) options.addresses = {"127.0.0.1"};
            runtimes_[rank] = std::make_unique<Runtime>(Runtime::Impl::joined(
                options, std::make_unique<OfBoard>(board_, rank, servers[rank])));
            mine_[rank] = runtimes_[rank]->create_endpoint(devices[rank]);
            all_[rank] = runtimes_[rank]->gather_endpoints({mine_[rank]});
        });
    }
    void make(std::function<void(ChannelSpec&)> const& change = {}) {
        in_each([&](u32 rank) {
            errors_[rank].clear();
            ChannelSpec spec = exchange_among(all_[rank]);
            if (change) change(spec);
            try {
                channels_[rank] = runtimes_[rank]->create_channel(spec);
            } catch (Error const& error) {
                errors_[rank] = error.what();
            }
        });
    }
    /// Every row comes to so many of them. `look` sees each batch of a process first.
    void exchange(std::function<void(u32, device::ReceivedBatch const&)> const& look = {},
                  int times = 1) {
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
                    if (look) look(rank, batch);
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
        for (auto const& [value, count] : seen) ASSERT_EQ(count, times) << value;
    }
    /// How many destinations elsewhere a process copies into.
    [[nodiscard]] u32 copied_into(u32 rank) const { return test::copied_into(*channels_[rank]); }
    void leave(u32 rank, bool trims = true) {
        runtimes_[rank]->delete_channel(*channels_[rank]);
        channels_[rank].reset();
        if (trims) runtimes_[rank]->trim();
    }
    /// None lasts when it is over for others: it waits for nobody.
    void leave() {
        in_each([&](u32 rank) { leave(rank); });
    }
    /// What they have of channels stays.
    void end_runtimes() {
        in_each([&](u32 rank) { runtimes_[rank].reset(); });
    }
    [[nodiscard]] std::string const& error(u32 rank) const { return errors_[rank]; }
    [[nodiscard]] Runtime& runtime(u32 rank) { return *runtimes_[rank]; }
    [[nodiscard]] ChannelImpl& channel(u32 rank) { return *channels_[rank]->impl(); }

private:
    Board board_;
    std::array<std::unique_ptr<Runtime>, kProcesses> runtimes_;
    std::array<Endpoint, kProcesses> mine_;
    std::array<std::vector<Endpoint>, kProcesses> all_;
    std::array<std::optional<Channel>, kProcesses> channels_;
    std::array<std::string, kProcesses> errors_;
};

}  // namespace mgi::test::gpu_founding
