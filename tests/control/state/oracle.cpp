#include "control/state/oracle.hpp"

#include <algorithm>
#include <variant>

namespace mgi::control::test {
namespace {

[[noreturn]] void broken(std::string const& promise) {
    throw BrokenPromise(promise);
}

std::string of(std::pair<std::uint32_t, std::uint64_t> const& plan) {
    return "channel " + std::to_string(plan.first) + " generation " + std::to_string(plan.second);
}

}  // namespace

void Oracle::restarted(std::uint64_t epoch, Millis now) {
    if (epoch <= epoch_) broken("an epoch came twice");
    epoch_ = epoch;
    last_ = now_ = now;
    slept_ = 0;
    servers_.clear();
    agents_.clear();
    participants_.clear();
    accepted_.clear();
    ended_.clear();
}

void Oracle::time(Millis now) {
    Millis const beat = settings_.heartbeat_ms;
    if (now - last_ > 2 * beat) slept_ += now - last_ - beat;
    last_ = now;
    now_ = now - slept_;
    for (auto& [id, server] : servers_) {
        if (server.presence == Presence::Present && now_ >= server.heard + settings_.lease_ms) {
            away(server);
        } else if (server.presence == Presence::Away &&
                   now_ >= server.away_since + settings_.grace_ms) {
            server.presence = Presence::Failed;
            agents_.erase(server.session);
            server.session = 0;
        }
    }
}

void Oracle::away(Server& server) const {
    if (server.presence != Presence::Present) return;
    server.presence = Presence::Away;
    server.away_since = now_;
}

bool Oracle::valid_caller(Sender const& sender) const {
    auto const server = servers_.find(sender.agent());
    return server != servers_.end() && sender.protocol() == kProtocol && sender.epoch() == epoch_ &&
           sender.incarnation() == server->second.incarnation && server->second.session != 0;
}

bool Oracle::valid(SessionId session, Sender const& sender) const {
    auto const agent = agents_.find(session);
    return agent != agents_.end() && agent->second == sender.agent() && valid_caller(sender);
}

void Oracle::word(SessionId session, AgentMessage const& message) {
    if (!valid(session, message.sender())) return;
    Server& server = servers_.at(message.sender().agent());
    server.heard = now_;
    if (server.presence == Presence::Away) server.presence = Presence::Present;
    if (message.has_leave()) {
        server.presence = Presence::Failed;
        agents_.erase(session);
        server.session = 0;
    }
    if (message.message_case() == AgentMessage::kPlanAck && message.plan_ack().accepted()) {
        accepted_[{message.plan_ack().channel(), message.plan_ack().generation()}].insert(
            message.sender().agent());
    }
}

void Oracle::closed(SessionId session) {
    auto const agent = agents_.find(session);
    if (agent == agents_.end()) return;
    Server& server = servers_.at(agent->second);
    agents_.erase(agent);
    server.session = 0;
    away(server);
}

void Oracle::id_given(IdKind kind, std::uint32_t id, std::string const& to) {
    auto const [known, added] = given_.try_emplace({kind, id}, to);
    if (!added && known->second != to) {
        broken(std::string(to_string(kind)) + " id " + std::to_string(id) + " was given to " +
               known->second + " and again to " + to);
    }
}

void Oracle::effects(Effects const& effects) {
    for (Effect const& effect : effects) {
        if (auto const* close = std::get_if<Close>(&effect)) {
            closed(close->session);
        } else if (auto const* plan = std::get_if<MakePlan>(&effect)) {
            auto& takes_part = participants_[{plan->channel, plan->generation}];
            for (auto const* places : {&plan->sources, &plan->destinations}) {
                for (Place const& place : *places) takes_part.insert(place.agent);
            }
        }
        auto const* send = std::get_if<Send>(&effect);
        if (send == nullptr) continue;
        ControllerMessage const& message = *send->message;
        if (message.epoch() != epoch_) broken("a message of another epoch was sent");
        if (message.has_registered()) {
            Server& server = servers_[message.registered().agent()];
            if (message.registered().incarnation() <= server.incarnation) {
                broken("an incarnation came twice");
            }
            server = {message.registered().incarnation(), send->session, Presence::Present, now_,
                      0};
            agents_[send->session] = message.registered().agent();
        } else if (message.has_commit_plan()) {
            Plan const plan{message.commit_plan().channel(), message.commit_plan().generation()};
            if (ended_.contains(plan.first)) broken(of(plan) + " was committed after its end");
            if (committed_.insert(plan).second) {
                auto const made = participants_.find(plan);
                bool const all = made != participants_.end() &&
                                 std::includes(accepted_[plan].begin(), accepted_[plan].end(),
                                               made->second.begin(), made->second.end());
                if (!all) broken(of(plan) + " was committed before all had accepted it");
            }
        } else if (message.has_abort_plan()) {
            Plan const plan{message.abort_plan().channel(), message.abort_plan().generation()};
            if (heard_.contains(plan)) broken(of(plan) + " was aborted after its commit");
        } else if (message.has_channel_ended()) {
            ended_.insert(message.channel_ended().channel());
        }
    }
}

void Oracle::states(Snapshot const& snapshot) const {
    for (ServerView const& view : snapshot.servers) {
        auto const known = servers_.find(view.id);
        if (known == servers_.end()) broken("server " + view.name + " was never registered");
        char const* const expected = known->second.presence == Presence::Present ? "present"
                                     : known->second.presence == Presence::Away  ? "away"
                                                                                 : "failed";
        if (view.state != expected) {
            broken("server " + view.name + " is " + view.state + ", but by the rules it is " +
                   expected);
        }
    }
    for (ChannelView const& view : snapshot.channels) {
        bool const over = view.state == "failed" || view.state == "deleted";
        if (!over && ended_.contains(view.id)) {
            broken("channel " + std::to_string(view.id) + " ended and is " + view.state);
        }
        if (view.state == "running" && !committed_.contains({view.id, view.generation})) {
            broken("channel " + std::to_string(view.id) + " runs by what was never committed");
        }
    }
}

void Oracle::no_effect(Effects const& effects) {
    for (Effect const& effect : effects) {
        auto const* const send = std::get_if<Send>(&effect);
        auto const* const answer = std::get_if<Answer>(&effect);
        bool const grants =
            std::holds_alternative<LearnLink>(effect) ||
            std::holds_alternative<LearnServer>(effect) ||
            (send != nullptr && !send->message->has_refused() &&
             !send->message->has_server_notice() && !send->message->has_abort_plan() &&
             !send->message->has_channel_ended()) ||
            (answer != nullptr && answer->problem == Problem::None);
        if (grants) broken("a stale sender's message had an effect");
    }
}

}  // namespace mgi::control::test
