#include "runtime/queued.hpp"

#include <mgi/device/receive.hpp>

namespace mgi {

using device::relaxed;

namespace {

// Calls `visit` with each inbox of a destination.
template <class Visit>
void for_each_inbox(State const& state, std::uint32_t destination, Visit const& visit) {
    auto const* const rings = state.destinations[destination].rings;
    for (std::uint32_t s = 0; rings != nullptr && s < state.source_count; ++s) {
        if (rings[s].inbox != nullptr) visit(*rings[s].inbox);
    }
}

}  // namespace

std::uint64_t come_to(State const& state, std::uint32_t destination) {
    std::uint64_t sum = state.destinations[destination].queue->pushed();
    for_each_inbox(state, destination, [&](auto const& inbox) { sum += inbox.come_below(); });
    return sum;
}

std::uint64_t taken_at(State const& state, std::uint32_t destination) {
    std::uint64_t sum = state.destinations[destination].queue->taken();
    for_each_inbox(state, destination, [&](auto const& inbox) { sum += inbox.taken(); });
    return sum;
}

std::uint64_t published_of(device::Lane<Words> const& lane) {
    return lane.inbox != nullptr ? lane.come_below() : lane.published.load(relaxed);
}

bool all_taken(State const& state, std::uint32_t destination) {
    auto const& at = state.destinations[destination];
    std::uint64_t expected = 0;
    for (std::uint32_t s = 0; s < state.source_count; ++s) {
        std::uint64_t const count = at.counts[s].load(relaxed);
        if (count == 0) return false;
        auto const* const inbox = at.rings[s].inbox;
        if (inbox == nullptr) {
            expected += count - 1;
        } else if (!device::are_taken(*inbox, at, state.max_groups, s,
                                      (count - 1) * inbox->chunks)) {
            return false;
        }
    }
    return at.queue->taken() == expected;
}

}  // namespace mgi
