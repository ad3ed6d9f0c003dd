#include "runtime/queued.hpp"

#include <algorithm>

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

// Rows of a segment that has come, and is the last one with this slot.
std::uint32_t rows_of(device::Inbox<Words> const& inbox, std::uint64_t sequence) {
    std::uint64_t const word = inbox.came[std::uint32_t(sequence) & inbox.mask].load(relaxed);
    return device::Arrival::is_of(word, sequence) ? device::Arrival::rows(word) : 0;
}

// Segments of which groups have taken every chunk that has rows.
std::uint64_t taken_of(State const& state, device::Inbox<Words> const& inbox) {
    std::uint64_t const numbers = inbox.taken_numbers();
    std::uint64_t const whole = numbers / inbox.chunks;
    std::uint32_t const rows = rows_of(inbox, whole);
    // Where numbers are open, one of an earlier segment may be, and empty chunks do not stand for it.
    bool const next =
        rows != 0 && !inbox.has_open() && numbers % inbox.chunks >= state.chunks_of(rows);
    return std::min(whole + (next ? 1 : 0), inbox.come_below());
}

}  // namespace

std::uint64_t come_to(State const& state, std::uint32_t destination) {
    std::uint64_t sum = state.destinations[destination].queue->pushed();
    for_each_inbox(state, destination, [&](auto const& inbox) { sum += inbox.come_below(); });
    return sum;
}

std::uint64_t taken_at(State const& state, std::uint32_t destination) {
    std::uint64_t sum = state.destinations[destination].queue->taken();
    for_each_inbox(state, destination, [&](auto const& inbox) { sum += taken_of(state, inbox); });
    return sum;
}

std::uint64_t published_of(device::Lane<Words> const& lane) {
    return lane.came != nullptr ? lane.come_below() : lane.published.load(relaxed);
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
        } else if (count > 1) {
            // The last chunks of the last segment may be empty: nobody needs to take them.
            if (inbox->come_below() < count - 1) return false;
            std::uint32_t const rows = rows_of(*inbox, count - 2);
            std::uint64_t const numbers = (count - 2) * inbox->chunks + state.chunks_of(rows);
            if (!device::are_taken(*inbox, at, state.max_groups, s, numbers)) return false;
        }
    }
    return at.queue->taken() == expected;
}

}  // namespace mgi
