/// \file
/// Until when this controller leads for sure, and a door that shuts then: a process that was stopped, or
/// a machine that was suspended, goes on in the middle of whatever it did, when another may lead already.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "control/controller/engine.hpp"

namespace mgi::control {

/// Time since the machine's start, also of what it was suspended for.
struct BootClock {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<BootClock>;
    static constexpr bool is_steady = true;
    static time_point now() noexcept;
};

using BootTime = BootClock::time_point;

/// Lets messages and answers out only while nobody else can lead. What comes later is dropped: whoever
/// renews the term is told, and leads no more, which ends sessions and calls. Thread-safe.
class Fence final : public Outlet {
public:
    explicit Fence(Outlet& outlet) : outlet_(outlet) {}

    /// A term begins.
    void open(BootTime until) { until_.store(until.time_since_epoch().count()); }
    /// It is over.
    void shut() { until_.store(kShut); }
    /// It goes on; false if it has been over for a moment, since something may have been dropped.
    [[nodiscard]] bool renew(BootTime until);
    /// Whether the term still runs; once it does not, it never does again.
    [[nodiscard]] bool stands();

    void carry_out(Send const& send) override;
    void carry_out(Close const& close) override;
    void carry_out(Answer const& answer) override;

private:
    static constexpr std::int64_t kShut = 0;

    Outlet& outlet_;
    std::atomic<std::int64_t> until_{kShut};
};

}  // namespace mgi::control
