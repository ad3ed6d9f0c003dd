#include "perf/exchange.hpp"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include <mgi/runtime.hpp>

#include "limits/partition.hpp"
#include "perf/launches.hpp"
#include "perf/resident.hpp"

namespace mgi::perf {
namespace {

constexpr std::uint32_t kMostStagedWords = 8;
constexpr std::uint32_t kLeastSlice = 4096;

void refuse(std::string const& why) {
    throw Error(ErrorCode::InvalidArgument, why);
}

void check(ExchangeOptions const& options, Runtime const& runtime) {
    auto const between = [](char const* name, std::uint64_t value, std::uint64_t low,
                            std::uint64_t high) {
        if (value >= low && value <= high) return;
        refuse(std::string(name) + " is " + std::to_string(value) + ": give " +
               std::to_string(low) + " to " + std::to_string(high));
    };
    between("endpoints", options.endpoints, 1, 1024);
    between("fanout", options.fanout, 0, 1024);
    between("rows", options.rows, 1, std::uint64_t(1) << 40);
    between("row_bytes", options.row_bytes, 8, 4096);
    between("groups", options.groups, 0, 1024);
    between("threads", options.threads, 1, 64);
    between("limit_threads", options.limit_threads, 0, 1024);
    between("repeat", options.repeat, 1, 10'000);
    if (options.row_bytes % 8 != 0) {
        refuse("row_bytes is " + std::to_string(options.row_bytes) +
               ": give a multiple of 8, the size of a column");
    }
    if (!(options.zipf_theta >= 0 && options.zipf_theta <= 10)) {
        refuse("the exponent of zipf is " + std::to_string(options.zipf_theta) +
               ": give more than 0, at most 10");
    }
    if (options.staged && options.row_bytes > kMostStagedWords * 8) {
        refuse("row_bytes is " + std::to_string(options.row_bytes) + ": staged sends take up to " +
               std::to_string(kMostStagedWords * 8));
    }
    std::uint64_t machine = 0;
    for (Device const& device : runtime.devices()) machine += device.memory_bytes;
    // The rows, and as many bytes for the plain copy, beside the channel's pools.
    if (machine != 0 && options.rows * options.row_bytes > machine / 3) {
        refuse("rows times row_bytes is " + std::to_string(options.rows * options.row_bytes) +
               " bytes, more than a third of this machine's " + std::to_string(machine) +
               ": give fewer rows");
    }
}

/// The exchange of one set of options: rows that stay, and runs over them.
class Exchange {
public:
    explicit Exchange(ExchangeOptions const& options) : options_(options) {
        RuntimeOptions runtime_options;
        // More group threads than cores do better where the system places them.
        runtime_options.pin = group_threads(options) <= cores();
        runtime_ = std::make_unique<Runtime>(Runtime::local(runtime_options));
        check(options_, *runtime_);
        if (options_.groups == 0) {
            options_.groups = std::max(1u, cores() / (options_.endpoints * options_.threads));
        }
        if (options_.fanout == 0) options_.fanout = options_.endpoints;
        for (std::uint32_t e = 0; e < std::max(options_.endpoints, options_.fanout); ++e) {
            endpoints_.push_back(runtime_->create_endpoint("cpu"));
        }
        for (std::uint32_t e = 0; e < options_.endpoints; ++e) {
            rows_.push_back(std::make_unique<Rows>(options_, e));
            expected_.add(rows_.back()->checksum());
            std::uint64_t const most = (std::uint64_t(1) << 30) / options_.endpoints;
            copy_bytes_.push_back(std::min(rows_.back()->bytes(), most));
            copies_.push_back(make_buffer<char>(copy_bytes_.back()));
        }
        limits::PartitionOptions limit;
        limit.threads =
            options_.limit_threads != 0
                ? options_.limit_threads
                : std::uint32_t(std::min<std::uint64_t>(cores(), group_threads(options_)));
        limit.fan_out = options_.fanout;
        partition_ = std::make_unique<limits::Partition>(limit, rows_);
    }

    [[nodiscard]] ExchangeOptions const& options() const { return options_; }

    /// One run; returns payload GB/s, adds to `result` what the channel took, and clears `verified`
    /// when rows are missing or wrong.
    double run(bool staged, ExchangeResult& result) {
        std::uint64_t const left = runtime_->memory_left();
        auto const before = Clock::now();
        Channel const channel = runtime_->create_channel(spec(staged));
        std::chrono::duration<double, std::milli> const taken = Clock::now() - before;
        result.create_ms.push_back(taken.count());
        result.pool_bytes = left - runtime_->memory_left();
        double const seconds = timed(
            [&](std::uint32_t e, EndpointRun* part) { return launch(channel, staged, e, part); },
            &channel);
        channel.check();
        Checksum received;
        for (EndpointRun const& part : runs_) {
            for (ThreadResult const& thread : part.results) received.add(thread.received);
        }
        result.verified = result.verified && received == expected_;
        runtime_->delete_channel(channel);
        return double(options_.rows) * options_.row_bytes / seconds / 1e9;
    }

    /// One hand-written partition of the same rows; returns GB/s.
    double partition(bool& verified) {
        Checksum received;
        double const seconds = partition_->run(received);
        verified = verified && received == expected_;
        return double(options_.rows) * options_.row_bytes / seconds / 1e9;
    }

    /// One plain copy of the same bytes; returns GB/s.
    double copy() {
        double const seconds = timed(
            [&](std::uint32_t e, EndpointRun* part) {
                return runtime_->launch(endpoints_[e], launch_options(), CopyKernel{}, part,
                                        copies_[e].get(), copy_bytes_[e]);
            },
            nullptr);
        std::uint64_t bytes = 0;
        for (std::uint64_t const some : copy_bytes_) bytes += some;
        return double(bytes) / seconds / 1e9;
    }

private:
    static std::uint32_t cores() { return std::max(1u, std::thread::hardware_concurrency()); }
    static std::uint64_t group_threads(ExchangeOptions const& options) {
        return std::uint64_t(options.endpoints) * std::max(options.groups, 1u) * options.threads;
    }

    [[nodiscard]] LaunchOptions launch_options() const {
        LaunchOptions options;
        options.groups = options_.groups;
        options.threads = options_.threads;
        return options;
    }

    [[nodiscard]] ChannelSpec spec(bool staged) const {
        std::vector<Field> fields{{"key", int64()}};
        for (std::uint32_t c = 1; c < options_.row_bytes / 8; ++c) {
            fields.push_back({"payload" + std::to_string(c), int64()});
        }
        ChannelSpec spec;
        spec.sources.assign(endpoints_.begin(), endpoints_.begin() + options_.endpoints);
        spec.destinations.assign(endpoints_.begin(), endpoints_.begin() + options_.fanout);
        spec.schema = Schema(std::move(fields));
        spec.routing = Routing::partition("key");
        spec.options.name = "perf exchange";
        spec.options.by_reference = options_.by_reference;
        spec.options.layout = options_.layout;
        spec.options.max_groups = options_.groups;
        spec.options.sorters = staged ? 1 : 0;
        return spec;
    }

    /// Staged rows are structs of a size that the compiler knows.
    template <std::uint32_t Words>
    Launch launch_staged(Endpoint endpoint, device::Channel const& channel, EndpointRun* part) {
        if constexpr (Words < kMostStagedWords) {
            if (options_.row_bytes != Words * 8) {
                return launch_staged<Words + 1>(endpoint, channel, part);
            }
        }
        return runtime_->launch(endpoint, launch_options(), StagedExchangeKernel<Words>{}, channel,
                                part);
    }

    Launch launch(Channel const& channel, bool staged, std::uint32_t e, EndpointRun* part) {
        part->slice = std::max(kLeastSlice, channel.plan().tile_rows);
        for (std::uint32_t d = e; d < options_.fanout; d += options_.endpoints) {
            part->inboxes.push_back(channel.on(endpoints_[d]));
        }
        device::Channel const here = channel.on(endpoints_[e]);
        if (staged) return launch_staged<1>(endpoints_[e], here, part);
        return runtime_->launch(endpoints_[e], launch_options(), ExchangeKernel{}, here, part);
    }

    /// Starts all endpoints, waits for them, and returns the seconds from the first thread's start to
    /// the last one's end.
    double timed(Start const& start, Channel const* channel) {
        runs_ = std::vector<EndpointRun>(options_.endpoints);
        for (std::uint32_t e = 0; e < options_.endpoints; ++e) runs_[e].rows = rows_[e].get();
        return run_launches(runs_, launch_options(), start, channel, options_.cancel).seconds();
    }

    ExchangeOptions options_;
    std::unique_ptr<Runtime> runtime_;
    std::vector<Endpoint> endpoints_;
    std::vector<std::unique_ptr<Rows>> rows_;
    Checksum expected_;
    std::vector<std::uint64_t> copy_bytes_;
    std::vector<Buffer<char>> copies_;
    std::unique_ptr<limits::Partition> partition_;
    std::vector<EndpointRun> runs_;
};

}  // namespace

ExchangeResult run_exchange(ExchangeOptions const& options) {
    Exchange exchange(options);
    ExchangeResult result;
    result.groups = exchange.options().groups;
    result.fanout = exchange.options().fanout;
    result.bytes = options.rows * options.row_bytes;
    result.verified = true;
    exchange.copy();
    exchange.partition(result.verified);
    ResidentGrowth const growth;
    exchange.run(options.staged, result);
    result.resident_bytes = growth.peak_bytes();
    result.create_ms.clear();
    for (std::uint32_t i = 0; i < options.repeat; ++i) {
        result.memcpy_gbps.push_back(exchange.copy());
        result.partition_gbps.push_back(exchange.partition(result.verified));
        if (options.staged) {
            result.collective_gbps.push_back(exchange.run(false, result));
        }
        result.gbps.push_back(exchange.run(options.staged, result));
    }
    return result;
}

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    std::size_t const middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace mgi::perf
