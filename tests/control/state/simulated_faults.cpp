// What goes wrong in the simulation, and what must be right in the end.
#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "control/state/simulation.hpp"

namespace mgi::control::test {

void Simulation::crash(std::size_t index, bool for_ever) {
    SimAgent& old = agents_[index];
    if (!old.alive) return;
    say(old.name + " is killed");
    old.alive = false;
    SessionId const session = old.session;
    lose_session(index, std::max(soon(random_.one_in(5) ? 3000 : 60), old.cut_until));
    (void)session;
    if (for_ever || old.impostor) return;
    std::size_t const fresh = agents_.size();
    SimAgent& next = agents_.emplace_back();
    SimAgent const& before = agents_[index];
    next.name = before.name;
    next.instance = "instance-" + std::to_string(names_++);
    next.later_endpoints = before.later_endpoints;
    next.later_channels = before.later_channels;
    for (auto const& [id, vertex] : before.endpoints) {
        if (!random_.one_in(6)) next.later_endpoints[id] = vertex;  // else its application is gone
    }
    for (auto channel : before.channels) {
        channel.second.prepared = 0;
        if (channel.second.committed != 0) next.later_channels.insert(channel);
    }
    Millis const back = random_.between(100, 4000);
    at(time_ + back, [this, fresh] { connect(fresh); });
    at(time_ + back, [this, fresh] { beat(fresh); });
}

void Simulation::old_words() {
    // What was said under an earlier incarnation or epoch arrives on the present session.
    auto const index = static_cast<std::size_t>(random_.below(agents_.size()));
    SimAgent const& from = agents_[index];
    if (from.said.empty()) return;
    AgentMessage message = from.said[random_.below(from.said.size())];
    for (std::size_t i = 0; i < agents_.size(); ++i) {
        if (agents_[i].name != from.name || !agents_[i].registered) continue;
        Sender const& now = agents_[i].sender;
        bool const incarnation = message.sender().incarnation() != now.incarnation();
        bool const epoch = message.sender().epoch() != now.epoch();
        if (!incarnation && !epoch) return;
        if (incarnation && epoch) {  // one of the two is enough to be stale
            if (random_.one_in(2)) {
                message.mutable_sender()->set_epoch(now.epoch());
            } else {
                message.mutable_sender()->set_incarnation(now.incarnation());
            }
        }
        message.mutable_sender()->set_agent(now.agent());
        to_controller([this, s = agents_[i].session, message] {
            if (streams_.at(s).controller_side) deliver_up(s, message);
        });
        return;
    }
}

void Simulation::fault() {
    auto const index = static_cast<std::size_t>(random_.below(agents_.size()));
    SimAgent& agent = agents_[index];
    switch (random_.below(14)) {
        case 0:
            if (random_.one_in(3)) crash_controller();
            return;
        case 1: frozen_until_ = soon(random_.one_in(4) ? 15'000 : 1500); return;
        case 2: return crash(index, random_.one_in(12));
        case 3: agent.frozen_until = soon(random_.one_in(4) ? 15'000 : 2500); return;
        case 4: agent.cut_until = soon(random_.one_in(4) ? 15'000 : 2500); return;
        case 5:  // its connection breaks; each side sees that when it does
            if (agent.session != 0) lose_session(index, soon(random_.one_in(3) ? 3000 : 50));
            return;
        case 6: {
            std::string const name = agent.name;
            std::size_t const fresh = agents_.size();
            SimAgent& twin = agents_.emplace_back();
            twin.name = name;
            twin.instance = "instance-" + std::to_string(names_++);
            twin.impostor = true;
            connect(fresh);
            beat(fresh);
            at(soon(6000), [this, fresh] { crash(fresh, true); });
            return;
        }
        case 7:
        case 8: return old_words();
        case 9:
        case 10: {
            ++link_version_;
            AgentMessage message;
            Link& link = *message.mutable_link_change()->mutable_link();
            link.set_from(static_cast<std::uint32_t>(random_.below(2)));
            link.set_to(1 - link.from());
            link.set_gbps(static_cast<double>(random_.below(3)) * 10);
            if (agent.registered) agent_says(index, std::move(message));
            return;
        }
        case 11: {
            if (!agent.registered || agent.endpoints.empty()) return;
            auto const gone =
                std::next(agent.endpoints.begin(),
                          static_cast<std::ptrdiff_t>(random_.below(agent.endpoints.size())));
            AgentMessage message;
            message.mutable_endpoints_gone()->add_endpoints(gone->first);
            message.mutable_endpoints_gone()->set_why("application ended");
            agent.endpoints.erase(gone);
            return agent_says(index, std::move(message));
        }
        case 12: {
            if (!agent.registered || !random_.one_in(8)) return;
            AgentMessage message;
            message.mutable_leave()->set_why("shut down");
            return agent_says(index, std::move(message));
        }
        default: return;
    }
}

void Simulation::settle() {
    say("calm");
    calm_ = true;
    frozen_until_ = std::min(frozen_until_, time_);
    for (std::size_t i = 0; i < agents_.size(); ++i) {
        agents_[i].frozen_until = std::min(agents_[i].frozen_until, time_);
        agents_[i].cut_until = std::min(agents_[i].cut_until, time_);
        if (agents_[i].impostor) crash(i, true);
    }
}

void Simulation::check_settled() {
    if (cluster_ == nullptr) broken("the controller never came back");
    Snapshot const shown = cluster_->snapshot(Now{time_, 0});
    std::map<std::uint32_t, std::uint32_t> where;  // endpoint to server
    for (EndpointView const& endpoint : shown.endpoints) where[endpoint.id] = endpoint.server;
    std::map<std::uint32_t, std::uint64_t> running;
    for (ChannelView const& channel : shown.channels) {
        if (channel.state == "failed" || channel.state == "deleted") continue;
        if (channel.state != "running") {
            broken("channel " + std::to_string(channel.id) + " is still " + channel.state);
        }
        running[channel.id] = channel.generation;
    }
    std::set<std::uint32_t> held;
    for (SimAgent const& agent : agents_) {
        if (!agent.alive) continue;
        if (!agent.registered) broken(agent.name + " is not registered");
        for (auto const& [id, vertex] : agent.endpoints) {
            auto const known = where.find(id);
            if (known == where.end() || known->second != agent.sender.agent()) {
                broken(agent.name + " holds endpoint " + std::to_string(id) +
                       ", the controller knows nothing of that");
            }
            held.insert(id);
        }
        for (auto const& [id, channel] : agent.channels) {
            auto const known = running.find(id);
            if (known == running.end() || channel.committed != known->second) {
                broken(agent.name + " holds channel " + std::to_string(id) + " generation " +
                       std::to_string(channel.committed) + ", the controller " +
                       (known == running.end() ? "has none" : std::to_string(known->second)));
            }
        }
    }
    for (ChannelView const& channel : shown.channels) {
        if (!running.contains(channel.id)) continue;
        for (std::uint32_t server : channel.servers) {
            bool const there = std::any_of(agents_.begin(), agents_.end(), [&](auto const& agent) {
                return agent.alive && agent.sender.agent() == server &&
                       agent.channels.contains(channel.id);
            });
            if (!there) {
                broken("channel " + std::to_string(channel.id) + " runs, but not on server " +
                       std::to_string(server));
            }
        }
    }
    for (auto const& [id, server] : where) {
        if (held.contains(id)) continue;
        broken("the controller knows endpoint " + std::to_string(id) + " of server " +
               std::to_string(server) + ", whose agent does not hold it");
    }
}

}  // namespace mgi::control::test
