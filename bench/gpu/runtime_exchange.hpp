/// \file
/// Exchanges as a program makes them: a channel that a Runtime creates and deletes for each, one endpoint on each GPU,
/// kernels that are attached. Every row is read where it arrived, and checked where that is asked for.
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

/// One of this process' GPUs.
struct OwnGpu {
    u32 number;  ///< of its endpoint among all, and "cuda:N"
    peers::Gpu const* gpu;
    Sums wanted;  ///< what is to arrive there
};
/// All of them, where this process has the rows of all.
std::vector<OwnGpu> all_of(Load const& load, peers::Gpus const& gpus);

/// What a run took.
struct Took {
    Clock::time_point start;  ///< of the first launch
    Clock::time_point end;    ///< of the last kernel's, as this process heard of it
    double create_us = 0;
    double launch_us = 0;
    double delete_us = 0;
};

/// Exchanges of a load by channels.
class ChannelRuns {
public:
    ChannelRuns() = default;
    virtual ~ChannelRuns() = default;
    ChannelRuns(ChannelRuns const&) = delete;
    ChannelRuns& operator=(ChannelRuns const&) = delete;

    /// One, whose rows are looked at one by one with `check_rows`, else counted.
    virtual Took run(bool check_rows) = 0;
    [[nodiscard]] virtual u32 blocks() const = 0;
    /// Whether every run was.
    [[nodiscard]] virtual bool exact() const = 0;
};

/// Of those GPUs that this process has.
class Exchanges final : public ChannelRuns {
public:
    /// One endpoint on each of the load's GPUs. `meet`: waits for the other processes, if there are any.
    Exchanges(
        Runtime& runtime, Load const& load, std::vector<Endpoint> endpoints,
        std::vector<OwnGpu> gpus, std::function<void()> meet = [] {});

    Took run(bool check_rows) override;
    [[nodiscard]] u32 blocks() const override { return blocks_; }
    [[nodiscard]] bool exact() const override { return exact_; }

private:
    Attachment attach(Channel const& channel, OwnGpu const& own, u32 groups);
    Attachment launch(Channel const& channel, std::size_t own, bool check_rows);
    void look(bool at_rows);

    Runtime& runtime_;
    std::vector<Endpoint> const endpoints_;
    std::vector<OwnGpu> const gpus_;
    std::function<void()> const meet_;
    ChannelSpec const spec_;
    u32 const row_bytes_;
    u32 blocks_ = ~0u;
    std::vector<DeviceArray<Tally>> tallies_;
    bool exact_ = true;
};

double median(std::vector<double> values);

/// What the runs took.
struct Series {
    std::vector<double> ms;
    std::vector<double> create_us;
    std::vector<double> launch_us;
    std::vector<double> delete_us;

    void add(Took const& took) {
        ms.push_back(std::chrono::duration<double, std::milli>(took.end - took.start).count());
        create_us.push_back(took.create_us);
        launch_us.push_back(took.launch_us);
        delete_us.push_back(took.delete_us);
    }
    /// Median microseconds, but for the runs themselves.
    void fill(Result& result) const {
        result.figure("create_us", median(create_us))
            .figure("delete_us", median(delete_us))
            .figure("launch_us", median(launch_us));
    }
};

/// With a process for each GPU.
std::unique_ptr<ChannelRuns> by_processes(Load const& load);

/// Runs them and adds a result that has its GPUs.
void measure(Context& context, Result result, Load const& load, ChannelRuns& runs);

}  // namespace mgi::bench::exchanges
