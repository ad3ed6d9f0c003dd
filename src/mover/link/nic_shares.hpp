// How channels of different weights share the NICs of their process, each over links and wires of its own.
// Channels of one weight are left to TCP, which treats them alike.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>

#include "mover/link/types.hpp"

namespace mgi::mover::link {

// Start-time fair queueing, as in FairQueue: a channel's clock on a NIC goes on by bytes / weight with each
// transfer, and one that is ahead waits for those that are behind and have something that waits. Who does
// not catch up although the NIC could have carried what he lacks has a slow receiver: for a while nobody
// waits for him. Thread-safe.
class NicShares {
public:
    // Who wants to start a transfer of `bytes` bytes over a wire by `nic`.
    struct Wish {
        std::uint32_t nic = 0;
        std::uint64_t channel = 0;
        double weight = 1.0;
        std::uint64_t bytes = 0;
    };
    // What a wire has on its way, and the rate at which that arrives, in bytes a nanosecond; 0: not known.
    struct Load {
        std::uint64_t bytes = 0;
        double rate = 0;
    };
    enum class Turn : std::uint8_t { Free, Own, Full, Others };

    // A wire's load was `before` and is `after`.
    void change(std::uint32_t nic, Load before, Load after);
    // Whether a wire whose load is `own` may start it. Free: that is its own affair, since channels of this
    // weight alone use the NIC. Own: yes. Full: it has enough on its way, less than if it were alone, so
    // that there is something to choose from. Others: it is another channel's turn.
    [[nodiscard]] Turn turn(Wish const& wish, Load own, Time now);
    void started(Wish const& wish, Time now);

    // Who was told to wait for others looks again after so long, unless something comes before.
    static constexpr Time kLookAgain = kMillisecond;

private:
    struct Flow {
        double weight = 1.0;
        double clock = 0;           // bytes / weight
        Time seen = 0;              // it last started something, or wanted to
        Time wants = 0;             // it was last told to wait; 0: it has started something since
        Time waits_until = kNever;  // for others, at the most
        Time excused_until = 0;     // nobody waits for it
    };
    struct Nic {
        std::uint64_t bytes = 0;              // on their way over all wires
        double rate = 0;                      // of those that have something on their way
        double clock = 0;                     // the furthest that a transfer was started at
        std::map<std::uint64_t, Flow> flows;  // by channel
    };
    static Flow& flow_of(Nic& nic, Wish const& wish, Time now);
    static std::uint64_t most_of_one(Nic const& nic, Wish const& wish, double rate, Time now);
    static double slack(Nic const& nic, std::uint64_t bytes, Time now);
    static Flow* furthest_behind(Nic& nic, Flow const& flow, double slack, Time now);

    std::mutex mutex_;
    std::array<Nic, 64> nics_;
};

}  // namespace mgi::mover::link
