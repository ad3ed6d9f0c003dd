/// \file
/// A run of kernels at several endpoints that start together and are waited for together.
#pragma once

#include <functional>

#include <mgi/runtime.hpp>

#include "perf/kernels.hpp"

namespace mgi::perf {

/// From the first thread's start to the last one's end.
struct Span {
    Clock::time_point first = Clock::time_point::max();
    Clock::time_point last = Clock::time_point::min();

    [[nodiscard]] double seconds() const {
        return std::chrono::duration<double>(last - first).count();
    }
};

/// Launches what `start` says for each of `runs`, whose rows and inboxes are given, and waits for all
/// of it; a failure ends the others. `channel` (or null) is what they use, and fails with them. Throws
/// what the first of them threw, Error(Interrupted) when `cancel` says so.
using Start = std::function<Launch(std::uint32_t index, EndpointRun* run)>;
Span run_launches(std::vector<EndpointRun>& runs, LaunchOptions const& options, Start const& start,
                  Channel const* channel, std::atomic<bool> const* cancel);

}  // namespace mgi::perf
