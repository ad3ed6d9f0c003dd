/// \file
/// Runs on several GPUs at once, for benchmarks of rows between GPUs that reach each other's memory.
#pragma once

#include <algorithm>
#include <barrier>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "load.hpp"
#include "peer.hpp"
#include "registry.hpp"

namespace mgi::bench::peers {

/// A GPU's rows, and its stream.
struct Gpu {
    Gpu(u32 number, Load const& load) : input(load.layout, load.rows_of(number), load.words) {
        generate(input.table(), load.theta, stream.get(), number + 1);
        sent = sums_of(input.table(), load.parts(), stream.get());
    }
    Stream stream;
    TableBuffer input;
    std::vector<Sums> sent;  ///< by part
};
using Gpus = std::vector<std::unique_ptr<Gpu>>;

/// The rows of all GPUs, which this process has.
inline Gpus gpus_of(Load const& load) {
    Gpus gpus;
    for (u32 gpu = 0; gpu < load.gpus; ++gpu) {
        On const on{int(gpu)};
        gpus.push_back(std::make_unique<Gpu>(gpu, load));
    }
    return gpus;
}

/// Milliseconds from the first launch to the last end; a thread starts each GPU's work.
inline double timed(u32 gpus, std::function<void(u32)> const& work) {
    using Clock = std::chrono::steady_clock;
    std::vector<Clock::time_point> passed;  // when all were at the gate
    passed.reserve(2);
    auto const note = [&]() noexcept { passed.push_back(Clock::now()); };
    std::barrier gate(gpus, note);
    std::vector<std::string> errors(gpus);
    std::vector<std::thread> threads;
    for (u32 gpu = 0; gpu < gpus; ++gpu) {
        threads.emplace_back([&, gpu] {
            gate.arrive_and_wait();
            try {
                On const on{int(gpu)};
                work(gpu);
            } catch (std::exception const& error) {
                errors[gpu] = error.what();
            }
            gate.arrive_and_wait();
        });
    }
    for (auto& thread : threads) thread.join();
    for (auto const& error : errors) require(error.empty(), error);
    return std::chrono::duration<double, std::milli>(passed[1] - passed[0]).count();
}

/// What a GPU has for another one, of what it sends by part.
inline Sums sent_to(Load const& load, std::vector<Sums> const& sent, u32 gpu) {
    if (!load.receives(gpu)) return {};
    return load.to_all() ? sent[0] : sent[gpu - load.destination(0)];
}

/// What each GPU is to get of all.
inline std::vector<Sums> wanted_by(Load const& load, Gpus const& gpus) {
    std::vector<Sums> wanted(gpus.size());
    for (auto const& gpu : gpus) {
        for (u32 d = 0; d < wanted.size(); ++d) wanted[d] += sent_to(load, gpu->sent, d);
    }
    return wanted;
}

/// What one of them is to get, where this process has not the rows of all: makes those of each, one after the other.
inline Sums wanted_at(Load const& load, u32 gpu) {
    Sums wanted;
    for (u32 from = 0; from < load.sources(); ++from) {
        wanted += sent_to(load, Gpu(from, load).sent, gpu);
    }
    return wanted;
}

/// Adds a result of runs that moved so many bytes of payload each.
inline void report(Context& context, Result result, Timing& timing, u64 bytes) {
    std::sort(timing.ms.begin(), timing.ms.end());
    timing.fill(result, bytes);
    context.add(std::move(result));
}

inline int repeats(Context const& context) {
    return context.quick() ? 3 : 7;
}

}  // namespace mgi::bench::peers
