/// \file
/// The group barrier of CPU devices: spins, then sleeps on a futex; can be broken, so that no thread
/// waits for one that has thrown.
#pragma once

#if !defined(__CUDACC_RTC__)
#include <atomic>
#endif

#include <mgi/device/config.hpp>

namespace mgi::device {

#if defined(__CUDACC_RTC__)
class HostBarrier;  // compiled for a GPU alone, which has none
#else

/// Thrown on a CPU out of `Group::sync` when another thread of the group has failed. Kernels let it
/// pass; the launch swallows it, since the first failure is the one that is reported.
struct GroupAborted {};

/// Reusable barrier for a fixed number of threads. Thread-safe.
class HostBarrier {
public:
    /// `pause` is for threads that are not the system's (fibers of a scheduler): it is called where
    /// one would sleep, and lets the others run.
    explicit HostBarrier(std::uint32_t threads, void (*pause)() = nullptr)
        : threads_(threads), pause_(pause) {}
    HostBarrier(HostBarrier const&) = delete;
    HostBarrier& operator=(HostBarrier const&) = delete;

    /// Waits until all threads have arrived, with release and acquire between them.
    void arrive_and_wait() {
        std::uint32_t const phase = phase_.load(std::memory_order_relaxed);
        if ((phase & kBroken) != 0) throw GroupAborted{};
        std::uint32_t const arrived = arrived_.fetch_add(1, std::memory_order_acq_rel) + 1;
        MGI_ASSERT(arrived <= threads_, arrived, threads_);
        if (arrived == threads_) {
            arrived_.store(0, std::memory_order_relaxed);
            // fetch_add and not store: leave may set its bit at the same time.
            phase_.fetch_add(kStep, std::memory_order_release);
            phase_.notify_all();
            return;
        }
        std::uint32_t now;
        for (int spin = 0; (now = phase_.load(std::memory_order_acquire)) == phase; ++spin) {
            if (pause_ != nullptr) {
                pause_();
            } else if (spin >= 200) {
                phase_.wait(phase, std::memory_order_relaxed);
            }
        }
        // A phase that is complete counts, whatever happened since.
        if (now / kStep == phase / kStep) throw GroupAborted{};
    }

    /// A thread has left for good: every arrival from now on, and every wait that this thread would
    /// have had to end, throws GroupAborted.
    void leave() {
        // relaxed: who sees this throws, and reads nothing that the thread has left behind.
        phase_.fetch_or(kBroken, std::memory_order_relaxed);
        phase_.notify_all();
    }

private:
    // The lowest bit, so that the count of phases above it may wrap round.
    static constexpr std::uint32_t kBroken = 1;
    static constexpr std::uint32_t kStep = 2;
    std::uint32_t const threads_;
    void (*const pause_)();
    std::atomic<std::uint32_t> arrived_{0};
    std::atomic<std::uint32_t> phase_{0};
};
#endif

}  // namespace mgi::device
