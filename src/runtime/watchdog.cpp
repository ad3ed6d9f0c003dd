#include "runtime/watchdog.hpp"

#include <algorithm>

#include "core/log.hpp"
#include "runtime/crossing.hpp"
#include "runtime/who_waits.hpp"

namespace mgi {

namespace {

constexpr auto kTick = std::chrono::milliseconds(50);

// A heart that has stood still for so long is looked at; gone_limit is what judges.
constexpr auto kSilence = std::chrono::milliseconds(250);
// Of a shared channel's limit: what other processes say about themselves is that old.
constexpr auto kLeastLimit = std::chrono::milliseconds(500);
// Two looks that lie so far apart: this process was stopped, or had no core.
constexpr auto kAsleep = std::chrono::milliseconds(1000);

std::string in_ms(std::chrono::steady_clock::duration duration) {
    auto const count = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
    return std::to_string(count) + " ms";
}

}  // namespace

Watchdog::Watchdog(std::shared_ptr<Registry> registry, std::function<void()> idle)
    : registry_(std::move(registry)), idle_(std::move(idle)), thread_([this] { run(); }) {}

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
    if (now - last_look_ > kAsleep) skip(now - last_look_);
    last_look_ = now;
    std::erase_if(seen_,
                  [&](auto const& entry) { return !registry_->channels.contains(entry.first); });
    std::erase_if(registry_->counters,
                  [&](auto const& entry) { return !registry_->channels.contains(entry.first); });
    for (auto const& [id, channel] : registry_->channels) {
        if (channel->failed() || channel->adopt_failure()) continue;
        (void)channel->refresh();
        registry_->counters[id].look(*channel, now);
        std::uint64_t const progress = channel->progress();
        auto const [at, fresh] = seen_.try_emplace(id, Seen{progress, now, now});
        Seen& seen = at->second;
        Silent const silent = listen(*channel, seen, now);
        if (channel->shared()) attend(*channel, *registry_);
        if (channel->crossing() != nullptr) {
            channel->crossing()->links().say_progress(channel->own_progress());
            channel->crossing()->release_leavers();
        }
        if (fresh || seen.progress != progress) {
            seen.progress = progress;
            seen.since = seen.gone_since = now;
            continue;
        }
        look_at(*channel, seen, silent, now);
    }
    // With the mutex: a thread that launches a kernel takes it before that starts.
    if (idle_ && is_idle()) idle_();
}

bool Watchdog::is_idle() const {
    return std::none_of(registry_->launches.begin(), registry_->launches.end(),
                        [](auto const& launch) { return launch->on_gpu && launch->runs(); });
}

// What happened while nobody looked is not held against anybody.
void Watchdog::skip(Clock::duration time) {
    for (auto& [id, seen] : seen_) {
        seen.since += time;
        seen.gone_since += time;
        for (Seen::Heart& heart : seen.hearts) heart.since += time;
    }
    for (auto& [id, counters] : registry_->counters) counters.skip(time);
}

// Lets this process' heart beat, and hears the others'.
Silent Watchdog::listen(ChannelImpl& channel, Seen& seen, Clock::time_point now) {
    if (!channel.shared()) return {};
    Part& part = *channel.part();
    part.beat();
    std::uint32_t const members = part.members().count;
    seen.hearts.resize(members);
    Silent silent(members, false);
    for (std::uint32_t m = 0; m < members; ++m) {
        auto& heart = seen.hearts[m];
        std::uint64_t const beat = part.heartbeat(m);
        // Who has not come yet is awaited by who makes the channel, and who has left by nobody.
        bool const joined = part.presence(m) == Part::Presence::Joined;
        if (beat != heart.beat || !joined || heart.since == Clock::time_point()) {
            heart = {beat, now};
        }
        silent[m] = m != part.members().me && now - heart.since >= kSilence;
    }
    return silent;
}

std::string Watchdog::report(ChannelImpl& channel, Silent const& silent,
                             Clock::time_point now) const {
    return unlaunched_report(channel, *registry_) +
           waits_report(channel, registry_->counters[channel.id()], now) +
           stall_report(channel, silent);
}

void Watchdog::look_at(ChannelImpl& channel, Seen& seen, Silent const& silent,
                       Clock::time_point now) {
    auto const& options = channel.spec().options;
    Clock::duration const idle = now - seen.since;
    bool const stalled = options.stall_limit.count() != 0 && idle >= options.stall_limit;
    if (stalled && has_started(channel) && !channel.complete()) {
        channel.fail(ErrorCode::Stalled, "no row moved for " + in_ms(idle) + " (stall_limit)" +
                                             report(channel, silent, now));
        return;
    }
    if (options.gone_limit.count() == 0) return;
    std::string const gone = who_is_gone(channel, *registry_, silent);
    if (gone.empty()) {
        seen.gone_since = now;
        return;
    }
    auto const limit =
        channel.shared() ? std::max(options.gone_limit, kLeastLimit) : options.gone_limit;
    if (now - seen.gone_since < limit) return;
    channel.fail(ErrorCode::Stalled, "no row moved for " + in_ms(idle) + " and " + gone +
                                         " (gone_limit)" + report(channel, silent, now));
}

}  // namespace mgi
