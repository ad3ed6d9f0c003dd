// Which of several ways a segment takes, wires of a link or ways between GPUs: the one by which it will have
// arrived first.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace mgi::mover {

// A way that is there, as its choice sees it. Times are nanoseconds.
struct Candidate {
    std::uint32_t slot = 0;
    std::uint64_t in_flight = 0;  // bytes given to it and not known to have arrived
    std::uint64_t window = 0;     // how many there may be
    bool full = false;            // it takes nothing now, however little is on its way
    double rate = 1.0;            // bytes a nanosecond
    bool own = true;              // of a wire: on a NIC of the segment's own device
    bool lent = false;            // else: whether its NIC is idle and has room for a borrower
    std::uint32_t relays = 0;     // it takes so many others' links, too
    std::uint64_t last_used = 0;
};

struct Choice {
    std::uint32_t slot = 0;
    bool own = true;
};

// The smallest (in flight + bytes) / rate; own NICs first on a tie, relays only for a clear gain; the way that the last segment took
// (`last`) until another one is clearly better; and now and then one that was not used for long, so
// that its rate is known. Nothing: it is better to wait for room on a faster way, or there is none.
[[nodiscard]] std::optional<Choice> choose(std::span<Candidate const> candidates,
                                           std::uint64_t bytes, std::uint32_t last,
                                           std::uint64_t now);

// A way that was not used for so long while others were gets the next segment.
inline constexpr std::uint64_t kProbeAfter = 250'000'000;

}  // namespace mgi::mover
