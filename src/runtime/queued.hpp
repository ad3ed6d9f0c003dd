// What has come to a destination, and what its groups have taken, wherever they find it: in the receive queue or in
// inboxes.
#pragma once

#include <cstdint>

#include "runtime/channel_tables.hpp"

namespace mgi {

// Segments that have come.
std::uint64_t come_to(State const& state, std::uint32_t destination);
// Those of which every chunk was taken.
std::uint64_t taken_at(State const& state, std::uint32_t destination);
// Segments of a lane that are where its readers, or its mover, find them.
std::uint64_t published_of(device::Lane<Words> const& lane);
// Every source has said how many segments it sent there, and so many were taken.
bool all_taken(State const& state, std::uint32_t destination);

}  // namespace mgi
