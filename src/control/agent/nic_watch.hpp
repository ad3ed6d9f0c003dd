/// \file
/// What NICs were seen to do -> what their links to the network carry, and move. Nothing here reads or
/// waits: time comes from outside.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "control/agent/ports.hpp"
#include "topology/machine/local_nics.hpp"
#include "topology/machine/nic_reader.hpp"

namespace mgi::control {

/// Single-threaded.
class NicWatch {
public:
    static constexpr Milliseconds kSettled{200};  ///< so long a change holds before it is told
    static constexpr Milliseconds kWindow{1000};  ///< over which use is measured
    /// A NIC that loses its link more often than `kMostFalls` in `kFlapping` stays down until it has
    /// kept it for `kCoolDown`.
    static constexpr std::size_t kMostFalls = 5;
    static constexpr Milliseconds kFlapping{60'000};
    static constexpr Milliseconds kCoolDown{60'000};

    struct Rate {
        std::uint32_t from = 0;
        std::uint32_t to = 0;
        double gbps = 0;  ///< 0: down
    };
    struct Change {
        std::string what;  ///< for the log
        std::vector<Rate> links;
    };

    /// `graph` has the links as they are while all is well.
    NicWatch(ServerGraph const& graph, std::vector<topology::LocalNic> const& nics);

    /// What was read of each NIC, in their order; the changes it makes. The first reading counts at
    /// once: a NIC that is down when the agent starts is none of the graph that it registers.
    std::vector<Change> take(std::vector<topology::NicState> const& states, Time now);

    /// Of the links that are up and move something.
    [[nodiscard]] std::vector<Rate> uses() const;

private:
    /// What a NIC is like, as far as its links' capacities go.
    struct Condition {
        bool up = true;
        double mbps = 0;  ///< 0: as the graph says
        bool operator==(Condition const&) const = default;
    };
    struct Sample {
        Time at{};
        std::uint64_t sent = 0;
        std::uint64_t received = 0;
    };
    struct Nic {
        std::uint32_t vertex = 0;
        std::string name;
        bool told_rate = false;
        std::vector<Rate> links;  ///< with the graph's capacities
        Condition told;
        Condition coming;  ///< if it holds long enough
        Time since{};      ///< when `coming` came
        std::optional<topology::NicState> last;
        std::deque<Time> falls;  ///< of the last minute, the newest of them
        Time quiet{};            ///< until then it is held down
        std::deque<Sample> samples;
    };

    static void count_falls(Nic& nic, topology::NicState const& state, Time now);
    static void sample(Nic& nic, topology::NicState const& state, Time now);
    static double gbps(Condition const& condition, Rate const& link);
    static std::optional<Change> change(Nic& nic, Condition const& next, Time now);

    std::vector<Nic> nics_;
};

}  // namespace mgi::control
