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

#include "data.hpp"
#include "peer.hpp"
#include "registry.hpp"

namespace mgi::bench::peers {

/// A GPU's rows, and its stream.
struct Gpu {
    Gpu(u32 number, Layout layout, u64 rows, u32 words, u32 gpus) : input(layout, rows, words) {
        generate(input.table(), Keys::Uniform, stream.get(), number + 1);
        sent = sums_of(input.table(), gpus, stream.get());
    }
    Stream stream;
    TableBuffer input;
    std::vector<Sums> sent;  ///< by destination
};

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
    for (auto const& error : errors) require(error.empty(), error.c_str());
    return std::chrono::duration<double, std::milli>(passed[1] - passed[0]).count();
}

/// What each GPU is to get of all others.
template <class Gpus>
std::vector<Sums> wanted_by(Gpus const& gpus) {
    std::vector<Sums> wanted(gpus.size());
    for (auto const& gpu : gpus) {
        for (std::size_t d = 0; d < wanted.size(); ++d) wanted[d] += gpu->sent[d];
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
