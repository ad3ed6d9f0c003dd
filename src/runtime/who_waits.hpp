// Who waits for whom in a channel: for a stall's error, and for who looks on (`mgi top`).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <mgi/cluster.hpp>

#include "runtime/counters.hpp"

namespace mgi {

// Some group of the source waits for room or for its flush.
bool source_waits(State const& state, device::Source<Words> const& source);

// Whether any group has asked for rows at a destination of this server.
bool has_received(State const& state, std::uint32_t destination);

// The slot that the lane's next segment needs is still being read in place, and its mover is done with it.
bool readers_hold(device::Lane<Words> const& lane);

// Some destination that the lane's next segment must be moved to has no credit for the source. False
// where that cannot be told: Balance, and where another process brings it to another server.
bool lacks_credit(ChannelImpl& channel, std::uint32_t source, std::uint32_t lane);

// Waits that have lasted for `least`, the longest first; of this process' endpoints alone, or of everybody's.
// The caller holds the registry's mutex.
std::vector<ClusterWait> who_waits(ChannelImpl& channel, Counters const& counters,
                                   Counters::Clock::time_point now, std::chrono::milliseconds least,
                                   bool everybody);

// "source 3 (rank 0) has waited 2300 ms for a credit of destination 7 (rank 1): ..."
std::string wait_text(ChannelImpl const& channel, ClusterWait const& wait);

// A line for each, as many as an error has room for.
std::string waits_report(ChannelImpl& channel, Counters const& counters,
                         Counters::Clock::time_point now);

}  // namespace mgi
