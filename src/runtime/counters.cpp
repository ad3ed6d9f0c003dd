#include "runtime/counters.hpp"

#include <algorithm>

#include "runtime/crossing.hpp"
#include "runtime/queued.hpp"
#include "runtime/who_waits.hpp"

namespace mgi {

using device::relaxed;
using std::chrono::duration_cast;
using std::chrono::milliseconds;

namespace {

// Shorter ones are the ordinary way of a full channel.
constexpr milliseconds kLeastWait{200};

std::uint64_t ms_of(Counters::Clock::duration time) {
    return static_cast<std::uint64_t>(
        std::max<std::int64_t>(duration_cast<milliseconds>(time).count(), 0));
}

// Keeps the first `most`; how many were dropped.
template <class T>
std::uint64_t cut(std::vector<T>& items, std::size_t most) {
    std::uint64_t const all = items.size();
    if (all > most) items.resize(most);
    return all - items.size();
}

// What carries a lane's segments: "copy", "reference and wire".
std::string carrier_of(State const& state, std::uint32_t source, std::uint32_t lane) {
    auto const& words = state.sources[source].lanes[lane];
    auto const [first, last] = state.destinations_of(lane);
    bool copied = false;
    bool far = false;
    for (std::uint32_t d = first; words.moves != 0 && d < last; ++d) {
        bool const is_far = state.destinations[d].queue == nullptr;
        far |= is_far;
        copied |= !is_far && !state.reads_in_place(source, d);
    }
    std::string text = words.reader_count != 0 ? "reference" : "";
    if (copied) text += text.empty() ? "copy" : " and copy";
    if (far) text += text.empty() ? "wire" : " and wire";
    return text;
}

}  // namespace

void add(ClusterFlow& to, ClusterFlow const& flow) {
    to.rows += flow.rows;
    to.bytes += flow.bytes;
    to.segments += flow.segments;
    to.in_flight += flow.in_flight;
    to.waiting += flow.waiting;
    to.waits += flow.waits;
    to.waited_ms += flow.waited_ms;
    to.longest_wait_ms = std::max(to.longest_wait_ms, flow.longest_wait_ms);
    to.resends += flow.resends;
}

void Counters::look(ChannelImpl& channel, Clock::time_point now) {
    State const& state = channel.state();
    lane_count_ = state.lane_count;
    lanes_.resize(std::size_t{state.source_count} * lane_count_);
    destinations_.resize(state.destination_count);
    for (std::uint32_t s = 0; s < state.source_count; ++s) {
        auto const& source = state.sources[s];
        if (source.lanes == nullptr) continue;  // on another server
        bool const waits = source_waits(state, source);
        for (std::uint32_t l = 0; l < lane_count_; ++l) {
            LaneLook& look = lanes_[s * lane_count_ + l];
            auto const& lane = source.lanes[l];
            bool const read = lane.moves == 0 || (waits && readers_hold(lane));
            count(
                look,
                read ? waits_for_readers(lane, look, waits) : waits_for_moves(channel, s, l, look),
                now);
        }
    }
    for (std::uint32_t d = 0; d < state.destination_count; ++d) {
        DestinationLook& look = destinations_[d];
        auto const* const queue = state.destinations[d].queue;
        if (queue == nullptr) continue;
        std::uint64_t const taken = taken_at(state, d);
        bool const waits =
            come_to(state, d) == taken && has_received(state, d) && !channel.ended(d);
        if (!waits) {
            look.since.reset();
        } else if (!look.since || look.taken != taken) {
            look.since = now;
        }
        look.taken = taken;
    }
    last_look_ = now;
}

// The segment that nobody can begin, since its slot is still being read.
bool Counters::waits_for_readers(device::Lane<Words> const& lane, LaneLook& look,
                                 bool groups_wait) {
    std::uint64_t const next = published_of(lane);
    look.is_new = look.sequence != next;
    look.was_pending = false;
    look.sequence = next;
    return groups_wait && readers_hold(lane);
}

// The segment that is published and has not arrived, for want of a credit; or so one thinks, if the last
// look saw it too.
bool Counters::waits_for_moves(ChannelImpl& channel, std::uint32_t source, std::uint32_t lane,
                               LaneLook& look) {
    auto const& words = channel.state().sources[source].lanes[lane];
    std::uint64_t const next = delivered_of(words);
    bool const pending = next < words.published.load(relaxed);
    look.is_new = !look.was_pending || look.sequence != next;
    look.was_pending = pending;
    look.sequence = next;
    return pending && (!look.is_new || lacks_credit(channel, source, lane));
}

void Counters::count(LaneLook& look, bool waits, Clock::time_point now) {
    if (!waits) {
        look.since.reset();
        return;
    }
    if (look.since && last_look_) look.waited += now - *last_look_;
    if (!look.since || look.is_new) {
        look.since = now;
        ++look.waits;
    }
    look.longest = std::max(look.longest, now - *look.since);
}

void Counters::skip(Clock::duration time) {
    if (last_look_) *last_look_ += time;
    for (LaneLook& look : lanes_) {
        if (look.since) *look.since += time;
    }
    for (DestinationLook& look : destinations_) {
        if (look.since) *look.since += time;
    }
}

std::optional<milliseconds> Counters::lane_waits(std::uint32_t source, std::uint32_t lane,
                                                 Clock::time_point now) const {
    std::size_t const at = std::size_t{source} * lane_count_ + lane;
    if (at >= lanes_.size() || !lanes_[at].since) return std::nullopt;
    return duration_cast<milliseconds>(now - *lanes_[at].since);
}

std::optional<milliseconds> Counters::destination_waits(std::uint32_t destination,
                                                        Clock::time_point now) const {
    if (destination >= destinations_.size() || !destinations_[destination].since) {
        return std::nullopt;
    }
    return duration_cast<milliseconds>(now - *destinations_[destination].since);
}

ClusterFlow Counters::flow_of(ChannelImpl& channel, LaneStats const& stats, std::uint32_t source,
                              std::uint32_t lane) const {
    State const& state = channel.state();
    ClusterFlow flow;
    flow.rows = stats.rows;
    flow.bytes = stats.bytes;
    flow.segments = stats.segments;
    auto const& words = state.sources[source].lanes[lane];
    if (words.moves != 0) {
        std::uint64_t const delivered = delivered_of(words);
        flow.segments = std::min(delivered, stats.segments);
        flow.in_flight = stats.segments - flow.segments;
    }
    std::size_t const at = std::size_t{source} * lane_count_ + lane;
    if (at >= lanes_.size()) return flow;  // nobody has looked yet
    LaneLook const& look = lanes_[at];
    if (look.since) flow.waiting = std::max<std::uint64_t>(flow.in_flight, 1);
    flow.waits = look.waits;
    flow.waited_ms = ms_of(look.waited);
    flow.longest_wait_ms = ms_of(look.longest);
    return flow;
}

ClusterUse Counters::use(ChannelImpl& channel, Clock::time_point now) const {
    State const& state = channel.state();
    ChannelSpec const& spec = channel.spec();
    ClusterUse use;
    use.channel = channel.id();
    ChannelStats const stats = channel.stats();
    bool const one_to_one = state.lane_count == state.destination_count;
    auto counted_lane = stats.lanes.begin();  // of the sources on this server
    for (std::uint32_t s = 0; s < state.source_count; ++s) {
        if (state.sources[s].lanes == nullptr) continue;
        for (std::uint32_t l = 0; l < state.lane_count; ++l, ++counted_lane) {
            if (!channel.is_own_source(s)) continue;
            ClusterPathUse path;
            path.source = spec.sources[s].id;
            if (one_to_one) path.destination = spec.destinations[l].id;
            path.by = carrier_of(state, s, l);
            path.flow = flow_of(channel, *counted_lane, s, l);
            add(use.flow, path.flow);
            use.paths.push_back(std::move(path));
        }
    }
    if (channel.relays() != nullptr) channel.relays()->add_use(use);
    if (channel.crossing() != nullptr) channel.crossing()->add_use(use);
    std::stable_sort(use.paths.begin(), use.paths.end(),
                     [](auto const& a, auto const& b) { return a.flow.bytes > b.flow.bytes; });
    use.more_paths = cut(use.paths, ClusterUse::kMostPaths);
    device::ReceiveQueue<Words> const* counted = nullptr;  // one may be for all
    for (std::uint32_t d = 0; d < state.destination_count; ++d) {
        auto const* const queue = state.destinations[d].queue;
        if (queue == nullptr || queue == counted || !channel.is_own_destination(d)) continue;
        counted = queue;
        std::uint64_t const taken = taken_at(state, d);  // ahead of what has come, which only grows
        // Of a GPU both are from one copy, in which the later word may be older.
        use.queued += std::max(come_to(state, d), taken) - taken;
    }
    if (channel.failed()) return use;
    use.waits = who_waits(channel, *this, now, kLeastWait, false);
    use.more_waits = cut(use.waits, ClusterUse::kMostWaits);
    return use;
}

}  // namespace mgi
