// Time, senders, and messages out: what all of the cluster's rules share.
#include "control/state/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include <mgi/device/assert.hpp>

#include "control/state/validation.hpp"
#include "core/log.hpp"

namespace mgi::control {

Cluster::Cluster(Settings const& settings, std::uint64_t epoch, IdBlocks const& blocks, Now now)
    : settings_(settings),
      epoch_(epoch),
      ids_(blocks),
      started_(now.steady),
      last_event_(now.steady),
      now_(now.steady),
      wall_(now.wall),
      endpoints_of_("endpoints", settings.limits.endpoints, "delete some"),
      channels_of_("channels", settings.limits.channels, "delete some"),
      channel_endpoints_of_("endpoints of all channels together",
                            settings.limits.all_channel_endpoints, "delete channels"),
      creations_of_("channels being created", settings.limits.preparing, "repeat later"),
      calls_of_("calls that wait for a channel", settings.limits.waiting_calls, "repeat later"),
      gathers_(settings.limits, settings.grace_ms) {}

void Cluster::advance(Now now, Effects& effects) {
#if MGI_ASSERTIONS_ACTIVE
    check_invariants();
#endif
    // The driver calls at least once a heartbeat. A longer gap is time in which this process did not
    // run: words of others lie unread meanwhile, so it must not count as their silence.
    Millis const gap = now.steady - last_event_;
    Millis const beat = settings_.heartbeat_ms;
    if (gap > 2 * beat) {
        slept_ += gap - beat;
        log::warn("controller: did not run for {} ms; leases are longer by that", gap - beat);
    }
    last_event_ = std::max(last_event_, now.steady);
    now_ = last_event_ - slept_;
    wall_ = now.wall;
    while (auto const next = timers_.take(now_)) due(next->first, next->second, effects);
    // The room of plans that ended with their channels: between events, when all agrees again.
    pump_renewals(effects);
}

std::optional<Millis> Cluster::next_due() const {
    auto const next = timers_.next();
    if (!next) return std::nullopt;
    return *next + slept_;
}

void Cluster::tick(Now now, Effects& effects) {
    advance(now, effects);
}

void Cluster::due(Due what, std::uint64_t id, Effects& effects) {
    auto const key = static_cast<std::uint32_t>(id);
    switch (what) {
        case Due::Registration:
            refuse(id, Refused::OTHER,
                   fmt::format("no registration within {} ms", settings_.call_ms), effects);
            return;
        case Due::Lease: {
            auto const server = servers_.find(key);
            if (server != servers_.end()) lease_due(server->second, effects);
            return;
        }
        case Due::Claims: {
            auto const server = servers_.find(key);
            if (server != servers_.end()) claims_due(server->second, effects);
            return;
        }
        case Due::Preparation: {
            auto const found = channels_.find(key);
            if (found == channels_.end() || !found->second.next) return;
            std::string late;
            for (std::uint32_t agent : found->second.next->waiting) {
                late += (late.empty() ? "" : ", ") + name_of(agent);
            }
            abort(found->second, Problem::DeadlineExceeded,
                  late.empty() ? "its plan was not made in time"
                               : fmt::format("its plan was not accepted in time by {}", late),
                  effects);
            return;
        }
        case Due::Call: {
            auto const waits = calls_.find(id);
            if (waits == calls_.end()) return;
            std::uint32_t const channel = waits->second;
            stop_waiting(id);
            answer(id,
                   {Problem::DeadlineExceeded,
                    fmt::format("channel {}: not created in time; the same request may be repeated",
                                channel)},
                   effects);
            return;
        }
        case Due::Recovery: {
            auto const found = channels_.find(key);
            if (found == channels_.end()) return;
            recovery_due(found->second, effects);
            return;
        }
        case Due::Replan: {
            auto const found = channels_.find(key);
            if (found != channels_.end() && found->second.stale_plan) renew(found->second);
            pump_renewals(effects);
            return;
        }
        case Due::Forget: {
            auto const server = servers_.find(key);
            if (server != servers_.end()) forget(server->second);
            return;
        }
        case Due::Gather:
            ++counters_.calls_failed;
            gathers_.due(id, timers_, effects);
            return;
        case Due::FailedGather: gathers_.forget_failure(id); return;
        case Due::Gathered: gathers_.forget(now_, timers_); return;
    }
}

Cluster::Failure Cluster::check(Sender const& sender) const {
    if (sender.protocol() != kProtocol) {
        return {Problem::Unimplemented,
                fmt::format("protocol {}: this controller speaks {}; update the older side",
                            sender.protocol(), kProtocol)};
    }
    auto const stale = [](std::string const& why) {
        return Failure{Problem::FailedPrecondition,
                       fmt::format("stale sender: {}; register again", why)};
    };
    if (sender.epoch() != epoch_) {
        return stale(fmt::format("epoch {}, this controller's is {}", sender.epoch(), epoch_));
    }
    auto const found = servers_.find(sender.agent());
    if (found == servers_.end()) {
        return stale(fmt::format("agent {} is not registered", sender.agent()));
    }
    ServerRecord const& server = found->second;
    if (sender.incarnation() != server.incarnation) {
        return stale(fmt::format("incarnation {} of server {}, which is at {}",
                                 sender.incarnation(), server.name, server.incarnation));
    }
    if (server.session == 0) return stale(fmt::format("server {} has no session", server.name));
    return {};
}

ServerRecord* Cluster::sender_of(CallId call, Sender const& sender, Effects& effects) {
    Failure failure = check(sender);
    if (failure.problem == Problem::None) return &servers_.at(sender.agent());
    answer(call, std::move(failure), effects);
    return nullptr;
}

void Cluster::session_opened(SessionId session, Now now, Effects& effects) {
    advance(now, effects);
    sessions_[session] = 0;
    if (sessions_.size() > settings_.limits.sessions) {
        refuse(session, Refused::LIMIT,
               fmt::format("{} sessions are open", settings_.limits.sessions), effects);
        return;
    }
    timers_.set(Due::Registration, session, now_ + settings_.call_ms);
}

void Cluster::session_message(SessionId session, AgentMessage& message, Now now, Effects& effects) {
    advance(now, effects);
    ++counters_.messages;
    auto const found = sessions_.find(session);
    if (found == sessions_.end()) return;  // closed meanwhile
    Sender const& sender = message.sender();
    if (found->second == 0) {
        if (sender.protocol() != kProtocol) {
            refuse(session, Refused::PROTOCOL, check(sender).text, effects);
        } else if (message.message_case() != AgentMessage::kRegister) {
            refuse(session, Refused::STALE, "this session is not registered; register again",
                   effects);
        } else {
            register_agent(session, sender, *message.mutable_register_(), effects);
        }
        return;
    }
    ServerRecord& server = servers_.at(found->second);
    Failure const failure = check(sender);
    if (failure.problem != Problem::None || sender.agent() != server.id) {
        refuse(
            session, failure.problem == Problem::Unimplemented ? Refused::PROTOCOL : Refused::STALE,
            failure.text.empty() ? "stale sender: another agent's session" : failure.text, effects);
        return;
    }
    heard(server, effects);
    // Reasons are kept, shown, and sent on to many.
    auto const clean = [&](std::string& why) { why = clean_text(why, settings_.limits.why); };
    switch (message.message_case()) {
        case AgentMessage::kHeartbeat:
            heartbeat(server, *message.mutable_heartbeat(), effects);
            return;
        case AgentMessage::kPlanAck:
            clean(*message.mutable_plan_ack()->mutable_why());
            plan_ack(server, message.plan_ack(), effects);
            return;
        case AgentMessage::kLinkChange: link_change(server, message.link_change(), effects); return;
        case AgentMessage::kEndpointsGone:
            clean(*message.mutable_endpoints_gone()->mutable_why());
            for (std::uint32_t id : message.endpoints_gone().endpoints()) {
                auto const endpoint = endpoints_.find(id);
                if (endpoint == endpoints_.end() || endpoint->second.server != server.id) continue;
                give_up_endpoint(id, message.endpoints_gone().why(), effects);
            }
            return;
        case AgentMessage::kLeave:
            clean(*message.mutable_leave()->mutable_why());
            failed(server, fmt::format("left: {}", message.leave().why()), effects);
            return;
        case AgentMessage::kChannelLeft:
            channel_left(server, message.channel_left(), effects);
            return;
        case AgentMessage::kHeld: {
            ControllerMessage reply;
            Effects follow;
            hold(server, Telling::More, message.held().endpoints(), message.held().channels(),
                 *reply.mutable_lost(), follow);
            if (message.held().last()) drop_unnamed(server, follow);
            send(server.session, std::move(reply), effects);
            std::move(follow.begin(), follow.end(), std::back_inserter(effects));
            pump_renewals(effects);
            return;
        }
        case AgentMessage::kRegister:
            refuse(session, Refused::OTHER, "this session has registered already", effects);
            return;
        case AgentMessage::MESSAGE_NOT_SET:
            refuse(session, Refused::OTHER, "a message without content", effects);
            return;
    }
}

void Cluster::session_closed(SessionId session, Now now, Effects& effects) {
    advance(now, effects);
    timers_.cancel(Due::Registration, session);
    auto const found = sessions_.find(session);
    if (found == sessions_.end()) return;
    std::uint32_t const agent = found->second;
    sessions_.erase(found);
    if (agent == 0) return;
    ServerRecord& server = servers_.at(agent);
    server.session = 0;
    away(server, "its session broke", effects);
}

void Cluster::refuse(SessionId session, Refused::Why why, std::string text, Effects& effects) {
    ++counters_.refused;
    timers_.cancel(Due::Registration, session);
    auto const found = sessions_.find(session);
    std::uint32_t const agent = found == sessions_.end() ? 0 : found->second;
    if (found != sessions_.end()) sessions_.erase(found);
    log::warn("controller: session {} of {} refused: {}", session, name_of(agent), text);
    ControllerMessage message;
    message.mutable_refused()->set_why(why);
    message.mutable_refused()->set_text(std::move(text));
    send(session, std::move(message), effects);
    effects.emplace_back(Close{session});
    if (agent == 0) return;
    ServerRecord& server = servers_.at(agent);
    server.session = 0;
    away(server, "its session was refused", effects);
}

void Cluster::send(SessionId session, ControllerMessage message, Effects& effects) const {
    if (session == 0) return;
    message.set_protocol(kProtocol);
    message.set_epoch(epoch_);
    effects.emplace_back(
        Send{session, std::make_shared<ControllerMessage const>(std::move(message)), {}});
}

void Cluster::send_to(std::uint32_t agent, ControllerMessage message, Effects& effects) const {
    auto const server = servers_.find(agent);
    if (server != servers_.end()) send(server->second.session, std::move(message), effects);
}

void Cluster::send_to_all(std::set<std::uint32_t> const& agents, ControllerMessage message,
                          Effects& effects) const {
    message.set_protocol(kProtocol);
    message.set_epoch(epoch_);
    auto const shared = std::make_shared<ControllerMessage const>(std::move(message));
    for (std::uint32_t agent : agents) {
        auto const server = servers_.find(agent);
        if (server == servers_.end() || server->second.session == 0) continue;
        effects.emplace_back(Send{server->second.session, shared, {}});
    }
}

void Cluster::answer(CallId call, Failure failure, Effects& effects) {
    if (failure.problem != Problem::None) ++counters_.calls_failed;
    effects.emplace_back(Answer{call, failure.problem, std::move(failure.text), 0, 0});
}

void Cluster::gather(CallId call, GatherRequest const& request, Now now, Effects& effects) {
    advance(now, effects);
    ++counters_.calls;
    if (sender_of(call, request.sender(), effects) == nullptr) return;
    gathers_.say(call, request, now_, now_ + limit(request.deadline_ms()), timers_, effects);
}

std::array<Shares const*, 7> Cluster::shares() const {
    return {&endpoints_of_, &channels_of_,     &channel_endpoints_of_, &creations_of_,
            &calls_of_,     &gathers_.bytes(), &gathers_.waiting()};
}

void Cluster::note(std::string what) {
    log::warn("controller: {}", what);
    failures_.push_back({static_cast<double>(now_ - started_) / 1e3, std::move(what)});
    if (failures_.size() > settings_.limits.failures) failures_.pop_front();
}

void Cluster::ids_reserved(IdKind kind, IdBlock block) {
    ids_.add(kind, block);
}

void Cluster::ids_not_reserved(IdKind kind) {
    ids_.failed(kind);
}

std::string Cluster::name_of(std::uint32_t agent) const {
    auto const server = servers_.find(agent);
    return server == servers_.end() ? "a server not registered yet" : server->second.name;
}

}  // namespace mgi::control
