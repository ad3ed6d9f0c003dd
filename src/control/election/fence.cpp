#include "control/election/fence.hpp"

#include <ctime>

namespace mgi::control {

BootTime BootClock::now() noexcept {
    timespec time{};
    clock_gettime(CLOCK_BOOTTIME, &time);
    return BootTime(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

bool Fence::renew(BootTime until) {
    if (!stands()) return false;
    std::int64_t before = until_.load();
    while (before != kShut) {
        if (until_.compare_exchange_weak(before, until.time_since_epoch().count())) return true;
    }
    return false;
}

bool Fence::stands() {
    std::int64_t until = until_.load();
    while (until != kShut) {
        if (BootClock::now().time_since_epoch().count() < until) return true;
        // Shut for good, or renewed by another thread at this very moment: then look again.
        if (until_.compare_exchange_weak(until, kShut)) return false;
    }
    return false;
}

void Fence::carry_out(Send const& send) {
    if (stands()) outlet_.carry_out(send);
}

// Says nothing to anybody, so that it is never too late.
void Fence::carry_out(Close const& close) {
    outlet_.carry_out(close);
}

void Fence::carry_out(Answer const& answer) {
    if (stands()) outlet_.carry_out(answer);
}

}  // namespace mgi::control
