#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "floors.hpp"
#include "registry.hpp"

namespace mgi::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// What takes this long varies little, and is not worth more than three runs.
constexpr float kLongRunMs = 50;

/// Polls a query of CUDA's; false past the deadline.
template <class Query>
bool poll(Query const& query, char const* what, double deadline_s) {
    auto const start = Clock::now();
    for (;;) {
        cudaError_t const state = query();
        if (state == cudaSuccess) return true;
        if (state != cudaErrorNotReady) check(state, what);
        cudaGetLastError();  // "not ready" is no error, but a launch would report it
        if (std::chrono::duration<double>(Clock::now() - start).count() > deadline_s) return false;
        std::this_thread::yield();
    }
}

std::string late(char const* what, double deadline_s) {
    char text[160];
    std::snprintf(text, sizeof(text), "%s: not done after %.0f s", what, deadline_s);
    return text;
}

}  // namespace

Context::Context(ContextOptions options) : options_(std::move(options)) {
    check(cudaGetDeviceProperties(&device_, 0), "look at device 0");
}

std::uint64_t Context::payload_bytes(int copies) const {
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "ask for free GPU memory");
    std::uint64_t bytes = quick() ? std::uint64_t(1) << 27 : std::uint64_t(1) << 30;
    while (bytes > (1 << 20) && bytes * std::uint64_t(copies) > free / 2) bytes /= 2;
    return bytes;
}

double Context::traffic_gbps() {
    if (options_.traffic_gbps <= 0) set_traffic_gbps(measure_traffic(*this));
    return options_.traffic_gbps;
}

void Context::set_traffic_gbps(double traffic) {
    options_.traffic_gbps = traffic;
    std::printf("%s%.3f\n", kTrafficLine, traffic);
    std::fflush(stdout);
}

Timing Context::time(std::function<void(cudaStream_t)> const& launch,
                     std::function<void(cudaStream_t)> const& prepare, int repeats) {
    if (repeats <= 0) repeats = quick() ? 3 : 7;
    Event const before;
    Event const after;
    Timing timing;
    for (int run = 0; run <= repeats; ++run) {
        if (prepare) prepare(stream());
        check(cudaEventRecord(before.get(), stream()), "record the start");
        launch(stream());
        check_launch("launch");
        check(cudaEventRecord(after.get(), stream()), "record the end");
        wait(after.get(), "timed run");
        float ms = 0;
        check(cudaEventElapsedTime(&ms, before.get(), after.get()), "read the time");
        if (run > 0) timing.ms.push_back(ms);
        if (run == 0 && ms > kLongRunMs) repeats = std::min(repeats, 3);
    }
    std::sort(timing.ms.begin(), timing.ms.end());
    return timing;
}

void Context::wait(cudaStream_t stream, char const* what, double deadline_s) {
    if (!poll([&] { return cudaStreamQuery(stream); }, what, deadline_s)) {
        give_up(late(what, deadline_s));
    }
}

void Context::wait(cudaEvent_t event, char const* what, double deadline_s) {
    if (!poll([&] { return cudaEventQuery(event); }, what, deadline_s)) {
        give_up(late(what, deadline_s));
    }
}

void Context::give_up(std::string const& error) {
    Result result;
    result.error = error;
    add(std::move(result));
    std::_Exit(3);
}

void Context::add(Result result) {
    if (result.name.empty()) result.name = options_.benchmark;
    std::printf("%s\n", json_of(result).c_str());
    std::fflush(stdout);
}

std::vector<Benchmark>& benchmarks() {
    static std::vector<Benchmark> all;
    return all;
}

}  // namespace mgi::bench
