#include "runtime/who_waits.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/text.hpp"
#include "runtime/crossing.hpp"
#include "runtime/queued.hpp"

namespace mgi {

using device::relaxed;
using device::RoutingKind;
using For = ClusterWait::For;

namespace {

using Indices = std::vector<std::uint32_t>;

void name(ClusterWait& wait, Indices const& indices, std::vector<Endpoint> const& endpoints) {
    for (std::uint32_t const index : indices) {
        if (wait.whom.size() == ClusterWait::kMost) {
            ++wait.more;
        } else {
            wait.whom.push_back(endpoints[index].id);
        }
    }
}

// By copy: every segment of the destination's pool for this source holds one that was not given back.
// `arrived` sequences of the source have come there.
bool pool_is_full(State const& state, std::uint32_t source, std::uint32_t destination,
                  std::uint64_t arrived) {
    auto const& ring = state.destinations[destination].rings[source];
    return std::all_of(ring.slots, ring.slots + ring.size,
                       [&](auto const& slot) { return slot.sequence.load(relaxed) < arrived; });
}

// Of what this process brings to another server; nothing for all else.
std::optional<mover::FarProgress> far_progress(ChannelImpl& channel, std::uint32_t source,
                                               std::uint32_t destination) {
    if (channel.crossing() == nullptr) return std::nullopt;
    return channel.crossing()->links().progress(source, destination);
}

// What a lane's next segment lacks to be where the mover brings it, as far as this process can tell.
enum class Lack : std::uint8_t { Nothing, Credit, Arrival };

Lack lack_of(ChannelImpl& channel, std::uint32_t source, std::uint32_t lane,
             std::uint32_t destination) {
    State const& state = channel.state();
    auto const& words = state.sources[source].lanes[lane];
    if (state.destinations[destination].rings != nullptr) {
        std::uint64_t const delivered = delivered_of(words);
        return pool_is_full(state, source, destination, delivered) ? Lack::Credit : Lack::Nothing;
    }
    auto const far = far_progress(channel, source, destination);
    if (!far) return Lack::Nothing;
    if (far->in_flight != 0) return Lack::Arrival;
    bool const behind = far->started < words.published.load(relaxed);
    return behind && !far->has_credit ? Lack::Credit : Lack::Nothing;
}

// The lane's destinations that the mover brings its segments to, where they lack that.
Indices lacking(ChannelImpl& channel, std::uint32_t source, std::uint32_t lane, Lack what) {
    State const& state = channel.state();
    Indices found;
    auto const [first, last] = state.destinations_of(lane);
    for (std::uint32_t d = first; d < last; ++d) {
        if (state.reads_in_place(source, d)) continue;
        if (lack_of(channel, source, lane, d) == what) found.push_back(d);
    }
    return found;
}

// Who may give back what the lane waits for, as far as that can be told: who reads it in place, or any
// destination of a Balance.
Indices holders(State const& state, std::uint32_t source, std::uint32_t lane) {
    auto const [first, last] = state.destinations_of(lane);
    Indices all;
    Indices behind;
    // Without moves all of them, wherever they are.
    bool const all_read = state.sources[source].lanes[lane].moves == 0;
    for (std::uint32_t d = first; d < last; ++d) {
        if (state.routing != RoutingKind::Balance && !all_read && !state.reads_in_place(source, d))
            continue;
        all.push_back(d);
        if (state.routing != RoutingKind::Broadcast) continue;
        if (come_to(state, d) != taken_at(state, d)) behind.push_back(d);
    }
    return behind.empty() ? all : behind;
}

// What holders on this server do with what a lane waits for.
std::string holders_text(State const& state, Indices const& holders) {
    std::uint64_t queued = 0;
    bool received = true;
    for (std::uint32_t const d : holders) {
        std::uint64_t const taken = taken_at(state, d);
        queued = std::max(queued, std::max(come_to(state, d), taken) - taken);
        received = received && has_received(state, d);
    }
    if (!received) return "nobody has received there yet";
    if (queued == 1) return "1 segment is queued there and not taken";
    if (queued != 0) return std::to_string(queued) + " segments are queued there and not taken";
    return "all segments there are taken, and none was given back";
}

// The same, wherever they are.
std::string kept_text(ChannelImpl& channel, std::uint32_t source, Indices const& holders) {
    State const& state = channel.state();
    Indices here;
    std::uint64_t kept = 0;
    for (std::uint32_t const d : holders) {
        if (state.destinations[d].queue != nullptr) {
            here.push_back(d);
        } else if (auto const far = far_progress(channel, source, d)) {
            kept = std::max(kept, far->kept);
        }
    }
    if (!here.empty()) return holders_text(state, here);
    if (channel.is_between_processes())
        return "the segment that is to be filled next is still read there";
    return std::to_string(kept) + " segments have arrived there and were not given back";
}

std::string on_their_way_text(ChannelImpl& channel, std::uint32_t source, Indices const& whom) {
    std::uint64_t segments = 0;
    for (std::uint32_t const d : whom) {
        if (auto const far = far_progress(channel, source, d)) segments += far->in_flight;
    }
    return segments == 1 ? "1 segment is on its way there"
                         : std::to_string(segments) + " segments are on their way there";
}

ClusterWait source_wait(ChannelImpl& channel, std::uint32_t source, std::uint32_t lane) {
    State const& state = channel.state();
    auto const& destinations = channel.spec().destinations;
    ClusterWait wait;
    wait.who = channel.spec().sources[source].id;
    auto const& from = state.sources[source];
    auto const& words = from.lanes[lane];
    bool const read = words.moves == 0 || (source_waits(state, from) && readers_hold(words));
    if (read || state.routing == RoutingKind::Balance) {
        Indices const whom = holders(state, source, lane);
        name(wait, whom, destinations);
        wait.why = kept_text(channel, source, whom);
        return wait;
    }
    Indices whom = lacking(channel, source, lane, Lack::Credit);
    if (!whom.empty()) {
        wait.why = kept_text(channel, source, whom);
    } else if (whom = lacking(channel, source, lane, Lack::Arrival); !whom.empty()) {
        wait.what = For::Link;
        wait.why = on_their_way_text(channel, source, whom);
    } else {
        wait.what = For::Mover;
        whom = lacking(channel, source, lane, Lack::Nothing);
        wait.why = channel.shared()
                       ? "the mover of " + channel.part()->describe(channel.mover_of(source)) +
                             " has not moved its segments"
                       : "the mover has not moved its segments";
    }
    name(wait, whom, destinations);
    return wait;
}

// Rows were sent that no destination can see, and not for want of room.
bool holds_rows_back(State const& state, device::Source<Words> const& source) {
    std::uint64_t published = 0;
    std::uint64_t accepted = 0;
    for (std::uint32_t l = 0; l < state.lane_count; ++l) {
        published += source.lanes[l].rows_published.load(relaxed);
    }
    for (std::uint32_t g = 0; g < state.max_groups; ++g) {
        accepted += source.groups[g].rows_accepted.load(relaxed);
    }
    return accepted > published && !source_waits(state, source);
}

// What keeps a source from ending.
std::string source_text(State const& state, std::uint32_t source) {
    auto const& from = state.sources[source];
    if (from.lanes == nullptr) return "elsewhere, and has not said that it has ended";
    std::uint32_t const expected = from.words->groups_expected.load(relaxed);
    std::uint32_t const flushed = from.words->groups_flushed.load(relaxed);
    if (expected == 0) return "nobody has sent there, or flushed";
    if (flushed == expected) return "flushed, and its segments are on their way";
    if (holds_rows_back(state, from)) {
        return "holds back rows of segments that are not full; has neither pushed nor flushed";
    }
    if (expected == 1) return "has not flushed";
    return std::to_string(flushed) + " of " + std::to_string(expected) + " groups have flushed";
}

// `reasons`: of each source, once it is known; many destinations may wait for many sources.
void add_destination_waits(ChannelImpl& channel, std::uint32_t destination,
                           std::chrono::milliseconds time, std::vector<std::string>& reasons,
                           std::vector<ClusterWait>& waits) {
    State const& state = channel.state();
    reasons.resize(state.source_count);
    std::map<std::string, Indices> by_reason;
    for (std::uint32_t s = 0; s < state.source_count; ++s) {
        if (state.destinations[destination].counts[s].load(relaxed) != 0) continue;  // has ended
        if (reasons[s].empty()) reasons[s] = source_text(state, s);
        by_reason[reasons[s]].push_back(s);
    }
    for (auto const& [why, sources] : by_reason) {
        ClusterWait wait;
        wait.what = For::Rows;
        wait.who = channel.spec().destinations[destination].id;
        name(wait, sources, channel.spec().sources);
        wait.ms = std::uint64_t(time.count());
        wait.why = why;
        waits.push_back(std::move(wait));
    }
}

// "rank 1 on server b, rank 2 on server b": who has these endpoints, if they are not too many.
std::string processes_text(ChannelImpl const& channel, bool sources, Indices const& ids) {
    constexpr std::size_t kMostNames = 3;
    PartMembers const& members = channel.part()->members();
    auto const& endpoints = sources ? channel.spec().sources : channel.spec().destinations;
    auto const& member = sources ? members.source_member : members.destination_member;
    std::set<std::uint32_t> found;
    for (std::size_t i = 0; i < endpoints.size(); ++i) {
        if (std::find(ids.begin(), ids.end(), endpoints[i].id) != ids.end()) {
            found.insert(member[i]);
        }
    }
    if (found.size() > kMostNames) return std::to_string(found.size()) + " processes";
    std::string text;
    for (std::uint32_t const one : found) text += (text.empty() ? "" : ", ") + members.name(one);
    return text;
}

// "destination 3 (rank 1)", "destinations 3, 4 and 7 more (rank 1, rank 2)"
std::string ends_text(ChannelImpl const& channel, bool sources, Indices const& ids,
                      std::uint32_t more) {
    std::string text = sources ? "source" : "destination";
    if (ids.size() + more != 1) text += 's';
    text += " " + list_text(ids);
    if (more != 0) text += " and " + std::to_string(more) + " more";
    if (!channel.shared() || ids.empty() || more != 0) return text;
    return text + " (" + processes_text(channel, sources, ids) + ")";
}

}  // namespace

bool source_waits(State const& state, device::Source<Words> const& source) {
    for (std::uint32_t g = 0; g < state.max_groups; ++g) {
        auto const& group = source.groups[g];
        if (group.launch.load(relaxed) == 0 || group.flushed.load(relaxed) == 2) continue;
        if (group.starved.load(relaxed) != 0) return true;
    }
    return false;
}

bool has_received(State const& state, std::uint32_t destination) {
    auto const* const receivers = state.destinations[destination].receivers;
    return std::any_of(receivers, receivers + state.max_groups,
                       [](auto const& word) { return word.load(relaxed) != 0; });
}

bool readers_hold(device::Lane<Words> const& lane) {
    std::uint64_t const next = published_of(lane);
    bool const held = lane.slots[next & lane.mask].sequence.load(relaxed) != next;
    // The slot has the sequence that was published a ring before.
    bool const moved = lane.moves == 0 || delivered_of(lane) + lane.mask >= next;
    return lane.reader_count != 0 && held && moved;
}

bool lacks_credit(ChannelImpl& channel, std::uint32_t source, std::uint32_t lane) {
    State const& state = channel.state();
    if (state.routing == RoutingKind::Balance) return false;
    auto const [first, last] = state.destinations_of(lane);
    for (std::uint32_t d = first; d < last; ++d) {
        if (state.reads_in_place(source, d)) continue;
        if (lack_of(channel, source, lane, d) == Lack::Credit) return true;
    }
    return false;
}

std::vector<ClusterWait> who_waits(ChannelImpl& channel, Counters const& counters,
                                   Counters::Clock::time_point now, std::chrono::milliseconds least,
                                   bool everybody) {
    State const& state = channel.state();
    std::vector<ClusterWait> waits;
    for (std::uint32_t s = 0; s < state.source_count; ++s) {
        if (!everybody && !channel.is_own_source(s)) continue;
        for (std::uint32_t l = 0; l < state.lane_count; ++l) {
            auto const time = counters.lane_waits(s, l, now);
            if (!time || *time < least) continue;
            waits.push_back(source_wait(channel, s, l));
            waits.back().ms = std::uint64_t(time->count());
        }
    }
    std::vector<std::string> reasons;
    for (std::uint32_t d = 0; d < state.destination_count; ++d) {
        if (!everybody && !channel.is_own_destination(d)) continue;
        auto const time = counters.destination_waits(d, now);
        if (time && *time >= least) add_destination_waits(channel, d, *time, reasons, waits);
    }
    // Who waits for room is what a stall comes from; who waits for rows may merely be early.
    std::stable_sort(waits.begin(), waits.end(), [](ClusterWait const& a, ClusterWait const& b) {
        bool const a_rows = a.what == For::Rows;
        bool const b_rows = b.what == For::Rows;
        return a_rows != b_rows ? b_rows : a.ms > b.ms;
    });
    return waits;
}

std::string wait_text(ChannelImpl const& channel, ClusterWait const& wait) {
    bool const is_source = wait.what != For::Rows;
    std::string text = ends_text(channel, is_source, {wait.who}, 0);
    text += " has waited " + std::to_string(wait.ms) + " ms for ";
    std::string const whom = ends_text(channel, !is_source, wait.whom, wait.more);
    switch (wait.what) {
        case For::Credit: text += "a credit of " + whom; break;
        case For::Rows: text += "rows of " + whom; break;
        case For::Mover: text += "its mover"; break;
        case For::Link: text += "the link to " + whom; break;
    }
    return text + ": " + wait.why;
}

std::string waits_report(ChannelImpl& channel, Counters const& counters,
                         Counters::Clock::time_point now) {
    constexpr std::size_t kMostLines = 8;
    auto const waits = who_waits(channel, counters, now, std::chrono::milliseconds(0), true);
    std::string text;
    for (std::size_t i = 0; i < std::min(waits.size(), kMostLines); ++i) {
        text += "\n  " + wait_text(channel, waits[i]);
    }
    if (waits.size() > kMostLines) {
        text += "\n  and " + std::to_string(waits.size() - kMostLines) + " more wait";
    }
    return text;
}

}  // namespace mgi
