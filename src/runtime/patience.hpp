// Waiting in host code: polls with backoff until a time limit, and tells the watchdog.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include <mgi/device/atomics.hpp>

namespace mgi {

class Patience {
public:
    // `waiting` counts who waits right now.
    Patience(std::chrono::milliseconds timeout, std::atomic<std::uint32_t>& waiting)
        : timeout_(timeout), waiting_(waiting) {
        waiting_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Patience() { waiting_.fetch_sub(1, std::memory_order_relaxed); }
    Patience(Patience const&) = delete;
    Patience& operator=(Patience const&) = delete;

    // Something moved: the limit counts from here.
    void reset() {
        round_ = 0;
        start_ = std::chrono::steady_clock::now();
    }
    // Waits a little; false when the limit has passed.
    [[nodiscard]] bool wait() {
        device::backoff(round_++);
        return timeout_ == std::chrono::milliseconds::max() ||
               std::chrono::steady_clock::now() - start_ < timeout_;
    }

private:
    std::chrono::milliseconds const timeout_;
    std::atomic<std::uint32_t>& waiting_;
    std::uint32_t round_ = 0;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace mgi
