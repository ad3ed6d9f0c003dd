/// \file
/// An exchange over several memories: GPUs and CPU devices, with a driver that is made up. What stands for a kernel on a GPU
/// is threads of this process, one a block, that run the same device code.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/channel_impl.hpp"
#include "support/gpu_blocks.hpp"

namespace mgi::test::between_gpus {

using device::Group;
using device::Shared;
using device::u32;
using device::u64;

inline constexpr u64 kRows = 20'000;  // of each source
inline constexpr u32 kBlocks = 2;

// Endpoints on devices, each a source and a destination, and what every one of them received.
class Exchange {
public:
    Exchange(std::vector<std::string> const& devices, Routing const& routing,
             ChannelOptions const& options, RuntimeOptions const& with = one_device()) {
        runtime_ = Runtime::local(with);
        for (std::string const& device : devices) {
            endpoints_.push_back(runtime_->create_endpoint(device));
        }
        spec_ = exchange_among(endpoints_);
        spec_.routing = routing;
        spec_.options = options;
        channel_ = runtime_->create_channel(spec_);
        received_.resize(devices.size());
    }

    // Deletes the channel, and makes one like it.
    void make_again() {
        runtime_->delete_channel(channel_);
        channel_ = {};
        channel_ = runtime_->create_channel(spec_);
        for (auto& seen : received_) seen.clear();
    }

    // Every block of every endpoint sends its part and receives. Throws what a start throws, or a launch.
    void run() {
        std::vector<Launch> launches;
        std::vector<std::thread> starters;
        std::mutex mutex;
        std::exception_ptr failure;
        for (std::size_t e = 0; e < endpoints_.size(); ++e) {
            starters.emplace_back([&, e] {
                try {
                    Launch launch = start(e);
                    std::lock_guard const lock(mutex);
                    launches.push_back(launch);
                } catch (Error const&) {  // the channel may have failed by then
                    std::lock_guard const lock(mutex);
                    failure = std::current_exception();
                }
            });
        }
        for (auto& starter : starters) starter.join();
        // All of them, whatever one throws: their groups write down here what they received.
        for (Launch& launch : launches) {
            try {
                launch.wait(std::chrono::seconds(60));
            } catch (...) {
                if (!failure) failure = std::current_exception();
            }
        }
        if (failure) std::rethrow_exception(failure);
    }

    // Each group's rows go in runs, by turns to each destination by name and to all, of a broadcast.
    void name_some() { names_ = true; }
    static constexpr u64 kRun = 700;
    // Whom the i-th row of a group is for; their number: all.
    [[nodiscard]] std::size_t turn_of(u64 i) const { return i / kRun % (endpoints_.size() + 1); }

    // So long destinations look at each batch.
    void look_for(std::chrono::microseconds time) { look_ = time; }

    // How often each destination saw each value.
    [[nodiscard]] std::vector<std::map<std::int64_t, int>> const& received() const {
        return received_;
    }
    [[nodiscard]] Channel const& channel() const { return channel_; }
    [[nodiscard]] Runtime& runtime() { return *runtime_; }
    [[nodiscard]] std::vector<Endpoint> const& endpoints() const { return endpoints_; }

private:
    Launch start(std::size_t e) {
        device::Channel const on = channel_.on(endpoints_[e]);
        return launch_blocks(
            *runtime_, endpoints_[e], kBlocks, {on},
            [this, e, on](Group const& group, Shared& shared) { exchange(e, on, group, shared); });
    }

    void exchange(std::size_t e, device::Channel const& on, Group const& group, Shared& shared) {
        std::vector<KeyValue> rows;
        for (u64 i = group.block; i < kRows; i += group.blocks) {
            rows.push_back({std::int64_t(i * 7 + e), std::int64_t(e << 32 | i)});
        }
        std::map<std::int64_t, int> seen;
        auto const take = [&](device::ReceivedBatch const& batch) {
            if (look_.count() != 0) std::this_thread::sleep_for(look_);
            for (u32 i = 0; i < batch.rows; ++i) ++seen[batch.column<std::int64_t>(1)[i]];
        };
        if (names_) {
            exchange_named(on, group, shared, rows, take);
        } else {
            exchange_rows(on, group, shared, rows, take);
        }
        std::lock_guard const lock(mutex_);
        for (auto const& [value, count] : seen) received_[e][value] += count;
    }

    template <class Take>
    void exchange_named(device::Channel const& on, Group const& group, Shared& shared,
                        std::vector<KeyValue> const& rows, Take const& take) {
        u64 sent = 0;
        bool flushed = false;
        auto const step = [&] {
            if (sent == rows.size()) {
                if (!flushed) flushed = on.flush(group, shared) != device::Status::Pending;
                return;
            }
            u64 const run = std::min<u64>(kRun - sent % kRun, rows.size() - sent);
            std::size_t const to = turn_of(sent);
            KeyValue const* const first = rows.data() + sent;
            sent += to == endpoints_.size()
                        ? on.send_rows(group, shared, first, run).rows
                        : on.send_rows_to(group, shared, endpoints_[to].id, first, run).rows;
        };
        receive_rows(on, group, shared, step, take);
    }

    std::optional<Runtime> runtime_;
    std::vector<Endpoint> endpoints_;
    ChannelSpec spec_;
    Channel channel_;
    std::chrono::microseconds look_{0};
    bool names_ = false;
    std::mutex mutex_;
    std::vector<std::map<std::int64_t, int>> received_;
};

inline ChannelOptions small() {
    ChannelOptions options;
    options.segment_rows = 512;
    options.tile_rows = 256;
    options.chunk_rows = 256;
    options.max_groups = 4;
    return options;
}

// Peers hand rows over by reference, unless they are told not to.
inline ChannelOptions by_copy() {
    ChannelOptions options = small();
    options.by_reference = false;
    return options;
}

inline void expect_each_row_once(Exchange const& exchange) {
    std::map<std::int64_t, int> all;
    for (auto const& destination : exchange.received()) {
        for (auto const& [value, count] : destination) all[value] += count;
    }
    EXPECT_EQ(all.size(), exchange.endpoints().size() * kRows);
    EXPECT_TRUE(std::all_of(all.begin(), all.end(), [](auto const& of) { return of.second == 1; }));
}

inline void expect_where_named(Exchange const& exchange) {
    std::size_t const ends = exchange.endpoints().size();
    for (std::size_t d = 0; d < ends; ++d) {
        std::map<std::int64_t, int> expected;
        for (std::size_t e = 0; e < ends; ++e) {
            for (u64 i = 0; i < kRows; ++i) {
                std::size_t const to = exchange.turn_of(i / kBlocks);
                if (to == d || to == ends) expected[std::int64_t(e << 32 | i)] = 1;
            }
        }
        EXPECT_TRUE(exchange.received()[d] == expected) << "destination " << d;
    }
}

inline void expect_all_everywhere(Exchange const& exchange) {
    for (auto const& destination : exchange.received()) {
        EXPECT_EQ(destination.size(), exchange.endpoints().size() * kRows);
        EXPECT_TRUE(std::all_of(destination.begin(), destination.end(),
                                [](auto const& of) { return of.second == 1; }));
    }
}

}  // namespace mgi::test::between_gpus
