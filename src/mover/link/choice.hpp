// Which wire a segment takes: the one on which it will have arrived first.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "mover/link/types.hpp"

namespace mgi::mover::link {

// An open wire, as its choice sees it.
struct Candidate {
    std::uint32_t slot = 0;
    std::uint64_t in_flight = 0;  // bytes given to the wire and not acknowledged
    std::uint64_t window = 0;     // how many there may be
    double rate = 1.0;            // bytes a nanosecond
    bool own = true;              // on a NIC of the segment's own device
    bool lent = false;            // else: whether its NIC is idle and has room for a borrower
    std::uint32_t relays = 0;     // it takes NICs of so many other servers, too
    Time last_used = 0;
};

struct Choice {
    std::uint32_t slot = 0;
    bool own = true;
};

// The smallest (in flight + bytes) / rate; own NICs first on a tie, relays only for a clear gain; the wire that the last segment took
// (`last`) until another one is clearly better; and now and then one that was not used for long, so
// that its rate is known. Nothing: it is better to wait for room on a faster wire, or there is none.
[[nodiscard]] std::optional<Choice> choose(std::span<Candidate const> candidates,
                                           std::uint64_t bytes, std::uint32_t last, Time now);

// A wire that was not used for so long while others were gets the next segment.
inline constexpr Time kProbeAfter = 250 * kMillisecond;

}  // namespace mgi::mover::link
