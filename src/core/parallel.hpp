// Work that is cut into jobs, done by a few kept threads.
#pragma once

#include <cstddef>
#include <functional>

namespace mgi {

// How many threads read and write the host's memory about as fast as it can be: 1 to 8, as there are cores.
std::size_t memory_threads();
// How many threads share work that computes: 1 to 8, as there are cores.
std::size_t all_threads();

// Calls `work(job, thread)` once for each job below `jobs`, from at most so many threads, the calling one among them; they are
// numbered from 0. Throws the first failure once all are over; jobs that had not begun by then are left out. Thread-safe.
void in_parallel(std::size_t jobs, std::size_t threads,
                 std::function<void(std::size_t job, std::size_t thread)> const& work);

}  // namespace mgi
