#include "control/controller/engine.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <iterator>
#include <utility>
#include <variant>

#include "core/log.hpp"

namespace mgi::control {
namespace {

/// How many ids of a kind are reserved at once: some seconds' worth, so that a write to the disk is
/// rare and few ids are lost with a controller.
constexpr std::array<std::uint32_t, kIdKinds> kBlock = {256, 4096, 16384};

Now now() {
    using std::chrono::duration_cast;
    using std::chrono::milliseconds;
    return {
        duration_cast<milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count(),
        duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count()};
}

IdBlock reserve(Storage& storage, IdKind kind) {
    return storage.reserve(kind, kBlock[static_cast<std::size_t>(kind)]);
}

IdBlocks first_blocks(Storage& storage) {
    return {reserve(storage, IdKind::Agent), reserve(storage, IdKind::Endpoint),
            reserve(storage, IdKind::Channel)};
}

Settings checked(Settings const& settings) {
    check(settings);
    return settings;
}

}  // namespace

Engine::Engine(Settings const& settings, Storage& storage, std::unique_ptr<ChannelPlans> plans,
               Outlet& outlet)
    : storage_(storage),
      plans_(std::move(plans)),
      outlet_(outlet),
      settings_(checked(settings)),
      epoch_(storage.epoch()),
      cluster_(settings, epoch_, first_blocks(storage), now()),
      clock_([this] { watch_time(); }) {
    log::info("controller: epoch {}", epoch_);
}

void Engine::stop() {
    {
        std::lock_guard const lock(mutex_);
        stopping_ = true;
        outbox_.clear();
    }
    stopped_.notify_all();
    if (clock_.joinable()) clock_.join();
    planner_.stop();
    reserver_.stop();
}

void Engine::apply(Event const& event) noexcept {
    try {
        apply_or_throw(event);
    } catch (std::exception const& error) {  // memory
        log::error("controller: cannot go on, and ends; start it again: {}", error.what());
        std::terminate();
    }
}

void Engine::apply_or_throw(Event const& event) {
    std::unique_lock lock(mutex_);
    if (stopping_) return;
    event(cluster_, now(), outbox_);
    if (delivering_) return;
    // Effects leave without the lock: an outlet may call back, and others' events go on meanwhile.
    delivering_ = true;
    while (!outbox_.empty()) {
        Effects const batch = std::exchange(outbox_, {});
        lock.unlock();
        deliver(batch);
        lock.lock();
    }
    delivering_ = false;
}

void Engine::deliver(Effects const& effects) {
    for (Effect const& effect : effects) {
        std::visit([this](auto const& one) { carry_out(one); }, effect);
    }
}

void Engine::carry_out(Reserve const& reserve_more) {
    reserver_.add([this, kind = reserve_more.kind] {
        try {
            IdBlock const block = reserve(storage_, kind);
            apply([&](Cluster& cluster, Now, Effects&) { cluster.ids_reserved(kind, block); });
        } catch (std::exception const& error) {
            log::error("controller: no more {} ids: {}", to_string(kind), error.what());
            apply([&](Cluster& cluster, Now, Effects&) { cluster.ids_not_reserved(kind); });
        }
    });
}

void Engine::carry_out(LearnServer const& server) {
    planner_.add([this, server] {
        try {
            plans_->learn(server);
        } catch (std::exception const& error) {
            log::error("controller: no plans with server {}: {}", server.name, error.what());
        }
    });
}

void Engine::carry_out(LearnLink const& link) {
    planner_.add([this, link] {
        try {
            plans_->learn(link);
        } catch (std::exception const& error) {
            log::error("controller: plans go on without a link's change: {}", error.what());
        }
    });
}

void Engine::carry_out(ForgetServer const& server) {
    planner_.add([this, agent = server.agent] {
        try {
            plans_->forget(agent);
        } catch (std::exception const& error) {
            log::error("controller: {}", error.what());
        }
    });
}

void Engine::carry_out(MakePlan const& request) {
    planner_.add([this, request] {
        PlanMade made;
        try {
            made = plans_->plan(request);
        } catch (std::exception const& error) {
            made.error = error.what();
        }
        apply([&](Cluster& cluster, Now at, Effects& effects) {
            cluster.planned(request.channel, request.generation, std::move(made), at, effects);
        });
    });
}

void Engine::watch_time() {
    // The state machine wants an event a heartbeat. Ticks are more frequent, so that what is due is
    // late by little on a busy machine, too.
    Millis const tick = std::min<Millis>(20, settings_.heartbeat_ms);
    std::unique_lock lock(mutex_);
    while (!stopping_) {
        Millis const until_due = cluster_.next_due().value_or(INT64_MAX) - now().steady;
        stopped_.wait_for(lock, std::chrono::milliseconds(std::clamp<Millis>(until_due, 1, tick)));
        if (stopping_) return;
        lock.unlock();
        apply([](Cluster& cluster, Now time, Effects& effects) { cluster.tick(time, effects); });
        lock.lock();
    }
}

Snapshot Engine::snapshot() const {
    Snapshot made;
    {
        std::lock_guard const lock(mutex_);
        made = cluster_.snapshot(now());
    }
    complete(made);
    return made;
}

}  // namespace mgi::control
