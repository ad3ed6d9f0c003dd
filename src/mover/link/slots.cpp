#include "mover/link/slots.hpp"

#include <algorithm>
#include <utility>

namespace mgi::mover::link {

Way way_of(SlotOptions const& slot, std::uint64_t generation) {
    if (!slot.is_spare()) return {slot.nic, slot.far_nic};
    return slot.ways.at(generation % slot.ways.size());
}

std::vector<SlotOptions> slots_between(std::uint32_t dialing_nics, std::uint32_t awaiting_nics,
                                       std::vector<std::uint32_t> const& relays, bool dials) {
    std::vector<SlotOptions> slots;
    for (std::uint32_t i = 0; i < std::max(dialing_nics, awaiting_nics); ++i) {
        SlotOptions& slot = slots.emplace_back();
        slot.nic = i % dialing_nics;
        slot.far_nic = i % awaiting_nics;
    }
    for (std::uint32_t from = 0; from < dialing_nics; ++from) {
        Ways ways(from, awaiting_nics, std::max(dialing_nics, awaiting_nics), relays);
        if (ways.size() != 0) slots.emplace_back().ways = std::move(ways);
    }
    if (dials) return slots;
    for (SlotOptions& slot : slots) {
        std::swap(slot.nic, slot.far_nic);
        slot.ways = slot.ways.seen_from_there();
    }
    return slots;
}

}  // namespace mgi::mover::link
