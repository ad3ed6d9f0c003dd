// Waiting in host code: polls with backoff until a time limit.
#pragma once

#include <chrono>
#include <cstdint>

#include <mgi/device/atomics.hpp>

namespace mgi {

class Patience {
public:
    explicit Patience(std::chrono::milliseconds timeout) : timeout_(timeout) {}

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
    std::uint32_t round_ = 0;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace mgi
