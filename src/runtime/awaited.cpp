#include "runtime/awaited.hpp"

#include <algorithm>
#include <set>

#include "core/text.hpp"
#include "runtime/crossing.hpp"
#include "runtime/queued.hpp"
#include "runtime/who_waits.hpp"

namespace mgi {

using device::relaxed;
using device::RoutingKind;

namespace {

// The lane's groups find no room: the slot that is published next is still held by a reader.
bool lane_is_full(device::Lane<Words> const& lane) {
    device::u64 const next = published_of(lane);
    bool const held = lane.slots[next & lane.mask].sequence.load(relaxed) != next;
    return held || (lane.moves != 0 && next != delivered_of(lane));
}

// Something was brought that the destination's groups have not put into its queue or inboxes.
bool has_arrivals(device::Destination<Words> const& destination) {
    return destination.arrivals != nullptr &&
           destination.arrivals->tail.load(relaxed) != destination.words->imported.load(relaxed);
}

// Whether group `number` waits for room or its flush in this very channel and has never received from
// it: it will not make room.
bool only_sends(State const& state, std::uint32_t source, std::uint32_t destination,
                std::uint64_t number) {
    bool waits = false;
    for (std::uint32_t g = 0; g < state.max_groups; ++g) {
        if (state.destinations[destination].receivers[g].load(relaxed) == number + 1) return false;
        if (source == ChannelImpl::kNone) continue;
        auto const& group = state.sources[source].groups[g];
        waits |= group.launch.load(relaxed) == number + 1 && group.starved.load(relaxed) != 0;
    }
    return waits;
}

// Whether anybody of this process may still receive at a destination.
bool may_receive(ChannelImpl& channel, Registry const& registry, std::uint32_t destination) {
    if (channel.has_receiver(destination)) return true;
    Endpoint const endpoint = channel.spec().destinations[destination];
    std::uint32_t const source = channel.source_index(endpoint);
    auto const groups = registry.groups_on(endpoint, false);
    return std::any_of(groups.begin(), groups.end(), [&](std::uint64_t number) {
        return !only_sends(channel.state(), source, destination, number);
    });
}

// The same of any process.
bool is_alive(ChannelImpl& channel, Registry const& registry, Silent const& silent,
              std::uint32_t destination) {
    if (channel.is_own_destination(destination)) return may_receive(channel, registry, destination);
    Part const& part = *channel.part();
    // Who is on another server is heard of by the links.
    return !silent[part.members().destination_member[destination]] &&
           part.is_destination_attended(destination);
}

// Whether anybody of this process may still send at a source, or flush there.
bool may_send(ChannelImpl& channel, Registry const& registry, std::uint32_t source) {
    // With sorters it is they who send, and they go on to the end.
    return channel.has_sorters() || channel.has_sender(source) ||
           !registry.groups_on(channel.spec().sources[source], false).empty();
}

// Whether a source is open, and nobody will close it.
bool is_lost(ChannelImpl& channel, Registry const& registry, std::uint32_t source) {
    auto const& from = channel.state().sources[source];
    std::uint32_t const expected = from.words->groups_expected.load(relaxed);
    if (expected == 0 || from.words->groups_flushed.load(relaxed) == expected) return false;
    return channel.is_own_source(source) ? !may_send(channel, registry, source)
                                         : !channel.part()->is_source_attended(source);
}

// Destinations that a full lane waits for although nobody receives there.
void add_gone_destinations(ChannelImpl& channel, Registry const& registry, Silent const& silent,
                           std::uint32_t source, std::set<std::uint32_t>& gone) {
    State const& state = channel.state();
    for (std::uint32_t l = 0; l < state.lane_count; ++l) {
        if (!lane_is_full(state.sources[source].lanes[l])) continue;
        auto const [first, last] = state.destinations_of(l);
        std::set<std::uint32_t> dead;
        bool somebody_at_it = false;
        for (std::uint32_t d = first; d < last; ++d) {
            // None where the destination is on another server; who brings segments there knows more.
            auto const* const queue = state.destinations[d].queue;
            bool const far_behind =
                queue == nullptr &&
                channel.crossing()->links().holds_segments(source, d).value_or(true);
            bool const alive = is_alive(channel, registry, silent, d);
            if (!alive) dead.insert(channel.spec().destinations[d].id);
            // Any living destination may free a Balance lane; of a Broadcast's, one that is behind.
            bool const behind = queue == nullptr ? far_behind
                                                 : come_to(state, d) != taken_at(state, d) ||
                                                       has_arrivals(state.destinations[d]);
            bool const may_free = state.routing == RoutingKind::Balance || behind;
            somebody_at_it |= alive && may_free;
        }
        if (!somebody_at_it) gone.merge(dead);
    }
}

}  // namespace

std::string who_is_gone(ChannelImpl& channel, Registry const& registry, Silent const& silent) {
    State const& state = channel.state();
    std::set<std::uint32_t> destinations;
    std::vector<std::uint32_t> sources;
    std::set<std::uint32_t> members;
    for (std::uint32_t const s : channel.here().sources) {
        if (source_waits(state, state.sources[s])) {
            add_gone_destinations(channel, registry, silent, s, destinations);
        }
        if (is_lost(channel, registry, s)) sources.push_back(channel.spec().sources[s].id);
        if (silent.empty() || channel.source_ended(s)) continue;
        // A process that stands still neither begins to send, nor does it bring what it has sent.
        std::uint32_t const sender = channel.part()->members().source_member[s];
        if (silent[sender]) members.insert(sender);
        if (silent[channel.mover_of(s)]) members.insert(channel.mover_of(s));
    }
    std::string text;
    auto const add = [&](std::string const& what) {
        text += (text.empty() ? "" : ", and ") + what;
    };
    if (!destinations.empty()) {
        add("nobody receives at endpoint " + list_text({destinations.begin(), destinations.end()}) +
            " any more, or ever did");
    }
    if (!sources.empty()) {
        add("whoever sent at endpoint " + list_text(sources) + " is gone and has not flushed");
    }
    for (std::uint32_t const member : members) {
        add(channel.part()->describe(member) +
            ", whose rows are awaited, gives no sign of life (stopped, or dead)");
    }
    return text;
}

bool has_started(ChannelImpl& channel) {
    State const& state = channel.state();
    for (std::uint32_t const s : channel.here().sources) {
        if (state.sources[s].words->groups_expected.load(relaxed) != 0) return true;
    }
    for (std::uint32_t const d : channel.here().destinations) {
        if (has_received(state, d)) return true;
    }
    return false;
}

void attend(ChannelImpl& channel, Registry const& registry) {
    Part& part = *channel.part();
    ChannelSpec const& spec = channel.spec();
    for (std::uint32_t s = 0; s < spec.sources.size(); ++s) {
        if (channel.is_own_source(s)) part.attend_source(s, may_send(channel, registry, s));
    }
    for (std::uint32_t d = 0; d < spec.destinations.size(); ++d) {
        if (!channel.is_own_destination(d)) continue;
        bool const is_attended = may_receive(channel, registry, d);
        part.attend_destination(d, is_attended);
        if (channel.crossing() != nullptr) {
            channel.crossing()->links().say_attendance(d, is_attended);
        }
    }
}

namespace {

// "\n  rank 1 (pid 4242): source 3, destination 4" for each member, and what is strange about it.
std::string members_report(ChannelImpl const& channel, Silent const& silent) {
    if (!channel.shared()) return "";
    constexpr std::uint32_t kMostLines = 16;
    Part const& part = *channel.part();
    ChannelSpec const& spec = channel.spec();
    std::string text;
    for (std::uint32_t m = 0; m < std::min(part.members().count, kMostLines); ++m) {
        std::vector<std::uint32_t> sources;
        std::vector<std::uint32_t> destinations;
        for (std::uint32_t s = 0; s < spec.sources.size(); ++s) {
            if (part.members().source_member[s] == m) sources.push_back(spec.sources[s].id);
        }
        for (std::uint32_t d = 0; d < spec.destinations.size(); ++d) {
            if (part.members().destination_member[d] == m) {
                destinations.push_back(spec.destinations[d].id);
            }
        }
        text += "\n  " + part.describe(m) + " has sources (" + list_text(sources) +
                "), destinations (" + list_text(destinations) + ")";
        if (part.presence(m) == Part::Presence::Left) text += "; has left";
        if (m < silent.size() && silent[m]) text += "; gives no sign of life";
    }
    return text;
}

}  // namespace

std::string unlaunched_report(ChannelImpl const& channel, Registry const& registry) {
    std::string text;
    for (auto const& launch : registry.launches) {
        if (!has_endpoint(channel, launch->endpoint)) continue;
        std::lock_guard const lock(launch->mutex);
        std::uint32_t const missing = launch->not_launched();
        if (missing == 0) continue;
        text += "\n  endpoint " + std::to_string(launch->endpoint.id) +
                ": Attachment::launched was not called for " + std::to_string(missing) + " of " +
                std::to_string(launch->groups) + " attached groups";
    }
    return text;
}

std::string stall_report(ChannelImpl& channel, Silent const& silent) {
    constexpr int kMostLines = 8;
    State const& state = channel.state();
    std::string text;
    int lines = 0;
    for (auto const& lane : channel.stats().lanes) {
        if (lane.waits == 0 || ++lines > kMostLines) continue;
        text += "\n  lane " + std::to_string(lane.source) + " -> " +
                std::to_string(lane.destination) + ": " + std::to_string(lane.segments) +
                " segments published, found full " + std::to_string(lane.waits) + " times";
    }
    for (auto const& queue : channel.stats().queues) {
        if (++lines > 2 * kMostLines) break;
        text += "\n  queue of " + std::to_string(queue.destination) + ": " +
                std::to_string(queue.segments) + " segments pushed, " +
                std::to_string(queue.taken) + " taken, " + std::to_string(queue.rows) +
                " rows received";
    }
    for (std::uint32_t const s : channel.here().sources) {
        auto const& source = state.sources[s];
        std::uint32_t const expected = source.words->groups_expected.load(relaxed);
        std::uint32_t const flushed = source.words->groups_flushed.load(relaxed);
        if (expected == flushed && expected != 0) continue;
        if (++lines > 3 * kMostLines) break;
        text += "\n  source " + std::to_string(channel.spec().sources[s].id) + ": " +
                (expected == 0 ? "no group has sent"
                               : std::to_string(flushed) + " of " + std::to_string(expected) +
                                     " groups have flushed");
    }
    if (channel.crossing() != nullptr) text += channel.crossing()->describe();
    return text + members_report(channel, silent);
}

}  // namespace mgi
