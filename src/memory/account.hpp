// What all channels of a runtime may take together, and what they have taken.
#pragma once

#include <atomic>
#include <cstdint>

#include <mgi/device/assert.hpp>

namespace mgi::memory {

// Thread-safe.
class Account {
public:
    explicit Account(std::uint64_t limit) : limit_(limit) {}

    // Takes `bytes`, or nothing and says false where they would pass the limit.
    [[nodiscard]] bool take(std::uint64_t bytes) {
        std::uint64_t used = used_.load(std::memory_order_relaxed);
        do {
            MGI_ASSERT(used <= limit_, used, limit_);
            if (bytes > limit_ - used) return false;
        } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
        return true;
    }
    void give(std::uint64_t bytes) {
        std::uint64_t const used = used_.fetch_sub(bytes, std::memory_order_relaxed);
        MGI_ASSERT(used >= bytes, used, bytes, limit_);
    }

    [[nodiscard]] std::uint64_t limit() const { return limit_; }
    [[nodiscard]] std::uint64_t left() const {
        return limit_ - used_.load(std::memory_order_relaxed);
    }

private:
    std::uint64_t const limit_;
    std::atomic<std::uint64_t> used_{0};
};

}  // namespace mgi::memory
