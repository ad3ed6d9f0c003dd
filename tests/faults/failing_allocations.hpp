/// \file
/// Makes one allocation of this process fail: the N-th from now, on whatever thread it comes. Memory
/// (operator new, and the library's own mmap, memfd_create and fallocate) and threads (pthread_create)
/// count alike.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace mgi::faults {

/// Runs `operation` with the first allocation failing, then with the second, and so on, until it has
/// passed without one that failed. Every time it must throw Error (OutOfMemory, or GroupFailed where
/// it was a kernel's) or std::bad_alloc, or pass all the same; after it `operation` must pass
/// undisturbed. Adds gtest failures. Past `dense` allocations only every so many is tried.
void fail_each_allocation(std::function<void()> const& operation, std::uint64_t dense = 400);

/// While one lives on a thread, this thread's allocations do not count: the test's own.
class Spared {
public:
    Spared() { ++depth; }
    ~Spared() { --depth; }
    Spared(Spared const&) = delete;
    Spared& operator=(Spared const&) = delete;
    static thread_local int depth;
};

}  // namespace mgi::faults
