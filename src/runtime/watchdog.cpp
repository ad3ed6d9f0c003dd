#include "runtime/watchdog.hpp"

#include <vector>

namespace mgi {

using device::relaxed;
using device::RoutingKind;

namespace {

constexpr auto kTick = std::chrono::milliseconds(50);

// The lane's groups find no room: its next slot is still held by a reader.
bool lane_is_full(State const& state, device::Lane<Words> const& lane) {
    auto const ticket = device::Ticket::of(lane.ticket.load(relaxed));
    auto const& slot = lane.slots[ticket.sequence & lane.mask];
    bool const held =
        (slot.sequence.load(relaxed) & device::Ticket::kSequenceMask) != ticket.sequence;
    bool const underway =
        !state.by_reference && lane.published.load(relaxed) != lane.delivered.load(relaxed);
    return held || underway;
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

// Endpoints that a full lane waits for although nobody receives there.
std::vector<std::uint32_t> gone_destinations(ChannelImpl& channel, Registry const& registry) {
    State const& state = channel.state();
    auto const& spec = channel.spec();
    auto const alive = [&](std::uint32_t d) {
        return registry.launch_runs_on(spec.destinations[d]) ||
               channel.has_receiver(d);
    };
    std::vector<bool> gone(state.destination_count, false);
    for (std::uint32_t s = 0; s < state.source_count; ++s) {
        if (!source_waits(state, state.sources[s])) continue;
        for (std::uint32_t l = 0; l < state.lane_count; ++l) {
            if (!lane_is_full(state, state.sources[s].lanes[l])) continue;
            bool const own_lane =
                state.routing == RoutingKind::Partition || state.routing == RoutingKind::Direct;
            std::uint32_t const first = own_lane ? l : 0;
            std::uint32_t const last = own_lane ? l + 1 : state.destination_count;
            bool any_alive = false;
            for (std::uint32_t d = first; d < last; ++d) any_alive |= alive(d);
            // Any destination may free a Balance lane.
            if (state.routing == RoutingKind::Balance && any_alive) continue;
            for (std::uint32_t d = first; d < last; ++d) {
                auto const& queue = *state.destinations[d].queue;
                bool const behind = queue.pushed() != queue.taken();
                if (!alive(d) && (behind || !any_alive)) gone[d] = true;
            }
        }
    }
    std::vector<std::uint32_t> ids;
    for (std::uint32_t d = 0; d < state.destination_count; ++d) {
        if (gone[d]) ids.push_back(spec.destinations[d].id);
    }
    return ids;
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
    while (!wake_.wait_for(lock, kTick, [&] { return stop_; })) look(Clock::now());
}

void Watchdog::look(Clock::time_point now) {
    std::lock_guard const lock(registry_->mutex);
    std::erase_if(seen_, [&](auto const& entry) { return !registry_->channels.contains(entry.first); });
    for (auto const& [id, channel] : registry_->channels) {
        if (channel->failed()) continue;
        std::uint64_t const progress = channel->progress();
        auto const [at, fresh] = seen_.try_emplace(id, Seen{progress, now});
        if (fresh || at->second.progress != progress) {
            at->second = {progress, now};
            continue;
        }
        look_at(*channel, now - at->second.since);
    }
}

void Watchdog::look_at(ChannelImpl& channel, Clock::duration idle) {
    auto const& options = channel.spec().options;
    bool const stalled = options.stall_limit.count() != 0 && idle >= options.stall_limit;
    if (stalled && has_started(channel.state()) && !channel.complete()) {
        channel.fail(ErrorCode::Stalled,
                     "no row moved for " + milliseconds(idle) + " (stall_limit)" +
                         stall_report(channel));
        return;
    }
    if (options.gone_limit.count() == 0 || idle < options.gone_limit) return;
    auto const gone = gone_destinations(channel, *registry_);
    if (gone.empty()) return;
    channel.fail(ErrorCode::Stalled, "no row moved for " + milliseconds(idle) +
                                         " and nobody receives at endpoint " + join(gone) +
                                         " any more, or ever did (gone_limit)" +
                                         stall_report(channel));
}

}  // namespace mgi
