// Which wires there may be between two processes.
#pragma once

#include <cstdint>
#include <vector>

#include "mover/link/types.hpp"

namespace mgi::mover::link {

// The one of a slot's wire of this generation.
Way way_of(SlotOptions const& slot, std::uint64_t generation);

// As one of the ends sees them. Direct: one for each NIC, of whichever end has more, from the first to the
// first and so on. Spare, where both ends have a NIC left to join or there are relays: one for each NIC of
// the end that dials. `relays`: the server of each.
std::vector<SlotOptions> slots_between(std::uint32_t dialing_nics, std::uint32_t awaiting_nics,
                                       std::vector<std::uint32_t> const& relays, bool dials);

}  // namespace mgi::mover::link
