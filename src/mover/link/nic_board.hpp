// Who uses this server's NICs. A device's own NIC is its own first; others borrow it while it is idle,
// and with few bytes at a time, so that an owner that begins to send waits for little (FuseLink).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "mover/link/types.hpp"

namespace mgi::mover::link {

// Shared by all links of a process; thread-safe. Each word stands for itself, hence relaxed.
class NicBoard {
public:
    static constexpr std::uint32_t kNics = 64;
    // A NIC is idle when its owners have neither sent nor finished anything for so long.
    static constexpr Time kIdleAfter = 2 * kMillisecond;

    void owner_was_here(std::uint32_t nic, Time now) {
        owner_[nic].store(now + 1, std::memory_order_relaxed);
    }
    [[nodiscard]] bool idle(std::uint32_t nic, Time now) const {
        Time const last = owner_[nic].load(std::memory_order_relaxed);
        return last == 0 || now >= last - 1 + kIdleAfter;
    }
    void lend(std::uint32_t nic, std::uint64_t bytes) {
        lent_[nic].fetch_add(bytes, std::memory_order_relaxed);
    }
    void give_back(std::uint32_t nic, std::uint64_t bytes) {
        lent_[nic].fetch_sub(bytes, std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint64_t lent(std::uint32_t nic) const {
        return lent_[nic].load(std::memory_order_relaxed);
    }

private:
    std::array<std::atomic<Time>, kNics> owner_{};  // when, plus 1; 0: never
    std::array<std::atomic<std::uint64_t>, kNics> lent_{};
};

}  // namespace mgi::mover::link
