/// \file
/// Exchanges as a program makes them: a channel that a Runtime creates and deletes for each, one endpoint on each GPU,
/// kernels that are attached. Every row is read where it arrived, and checked in a first run.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mgi/runtime.hpp>

#include "exchange_kernels.hpp"
#include "kernels.hpp"
#include "peer_run.hpp"

namespace mgi::bench::exchanges {

using Clock = std::chrono::steady_clock;

inline double us_since(Clock::time_point start) {
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// Of this process' GPUs, by the number of their endpoints among all.
struct OwnGpu {
    u32 number;  ///< of its endpoint, and "cuda:N"
    std::unique_ptr<peers::Gpu> gpu;
    Sums wanted;  ///< what is to arrive there
};

/// What a run took.
struct Took {
    Clock::time_point start;  ///< of the first launch
    Clock::time_point end;    ///< of the last kernel's, as this process heard of it
    double create_us = 0;
    double launch_us = 0;
    double delete_us = 0;
};

class Exchanges {
public:
    /// `meet`: waits for the other processes, if there are any.
    Exchanges(
        Runtime& runtime, std::vector<Endpoint> endpoints, std::vector<OwnGpu> const& gpus,
        std::function<void()> meet = [] {});

    Took run(bool check_rows);
    [[nodiscard]] u32 blocks() const { return blocks_; }
    /// Whether every run was.
    [[nodiscard]] bool exact() const { return exact_; }

private:
    Attachment attach(Channel const& channel, OwnGpu const& own, u32 groups);
    Attachment launch(Channel const& channel, std::size_t own, bool check_rows);
    void look(bool at_rows);

    Runtime& runtime_;
    std::vector<Endpoint> const endpoints_;
    std::vector<OwnGpu> const& gpus_;
    std::function<void()> const meet_;
    ChannelSpec const spec_;
    u32 blocks_ = ~0u;
    std::vector<DeviceArray<Tally>> tallies_;
    bool exact_ = true;
};

/// What all GPUs exchange.
struct Load {
    u32 gpus;
    Layout layout;
    u64 rows;  ///< of each GPU
    u32 words;
};

/// What the runs took.
struct Series {
    std::vector<double> ms;
    std::vector<double> create_us;
    std::vector<double> launch_us;
    std::vector<double> delete_us;

    void add(double took_ms, double created_us, double launched_us, double deleted_us) {
        ms.push_back(took_ms);
        create_us.push_back(created_us);
        launch_us.push_back(launched_us);
        delete_us.push_back(deleted_us);
    }
};

/// Adds a result that has its GPUs and whether it is exact.
void report(Context& context, Result result, Load const& load, u32 blocks, Series series);

}  // namespace mgi::bench::exchanges
