// What a channel has moved and who has waited in it, counted where that costs nothing: by the watchdog, which
// looks at every channel each 50 ms anyway. The protocols themselves count no time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include <mgi/cluster.hpp>

#include "runtime/channel_impl.hpp"

namespace mgi {

void add(ClusterFlow& to, ClusterFlow const& flow);

// Of one channel. Everything under the registry's mutex.
class Counters {
public:
    using Clock = std::chrono::steady_clock;

    // One look. Waits that begin and end between two looks are not seen; for waits that are, the time
    // between looks counts as theirs.
    void look(ChannelImpl& channel, Clock::time_point now);
    // Nobody looked for so long: no wait of anybody's.
    void skip(Clock::duration time);

    // How long a lane's next segment has waited to get to its destination; nothing: it does not.
    [[nodiscard]] std::optional<std::chrono::milliseconds> lane_waits(std::uint32_t source,
                                                                      std::uint32_t lane,
                                                                      Clock::time_point now) const;
    // How long a destination's queue has been empty although it receives, and more may come.
    [[nodiscard]] std::optional<std::chrono::milliseconds> destination_waits(
        std::uint32_t destination, Clock::time_point now) const;

    // For the cluster's status: what this process' own sources have sent, and who of its endpoints waits.
    [[nodiscard]] ClusterUse use(ChannelImpl& channel, Clock::time_point now) const;

private:
    struct LaneLook {
        std::uint64_t sequence = 0;              // that comes next
        bool is_new = true;                      // another one than the last look's
        bool was_pending = false;                // it was published and not moved
        std::optional<Clock::time_point> since;  // it has waited; nothing: it does not
        std::uint64_t waits = 0;
        Clock::duration waited{};
        Clock::duration longest{};
    };
    struct DestinationLook {
        std::uint64_t taken = 0;
        std::optional<Clock::time_point> since;
    };
    static bool waits_for_readers(device::Lane<Words> const& lane, LaneLook& look,
                                  bool groups_wait);
    static bool waits_for_moves(ChannelImpl& channel, std::uint32_t source, std::uint32_t lane,
                                LaneLook& look);
    void count(LaneLook& look, bool waits, Clock::time_point now);
    [[nodiscard]] ClusterFlow flow_of(ChannelImpl& channel, LaneStats const& stats,
                                      std::uint32_t source, std::uint32_t lane) const;

    std::uint32_t lane_count_ = 0;
    std::vector<LaneLook> lanes_;  // by source, then by lane
    std::vector<DestinationLook> destinations_;
    std::optional<Clock::time_point> last_look_;
};

}  // namespace mgi
