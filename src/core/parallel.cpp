#include "core/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "core/kept_threads.hpp"
#include "core/process_limits.hpp"

namespace mgi {

std::size_t memory_threads() {
    static std::size_t const threads = std::clamp<std::size_t>(usable_cores() / 2, 1, 8);
    return threads;
}

std::size_t all_threads() {
    static std::size_t const threads = std::clamp<std::size_t>(usable_cores(), 1, 8);
    return threads;
}

void in_parallel(std::size_t jobs, std::size_t threads,
                 std::function<void(std::size_t job, std::size_t thread)> const& work) {
    // Never destroyed: work may be under way when the process ends.
    static auto* const kept = new KeptThreads;
    std::atomic<std::size_t> next{0};
    std::vector<std::function<void()>> all;
    for (std::size_t thread = 0; thread < std::min(threads, jobs); ++thread) {
        all.emplace_back([&, thread] {
            try {
                for (;;) {
                    std::size_t const job = next.fetch_add(1, std::memory_order_relaxed);
                    if (job >= jobs) return;
                    work(job, thread);
                }
            } catch (...) {
                next.store(jobs, std::memory_order_relaxed);
                throw;
            }
        });
    }
    kept->run_all(all);
}

}  // namespace mgi
