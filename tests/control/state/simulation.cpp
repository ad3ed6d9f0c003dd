// The world and the controller's side of the simulation.
#include "control/state/simulation.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <variant>

#include <mgi/runtime.hpp>

#include "control/state/rig.hpp"

namespace mgi::control::test {
namespace {

constexpr Millis kChaos = 60'000;
constexpr Millis kTick = 20;

Settings settings_of(mgi::test::Random& random) {
    Settings settings;
    settings.heartbeat_ms = 300;
    settings.lease_ms = static_cast<std::uint32_t>(random.between(700, 1500));
    settings.grace_ms = static_cast<std::uint32_t>(random.between(4000, 10'000));
    settings.limits.remembered = 20;
    settings.limits.failures = 10;
    settings.limits.replanning = 2;
    return settings;
}

}  // namespace

Simulation::Simulation(std::uint64_t seed)
    : random_(seed), settings_(settings_of(random_)), oracle_(settings_) {
    set_log_level("off");
}

void Simulation::at(Millis when, std::function<void()> what) {
    queue_.push({std::max(when, time_), order_++, std::move(what)});
}

void Simulation::say(std::string const& what) const {
    if (trace) std::printf("%8lld  %s\n", static_cast<long long>(time_), what.c_str());
}

void Simulation::broken(std::string const& promise) const {
    throw BrokenPromise(promise);
}

void Simulation::run_until(Millis end) {
    while (!queue_.empty() && queue_.top().when <= end) {
        Later const next = queue_.top();
        queue_.pop();
        time_ = next.when;
        ++steps_;
        try {
            next.what();
        } catch (BrokenPromise const& promise) {
            throw std::runtime_error("at " + std::to_string(time_) + " ms, step " +
                                     std::to_string(steps_) + ": " + promise.what());
        }
    }
    time_ = end;
}

void Simulation::run() {
    start_controller();
    std::size_t const count = 2 + random_.below(4);
    for (std::size_t i = 0; i < count; ++i) {
        SimAgent& agent = agents_.emplace_back();
        agent.name = "node" + std::to_string(i);
        agent.instance = "instance-" + std::to_string(names_++);
        at(soon(500), [this, i] { connect(i); });
        at(soon(300), [this, i] { beat(i); });
    }
    for (Millis t = time_ + 1000; t < time_ + kChaos; t += random_.between(20, 1500)) {
        at(t, [this] { fault(); });
    }
    for (Millis t = time_ + 800; t < time_ + kChaos; t += random_.between(20, 400)) {
        at(t, [this] {
            auto const index = static_cast<std::size_t>(random_.below(agents_.size()));
            std::string request = "request-" + std::to_string(names_++);
            if (random_.one_in(3)) return create_endpoint(index, request, 5);
            CreateChannelRequest asked;
            asked.set_request(request);
            for (std::uint32_t id : some_endpoints()) asked.mutable_spec()->add_sources(id);
            for (std::uint32_t id : some_endpoints()) asked.mutable_spec()->add_destinations(id);
            asked.set_deadline_ms(random_.one_in(2) ? 0 : 1 + std::uint32_t(random_.below(3000)));
            create_channel(index, asked, 5);
        });
    }
    run_until(time_ + kChaos);
    settle();
    run_until(time_ + 60'000);
    check_settled();
}

// ---------------------------------------------------------------------------------- the controller

void Simulation::start_controller() {
    IdBlocks blocks;
    for (std::size_t i = 0; i < kIdKinds; ++i) {
        blocks[i] = {next_id_[i], 10};
        next_id_[i] += 10;
    }
    ++epoch_;
    say("controller starts, epoch " + std::to_string(epoch_));
    frozen_until_ = planner_free_ = time_;
    cluster_ = std::make_unique<Cluster>(settings_, epoch_, blocks, Now{time_, 0});
    oracle_.restarted(epoch_, time_);
    at(time_ + kTick, [this, epoch = epoch_] {
        if (cluster_ != nullptr && epoch_ == epoch) tick();
    });
}

void Simulation::tick() {
    at(time_ + kTick, [this, epoch = epoch_] {
        if (cluster_ != nullptr && epoch_ == epoch) tick();
    });
    if (time_ < frozen_until_) return;
    apply([](Cluster& cluster, Now now, Effects& effects) { cluster.tick(now, effects); });
    for (auto const& [id, call] : calls_) {
        if (call.epoch == epoch_ && oracle_.now() > call.deadline + 2 * kTick) {
            broken("call " + std::to_string(id) + " has no answer after its deadline");
        }
    }
}

void Simulation::crash_controller() {
    if (cluster_ == nullptr) return;
    say("controller dies");
    cluster_.reset();
    for (auto& [session, stream] : streams_) stream.controller_side = false;
    for (auto& [session, stream] : streams_) {
        SimAgent const& agent = agents_[stream.agent];
        if (!stream.agent_side || agent.session != session) continue;
        at(std::max({soon(200), agent.frozen_until, agent.cut_until}), [this, s = session] {
            if (streams_.at(s).agent_side && agents_[streams_.at(s).agent].session == s) {
                lose_session(streams_.at(s).agent, time_);
            }
        });
    }
    // Callers see their calls break, too.
    auto const lost = std::exchange(calls_, {});
    at(soon(1500), [this] { start_controller(); });
}

void Simulation::to_controller(std::function<void()> what) {
    if (cluster_ == nullptr) return;
    if (time_ >= frozen_until_) return what();
    at(frozen_until_, [this, epoch = epoch_, what = std::move(what)] {
        if (epoch_ == epoch) to_controller(what);
    });
}

Effects Simulation::apply(Event const& event) {
    Effects effects;
    oracle_.time(time_);
    event(*cluster_, Now{time_, 0}, effects);
    oracle_.effects(effects);
    Snapshot const shown = cluster_->snapshot(Now{time_, 0});
    oracle_.states(shown);
    std::size_t open = 0;
    for (auto const& [session, stream] : streams_) open += stream.controller_side ? 1 : 0;
    std::size_t const most =
        2 * shown.servers.size() + open + calls_.size() + 2 * shown.channels.size() + 2;
    if (cluster_->timers() > most) broken("timers pile up");
    carry_out(effects);
    return effects;
}

void Simulation::carry_out(Effects& effects) {
    for (Effect& effect : effects) {
        if (auto* send = std::get_if<Send>(&effect)) {
            auto const found = streams_.find(send->session);
            if (found == streams_.end() || !found->second.controller_side) continue;
            Stream& stream = found->second;
            SimAgent const& agent = agents_[stream.agent];
            stream.last_down =
                std::max({stream.last_down, soon(random_.one_in(20) ? 800 : 15), agent.cut_until});
            stream.down.push_back(std::make_shared<ControllerMessage const>(whole(*send)));
            at(stream.last_down, [this, s = send->session] { hear_next(s); });
        } else if (auto* close = std::get_if<Close>(&effect)) {
            auto const found = streams_.find(close->session);
            if (found == streams_.end()) continue;
            found->second.controller_side = false;
            at(found->second.last_down, [this, s = close->session] {
                Stream const& to = streams_.at(s);
                if (to.agent_side && agents_[to.agent].session == s) lose_session(to.agent, time_);
            });
        } else if (auto* answer = std::get_if<Answer>(&effect)) {
            auto const call = calls_.find(answer->call);
            if (call == calls_.end()) broken("an answer to no call, or a second one");
            auto const done = std::move(call->second.done);
            calls_.erase(call);
            at(soon(random_.one_in(20) ? 800 : 15),
               [done, said = std::move(*answer)] { done(said); });
        } else if (auto* request = std::get_if<MakePlan>(&effect)) {
            plan(*request);
        } else if (auto* more = std::get_if<Reserve>(&effect)) {
            reserve(more->kind);
        }
    }
}

void Simulation::plan(MakePlan const& request) {
    planner_free_ =
        std::max(planner_free_, time_) + random_.between(0, random_.one_in(30) ? 4000 : 10);
    PlanMade made;
    if (random_.one_in(30)) made.error = "no way";
    for (auto const* places : {&request.sources, &request.destinations}) {
        for (Place const& place : *places) {
            made.tables[place.agent] = "table " + std::to_string(link_version_ / 2);
        }
    }
    at(planner_free_, [this, epoch = epoch_, request, made] {
        to_controller([this, epoch, request, made] {
            if (epoch != epoch_) return;
            apply([&](Cluster& cluster, Now now, Effects& effects) {
                cluster.planned(request.channel, request.generation, made, now, effects);
            });
        });
    });
}

void Simulation::reserve(IdKind kind) {
    at(soon(300), [this, kind, epoch = epoch_] {
        if (epoch != epoch_) return;
        bool const fails = !calm_ && random_.one_in(4);
        auto& next = next_id_[static_cast<std::size_t>(kind)];
        IdBlock const block{next, 10};
        if (!fails) next += 10;
        to_controller([this, kind, block, fails] {
            apply([&](Cluster& cluster, Now now, Effects& effects) {
                cluster.tick(now, effects);
                if (fails) {
                    cluster.ids_not_reserved(kind);
                } else {
                    cluster.ids_reserved(kind, block);
                }
            });
        });
    });
}

void Simulation::deliver_up(SessionId session, AgentMessage message) {
    bool const known = oracle_.valid(session, message.sender());
    bool const first = message.has_register_();
    if (!first) {  // what is due anyway is no effect of this word
        apply([](Cluster& cluster, Now now, Effects& effects) { cluster.tick(now, effects); });
    }
    bool const valid = known && oracle_.valid(session, message.sender());
    std::size_t const before = cluster_->snapshot(Now{time_, 0}).endpoints.size();
    AgentMessage copy = message;
    Effects const effects = apply([&](Cluster& cluster, Now now, Effects& made) {
        oracle_.word(session, message);
        cluster.session_message(session, copy, now, made);
    });
    if (valid || first) return;
    Oracle::no_effect(effects);
    if (cluster_->snapshot(Now{time_, 0}).endpoints.size() != before) {
        broken("a stale sender's message took endpoints away");
    }
}

}  // namespace mgi::control::test
