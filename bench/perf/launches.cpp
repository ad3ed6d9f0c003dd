#include "perf/launches.hpp"

#include <algorithm>

namespace mgi::perf {

Span run_launches(std::vector<EndpointRun>& runs, LaunchOptions const& options, Start const& start,
                  Channel const* channel, std::atomic<bool> const* cancel) {
    std::uint32_t const threads = options.groups * options.threads;
    StartLine line;
    line.missing.store(threads * std::uint32_t(runs.size()));
    std::vector<Launch> launches;
    std::exception_ptr failure;
    auto const give_up = [&] {
        if (failure != nullptr) return;
        failure = std::current_exception();
        line.abandoned.store(true);
        if (channel == nullptr) return;
        try {
            channel->check();
        } catch (Error const&) {
            // It says more than that a group ended early because of it.
            failure = std::current_exception();
        }
        channel->fail(ErrorCode::Interrupted, "the benchmark was stopped");
    };
    try {
        for (std::uint32_t e = 0; e < runs.size(); ++e) {
            runs[e].line = &line;
            runs[e].results = std::vector<ThreadResult>(threads);
            runs[e].progress = std::vector<GroupProgress>(options.groups);
            launches.push_back(start(e, &runs[e]));
        }
    } catch (...) {
        give_up();
    }
    // The groups use the runs' memory: whatever happens, all of them are waited for.
    for (Launch& launched : launches) {
        for (bool over = false; !over;) {
            bool const ended = launched.done();
            try {
                if (!failure && cancel != nullptr && cancel->load()) {
                    throw Error(ErrorCode::Interrupted, "the benchmark was stopped");
                }
                launched.wait(std::chrono::milliseconds(20));
                over = true;
            } catch (Error const& error) {
                over = ended;
                if (error.code() != ErrorCode::Timeout || ended) give_up();
            } catch (...) {
                over = ended;
                give_up();
            }
        }
    }
    if (failure != nullptr) std::rethrow_exception(failure);
    Span span;
    for (EndpointRun const& run : runs) {
        for (ThreadResult const& result : run.results) {
            span.first = std::min(span.first, result.start);
            span.last = std::max(span.last, result.end);
        }
    }
    return span;
}

}  // namespace mgi::perf
