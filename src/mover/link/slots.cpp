#include "mover/link/slots.hpp"

#include <algorithm>
#include <utility>

namespace mgi::mover::link {
namespace {

constexpr std::size_t kMostWays = 64;  // of a spare slot

// Of the NIC `from`, whose direct wire leads to the one of its number: that NIC is tried last.
std::vector<Way> ways_of(std::uint32_t from, std::uint32_t awaiting_nics, std::uint32_t relays) {
    auto const far = [&](std::uint32_t turn) { return (from + 1 + turn) % awaiting_nics; };
    std::vector<Way> ways;
    std::uint32_t const straight = awaiting_nics - 1;
    std::uint32_t const relayed = relays * awaiting_nics;
    for (std::uint32_t w = 0; w < std::max(straight, relayed) && ways.size() < kMostWays; ++w) {
        if (w < straight) ways.push_back({from, far(w), Way::kDirect});
        if (w < relayed) ways.push_back({from, far(w / relays + w % relays), w % relays});
    }
    return ways;
}

}  // namespace

Way way_of(SlotOptions const& slot, std::uint64_t generation) {
    if (!slot.is_spare()) return {slot.nic, slot.far_nic, Way::kDirect};
    return slot.ways[generation % slot.ways.size()];
}

std::vector<SlotOptions> slots_between(std::uint32_t dialing_nics, std::uint32_t awaiting_nics,
                                       std::uint32_t relays, bool dials) {
    std::vector<SlotOptions> slots;
    for (std::uint32_t i = 0; i < std::max(dialing_nics, awaiting_nics); ++i) {
        SlotOptions& slot = slots.emplace_back();
        slot.nic = i % dialing_nics;
        slot.far_nic = i % awaiting_nics;
    }
    for (std::uint32_t from = 0; from < dialing_nics; ++from) {
        auto ways = ways_of(from, awaiting_nics, relays);
        if (!ways.empty()) slots.emplace_back().ways = std::move(ways);
    }
    if (dials) return slots;
    for (SlotOptions& slot : slots) {
        std::swap(slot.nic, slot.far_nic);
        for (Way& way : slot.ways) std::swap(way.nic, way.far_nic);
    }
    return slots;
}

}  // namespace mgi::mover::link
