/// \file
/// The benchmarks of mgi_gpu_bench, and what each is given. A file adds one by registering a function:
///
///     namespace {
///     void exchange(mgi::bench::Context& context) {
///         ... allocate, generate (data.hpp) ...
///         auto const timing = context.time([&](cudaStream_t stream) { kernel<<<..., stream>>>(); });
///         mgi::bench::Result result;
///         result.with("endpoints", 4).with("keys", "uniform");
///         timing.fill(result, payload_bytes);
///         result.floor_gbps = context.exchange_floor_gbps();
///         result.exact = ...;
///         context.add(result);
///     }
///     mgi::bench::Registration const registered{"exchange", "rows between endpoints", exchange};
///     }  // namespace
///
/// Every benchmark runs in a process of its own: what it throws, a lost context and a hang end it
/// alone, and become a result with "error". Lines added before stay.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "check.hpp"
#include "memory.hpp"
#include "result.hpp"

namespace mgi::bench {

/// Starts the line that tells the parent process the traffic.
inline constexpr char const* kTrafficLine = "#traffic ";

/// What repeated runs took.
struct Timing {
    std::vector<double> ms;  ///< ascending

    [[nodiscard]] double best_ms() const { return ms.front(); }
    [[nodiscard]] double median_ms() const { return ms[ms.size() / 2]; }
    /// Sets a result's GB/s, for runs that moved so many bytes of payload each.
    void fill(Result& result, std::uint64_t payload_bytes) const {
        result.best_gbps = double(payload_bytes) / best_ms() / 1e6;
        result.median_gbps = double(payload_bytes) / median_ms() / 1e6;
    }
};

struct ContextOptions {
    std::string benchmark;
    bool quick = false;
    bool large = false;
    double traffic_gbps = 0;         ///< 0: measure it
    std::vector<std::string> words;  ///< what a contest is about
};

/// What a benchmark is given: device 0, a stream, floors, and where results go.
class Context {
public:
    explicit Context(ContextOptions options);

    [[nodiscard]] bool quick() const { return options_.quick; }
    /// Tables of TPC-H at SF 100 in place of 10.
    [[nodiscard]] bool large() const { return options_.large; }
    [[nodiscard]] std::vector<std::string> const& words() const { return options_.words; }
    [[nodiscard]] cudaDeviceProp const& device() const { return device_; }
    [[nodiscard]] int multiprocessors() const { return device_.multiProcessorCount; }
    /// Non-blocking, as is every stream here.
    [[nodiscard]] cudaStream_t stream() const { return stream_.get(); }

    /// Bytes of rows that a benchmark of partitions or exchanges moves: 1 GiB, with --quick 128 MiB,
    /// less where `copies` of it would take more than half of what is free on the GPU.
    [[nodiscard]] std::uint64_t payload_bytes(int copies = 4) const;

    /// Read plus write of the fastest device-to-device copy, GB/s. Measured at the first call.
    double traffic_gbps();
    /// Prints it too, for the process that starts the next benchmark's.
    void set_traffic_gbps(double traffic);
    /// Payload of an ideal one-pass partition: each byte is read and written once.
    double partition_floor_gbps() { return traffic_gbps() / 2; }
    /// Payload of an ideal exchange by reference: read, written, and read by its consumer.
    double exchange_floor_gbps() { return traffic_gbps() / 3; }

    /// Times `launch` by events of the stream it is given: one run to warm up, then several; before
    /// each run `prepare`, which is not timed. Waits with a deadline, see `wait`.
    Timing time(std::function<void(cudaStream_t)> const& launch,
                std::function<void(cudaStream_t)> const& prepare = {}, int repeats = 0);

    /// Polls until all work of a stream, or up to an event, is done. Past the deadline nothing can be
    /// freed and no call is safe: reports the error as this benchmark's result and ends the process.
    void wait(cudaStream_t stream, char const* what, double deadline_s = 20);
    void wait(cudaEvent_t event, char const* what, double deadline_s = 20);
    /// Reports an error and ends the process, without destructors.
    [[noreturn]] void give_up(std::string const& error);

    /// A line of results, printed at once.
    void add(Result result);

private:
    ContextOptions options_;
    cudaDeviceProp device_{};
    Stream stream_;
};

/// A benchmark.
struct Benchmark {
    std::string name;  ///< of letters, digits, '.', '_'
    std::string about;
    std::function<void(Context&)> run;
};

/// All of them, by name; "floors" comes first.
std::vector<Benchmark>& benchmarks();

/// Adds one before main.
struct Registration {
    Registration(std::string name, std::string about, std::function<void(Context&)> run) {
        benchmarks().push_back({std::move(name), std::move(about), std::move(run)});
    }
};

}  // namespace mgi::bench
