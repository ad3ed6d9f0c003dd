// What must hold of a channel's words when a run has ended well, and their names.
#include "hostile/flow.hpp"

namespace mgi::hostile {

using device::relaxed;

namespace {

[[noreturn]] void broken(char const* what, std::uint64_t is, std::uint64_t expected) {
    throw Broken(std::string("at the end, ") + what + " is " + std::to_string(is) + ", not " +
                 std::to_string(expected));
}

void expect(char const* what, std::uint64_t is, std::uint64_t expected) {
    if (is != expected) broken(what, is, expected);
}

template <class Object>
bool is_in(void const* word, Object const& object) {
    auto const* const at = static_cast<char const*>(word);
    auto const* const first = reinterpret_cast<char const*>(&object);
    return at >= first && at < first + sizeof(object);
}

}  // namespace

void Flow::check_counters() {
    State& state = channel_.state();
    std::uint64_t const start = shape_.channel.rows_start;
    bool const staged = shape_.sorters != 0;
    for (std::uint32_t s = 0; s < state.source_count; ++s) {
        std::uint64_t published = 0;
        for (std::uint32_t l = 0; l < state.lane_count; ++l) {
            published += state.sources[s].lanes[l].rows_published.load(relaxed) - start;
        }
        std::uint64_t accepted = 0;
        for (std::uint32_t g = 0; g < shape_.groups; ++g) {
            std::uint64_t const rows = ledger_.offer(s, g).accepted;
            accepted += rows;
            State const& first = staged ? stages_[s]->state() : state;
            auto const& group = first.sources[staged ? 0 : s].groups[g];
            expect("rows_accepted", group.rows_accepted.load(relaxed), start + rows);
        }
        expect("rows_published of a source", published, accepted);
    }
    std::uint64_t received = 0;
    for (std::uint32_t d = 0; d < state.destination_count; ++d) {
        auto const& destination = state.destinations[d];
        received += destination.words->rows_received.load(relaxed) - start;
        expect("the head of a queue", destination.queue->taken(), destination.queue->pushed());
        for (std::uint32_t s = 0; s < state.source_count; ++s) {
            auto const* const inbox = destination.rings[s].inbox;
            if (inbox == nullptr) continue;
            std::uint64_t const end = destination.counts[s].load(relaxed) - 1;
            expect("what has come to an inbox", inbox->come_below(), end);
            // A group may have drawn a number behind the last one while another one saw the end.
            if (inbox->taken_numbers() < end * inbox->chunks) {
                broken("what was taken from it", inbox->taken_numbers(), end * inbox->chunks);
            }
        }
    }
    expect("rows_received", received, ledger_.arrivals());
}

void Flow::check_slots(State& state) {
    for (std::uint32_t s = 0; s < state.source_count; ++s) {
        for (std::uint32_t l = 0; l < state.lane_count; ++l) {
            auto& lane = state.sources[s].lanes[l];
            std::uint64_t const next =
                lane.came != nullptr ? lane.come_below() : lane.published.load(relaxed);
            expect("the end of a lane", lane.closed.load(relaxed), next + 1);
            expect("`delivering`", lane.delivering.load(relaxed), 0);
            for (std::uint32_t i = 0; i <= lane.mask; ++i) {
                check_slot(state, lane.slots[i], next, lane.mask + 1, true);
            }
        }
        for (std::uint32_t d = 0; d < state.destination_count; ++d) {
            auto& ring = state.destinations[d].rings[s];
            if (ring.in_place) continue;  // the lane itself
            std::uint64_t const next = state.destinations[d].counts[s].load(relaxed) - 1;
            for (std::uint32_t i = 0; i < ring.size; ++i) {
                check_slot(state, ring.slots[i], next, ring.size, false);
            }
        }
    }
}

// Free: nobody owes it a read, and it may be filled with the first sequence from `next` on that is its.
void Flow::check_slot(State& state, device::Slot<HostileAtomics>& slot, std::uint64_t next,
                      std::uint32_t ring, bool clean) {
    expect("`readers` of a slot", slot.readers.load(relaxed), 0);
    expect("`committed` of a slot", slot.committed.load(relaxed), 0);
    std::uint64_t const sequence = slot.sequence.load(relaxed);
    if (sequence < next || sequence >= next + ring) broken("a slot's sequence", sequence, next);
    for (std::uint32_t i = 0; clean && i < state.layout.bit_bytes; ++i) {
        expect("a byte of a free slot's bits",
               static_cast<std::uint8_t>((state.pool + slot.offset)[i]), 0);
    }
}

std::string name_word(State& state, void const* word) {
    auto const number = [](std::uint64_t n) { return std::to_string(n); };
    if (is_in(word, state.failed)) return "failed";
    if (is_in(word, state.delivering_all)) return "delivering_all";
    for (std::uint32_t s = 0; s < state.source_count; ++s) {
        auto const& source = state.sources[s];
        if (is_in(word, *source.words)) return "flush counters of source " + number(s);
        for (std::uint32_t l = 0; l < state.lane_count; ++l) {
            auto const& lane = source.lanes[l];
            std::string const name = "lane " + number(s) + "." + number(l) + " ";
            if (is_in(word, lane.cursor)) return name + "cursor";
            if (is_in(word, lane.delivering)) return name + "delivering";
            if (is_in(word, lane.published)) return name + "published";
            if (is_in(word, lane.delivered)) return name + "delivered";
            if (is_in(word, lane.collecting)) return name + "collecting";
            if (is_in(word, lane)) return name + "statistics";
            if (lane.mail != nullptr && is_in(word, *lane.mail)) return name + "mail";
            for (std::uint32_t i = 0; i <= lane.mask; ++i) {
                auto const& slot = lane.slots[i];
                std::string const in_slot = name + "slot " + number(i) + " ";
                if (is_in(word, slot.sequence)) return in_slot + "sequence";
                if (is_in(word, slot.committed)) return in_slot + "committed";
                if (is_in(word, slot.filled)) return in_slot + "filled";
                if (is_in(word, slot.content)) return in_slot + "content";
                if (is_in(word, slot.readers)) return in_slot + "readers";
            }
        }
        for (std::uint32_t g = 0; g < state.max_groups; ++g) {
            if (is_in(word, source.groups[g])) return "group " + number(s) + "." + number(g);
        }
    }
    for (std::uint32_t d = 0; d < state.destination_count; ++d) {
        auto const& to = state.destinations[d];
        if (is_in(word, to.queue->head)) return "queue " + number(d) + " head";
        if (is_in(word, to.queue->tail)) return "queue " + number(d) + " tail";
        for (std::uint32_t i = 0; i <= to.queue->mask; ++i) {
            if (is_in(word, to.queue->entries[i]))
                return "queue " + number(d) + " entry " + number(i);
        }
        if (is_in(word, *to.words)) return "destination " + number(d);
        for (std::uint32_t i = 0; to.arrivals != nullptr && i <= to.arrivals->mask; ++i) {
            if (!is_in(word, to.arrivals->entries[i])) continue;
            return "arrival " + number(i) + " at " + number(d);
        }
        for (std::uint32_t s = 0; s < state.source_count; ++s) {
            std::string const name = "inbox " + number(s) + " of " + number(d) + " ";
            auto const* const inbox = to.rings[s].inbox;
            for (std::uint32_t i = 0; inbox != nullptr && i <= inbox->mask; ++i) {
                if (is_in(word, inbox->draws)) return name + "draws";
                if (is_in(word, inbox->came[i])) return name + "came " + number(i);
                if (is_in(word, inbox->owed[i])) return name + "owed " + number(i);
            }
            for (std::uint32_t g = 0; inbox != nullptr && g < state.max_groups; ++g) {
                auto const& receiver = to.inbox_receivers[g];
                if (is_in(word, receiver)) return "receiver " + number(d) + "." + number(g);
                if (is_in(word, receiver.holds[s])) return name + "held by " + number(g);
            }
            if (is_in(word, to.counts[s])) return "count " + number(s) + " of " + number(d);
            for (std::uint32_t i = 0; i < to.rings[s].size; ++i) {
                if (to.rings[s].freed != nullptr && is_in(word, to.rings[s].freed[i])) {
                    return "ring " + number(s) + "." + number(d) + " freed " + number(i);
                }
                if (!is_in(word, to.rings[s].slots[i])) continue;
                return "ring " + number(s) + "." + number(d) + " slot " + number(i);
            }
        }
    }
    return "";
}

}  // namespace mgi::hostile
