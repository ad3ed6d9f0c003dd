#include "runtime/watchdog.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "core/log.hpp"

namespace mgi {

using device::relaxed;
using device::RoutingKind;

namespace {

constexpr auto kTick = std::chrono::milliseconds(50);

// The lane's groups find no room: the slot that is published next is still held by a reader.
bool lane_is_full(State const& state, device::Lane<Words> const& lane) {
    device::u64 const next = lane.published.load(relaxed);
    bool const held = lane.slots[next & lane.mask].sequence.load(relaxed) != next;
    return held || (!state.by_reference && next != lane.delivered.load(relaxed));
}

bool has_started(State const& state) {
    for (std::uint32_t s = 0; s < state.source_count; ++s) {
        if (state.sources[s].groups_expected.load(relaxed) != 0) return true;
    }
    for (std::uint32_t d = 0; d < state.destination_count; ++d) {
        for (std::uint32_t g = 0; g < state.max_groups; ++g) {
            if (state.destinations[d].receivers[g].load(relaxed) != 0) return true;
        }
    }
    return false;
}

// Some group of the source waits for room or for its flush.
bool source_waits(State const& state, device::Source<Words> const& source) {
    for (std::uint32_t g = 0; g < state.max_groups; ++g) {
        auto const& group = source.groups[g];
        if (group.launch.load(relaxed) == 0 || group.flushed.load(relaxed) == 2) continue;
        if (group.starved.load(relaxed) != 0) return true;
    }
    return false;
}

std::string join(std::vector<std::uint32_t> const& ids) {
    std::string text;
    for (std::uint32_t const id : ids) text += (text.empty() ? "" : ", ") + std::to_string(id);
    return text;
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

// Whether anybody may still receive at a destination.
bool is_alive(ChannelImpl& channel, Registry const& registry, std::uint32_t destination) {
    if (channel.has_receiver(destination)) return true;
    Endpoint const endpoint = channel.spec().destinations[destination];
    std::uint32_t const source = channel.source_index(endpoint);
    auto const groups = registry.groups_on(endpoint);
    return std::any_of(groups.begin(), groups.end(), [&](std::uint64_t number) {
        return !only_sends(channel.state(), source, destination, number);
    });
}

// Destinations that a full lane waits for although nobody receives there.
void add_gone_destinations(ChannelImpl& channel, Registry const& registry, std::uint32_t source,
                           std::set<std::uint32_t>& gone) {
    State const& state = channel.state();
    bool const own_lane =
        state.routing == RoutingKind::Partition || state.routing == RoutingKind::Direct;
    for (std::uint32_t l = 0; l < state.lane_count; ++l) {
        if (!lane_is_full(state, state.sources[source].lanes[l])) continue;
        std::uint32_t const first = own_lane ? l : 0;
        std::uint32_t const last = own_lane ? l + 1 : state.destination_count;
        std::set<std::uint32_t> dead;
        bool somebody_at_it = false;
        for (std::uint32_t d = first; d < last; ++d) {
            auto const& queue = *state.destinations[d].queue;
            bool const alive = is_alive(channel, registry, d);
            if (!alive) dead.insert(channel.spec().destinations[d].id);
            // Any living destination may free a Balance lane; of a Broadcast's, one that is behind.
            bool const may_free =
                state.routing == RoutingKind::Balance || queue.pushed() != queue.taken();
            somebody_at_it |= alive && may_free;
        }
        if (!somebody_at_it) gone.merge(dead);
    }
}

// Who is awaited and gone, as "destination 3" or "source 2"; empty if nobody is.
std::string who_is_gone(ChannelImpl& channel, Registry const& registry) {
    State const& state = channel.state();
    std::set<std::uint32_t> destinations;
    std::vector<std::uint32_t> sources;
    for (std::uint32_t s = 0; s < state.source_count; ++s) {
        auto const& source = state.sources[s];
        if (source_waits(state, source)) {
            add_gone_destinations(channel, registry, s, destinations);
        }
        std::uint32_t const expected = source.groups_expected.load(relaxed);
        bool const open = expected != 0 && source.groups_flushed.load(relaxed) != expected;
        if (open && channel.stages().empty() && !channel.has_sender(s) &&
            registry.groups_on(channel.spec().sources[s]).empty()) {
            sources.push_back(channel.spec().sources[s].id);
        }
    }
    std::string text;
    if (!destinations.empty()) {
        text = "nobody receives at endpoint " + join({destinations.begin(), destinations.end()}) +
               " any more, or ever did";
    }
    if (!sources.empty()) {
        text += (text.empty() ? "" : ", and ");
        text += "whoever sent at endpoint " + join(sources) + " is gone and has not flushed";
    }
    return text;
}

std::string milliseconds(std::chrono::steady_clock::duration duration) {
    auto const count = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
    return std::to_string(count) + " ms";
}

}  // namespace

std::string stall_report(ChannelImpl& channel) {
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
    for (std::uint32_t s = 0; s < state.source_count; ++s) {
        auto const& source = state.sources[s];
        std::uint32_t const expected = source.groups_expected.load(relaxed);
        std::uint32_t const flushed = source.groups_flushed.load(relaxed);
        if (expected == flushed && expected != 0) continue;
        if (++lines > 3 * kMostLines) break;
        text += "\n  source " + std::to_string(channel.spec().sources[s].id) + ": " +
                (expected == 0 ? "no group has sent"
                               : std::to_string(flushed) + " of " + std::to_string(expected) +
                                     " groups have flushed");
    }
    return text;
}

Watchdog::Watchdog(std::shared_ptr<Registry> registry)
    : registry_(std::move(registry)), thread_([this] { run(); }) {}

Watchdog::~Watchdog() {
    {
        std::lock_guard const lock(mutex_);
        stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
}

void Watchdog::run() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, kTick, [&] { return stop_; })) {
        try {
            look(Clock::now());
        } catch (std::exception const& error) {
            log::error("the watchdog could not look: {}", error.what());
        }
    }
}

void Watchdog::look(Clock::time_point now) {
    std::lock_guard const lock(registry_->mutex);
    std::erase_if(seen_,
                  [&](auto const& entry) { return !registry_->channels.contains(entry.first); });
    for (auto const& [id, channel] : registry_->channels) {
        if (channel->failed()) continue;
        std::uint64_t const progress = channel->progress();
        auto const [at, fresh] = seen_.try_emplace(id, Seen{progress, now, now});
        if (fresh || at->second.progress != progress) {
            at->second = {progress, now, now};
            continue;
        }
        look_at(*channel, at->second, now);
    }
}

void Watchdog::look_at(ChannelImpl& channel, Seen& seen, Clock::time_point now) {
    auto const& options = channel.spec().options;
    Clock::duration const idle = now - seen.since;
    bool const stalled = options.stall_limit.count() != 0 && idle >= options.stall_limit;
    if (stalled && has_started(channel.state()) && !channel.complete()) {
        channel.fail(ErrorCode::Stalled, "no row moved for " + milliseconds(idle) +
                                             " (stall_limit)" + stall_report(channel));
        return;
    }
    if (options.gone_limit.count() == 0) return;
    std::string const gone = who_is_gone(channel, *registry_);
    if (gone.empty()) {
        seen.gone_since = now;
        return;
    }
    if (now - seen.gone_since < options.gone_limit) return;
    channel.fail(ErrorCode::Stalled, "no row moved for " + milliseconds(idle) + " and " + gone +
                                         " (gone_limit)" + stall_report(channel));
}

}  // namespace mgi
