// The agents' side of the simulation, and their clients.
#include <algorithm>
#include <string>
#include <utility>

#include "control/state/rig.hpp"
#include "control/state/simulation.hpp"

namespace mgi::control::test {

namespace {

template <class Message>
void name(SimAgent::Channel const& channel, Message& word) {
    for (bool const committed : {true, false}) {
        std::uint64_t const generation = committed ? channel.committed : channel.prepared;
        if (generation == 0) continue;
        HeldChannel& held = *word.add_channels();
        held = channel.held;
        held.set_generation(generation);
        held.set_committed(committed);
    }
}

}  // namespace

Register Simulation::registration(SimAgent& agent) {
    Register word;
    word.set_name(agent.name);
    word.set_instance(agent.instance);
    *word.mutable_graph() = server_graph();
    agent.unnamed_endpoints.clear();
    agent.unnamed_channels.clear();
    word.set_more(random_.one_in(3));  // too much for one message
    for (auto const& [id, vertex] : agent.endpoints) {
        if (word.more() && random_.one_in(2)) {
            agent.unnamed_endpoints.insert(id);
        } else {
            *word.add_endpoints() = held_endpoint(id, vertex);
        }
    }
    for (auto const& [id, channel] : agent.channels) {
        if (word.more() && random_.one_in(2)) {
            agent.unnamed_channels.insert(id);
        } else {
            name(channel, word);
        }
    }
    agent.in_parts = word.more();
    return word;
}

void Simulation::name_rest(std::size_t index) {
    SimAgent& agent = agents_[index];
    if (!std::exchange(agent.in_parts, false)) return;
    AgentMessage first;
    for (std::uint32_t id : agent.unnamed_endpoints) {
        auto const held = agent.endpoints.find(id);
        if (held == agent.endpoints.end()) continue;
        *first.mutable_held()->add_endpoints() = held_endpoint(id, held->second);
    }
    if (first.has_held()) agent_says(index, std::move(first));
    AgentMessage last;
    for (std::uint32_t id : agent.unnamed_channels) {
        auto const held = agent.channels.find(id);
        if (held != agent.channels.end()) name(held->second, *last.mutable_held());
    }
    last.mutable_held()->set_last(true);
    agent_says(index, std::move(last));
}

void Simulation::connect(std::size_t index) {
    SimAgent& agent = agents_[index];
    if (!agent.alive || agent.session != 0) return;
    Millis const ready = std::max({agent.frozen_until, agent.cut_until, frozen_until_});
    if (ready > time_ || cluster_ == nullptr) {
        at(std::max(ready, time_ + 100) + random_.between(0, 300),
           [this, index] { connect(index); });
        return;
    }
    SessionId const session = names_++;
    streams_[session] = {index, true, true, time_, time_, {}, {}};
    agent.session = session;
    agent.registered = false;
    apply([session](Cluster& cluster, Now now, Effects& effects) {
        cluster.session_opened(session, now, effects);
    });
    AgentMessage message;
    *message.mutable_register_() = registration(agent);
    agent_says(index, std::move(message));
}

void Simulation::agent_says(std::size_t index, AgentMessage message) {
    SimAgent& agent = agents_[index];
    if (agent.session == 0) return;
    *message.mutable_sender() = agent.sender;
    message.mutable_sender()->set_protocol(kProtocol);
    if (!message.has_register_() && (agent.said.size() < 20 || random_.one_in(10))) {
        if (agent.said.size() >= 20) agent.said.erase(agent.said.begin());
        agent.said.push_back(message);
    }
    if (trace && !message.has_heartbeat()) {
        say(agent.name + " says " + message.ShortDebugString().substr(0, 250));
    }
    Stream& stream = streams_.at(agent.session);
    stream.last_up = std::max(
        {stream.last_up, soon(random_.one_in(20) ? 800 : 15), agent.cut_until, agent.frozen_until});
    stream.up.push_back(std::move(message));
    at(stream.last_up, [this, s = agent.session, epoch = epoch_] {
        if (epoch != epoch_) return;
        to_controller([this, s] {
            Stream& from = streams_.at(s);
            if (!from.controller_side) return;
            AgentMessage const next = std::move(from.up.front());
            from.up.pop_front();
            deliver_up(s, next);
        });
    });
}

void Simulation::lose_session(std::size_t index, Millis controller_sees) {
    SimAgent& agent = agents_[index];
    SessionId const session = std::exchange(agent.session, 0);
    if (session == 0) return;
    agent.registered = false;
    streams_.at(session).agent_side = false;
    at(controller_sees, [this, session, epoch = epoch_] {
        if (epoch != epoch_) return;
        to_controller([this, session] {
            if (!std::exchange(streams_.at(session).controller_side, false)) return;
            apply([&](Cluster& cluster, Now now, Effects& effects) {
                oracle_.closed(session);
                cluster.session_closed(session, now, effects);
            });
        });
    });
    at(time_ + random_.between(50, 1000), [this, index] { connect(index); });
}

void Simulation::beat(std::size_t index) {
    SimAgent const& agent = agents_[index];
    if (!agent.alive) return;
    at(time_ + settings_.heartbeat_ms, [this, index] { beat(index); });
    if (!agent.registered || time_ < agent.frozen_until) return;
    AgentMessage message;
    message.mutable_heartbeat()->set_sequence(static_cast<std::uint64_t>(time_));
    agent_says(index, std::move(message));
}

void Simulation::hear_next(SessionId session) {
    Stream& stream = streams_.at(session);
    SimAgent const& agent = agents_[stream.agent];
    if (!stream.agent_side || !agent.alive || agent.session != session) return;
    if (time_ < agent.frozen_until) {
        at(agent.frozen_until, [this, session] { hear_next(session); });
        return;
    }
    auto const message = std::move(stream.down.front());
    stream.down.pop_front();
    hear(stream.agent, *message);
}

void Simulation::hear(std::size_t index, ControllerMessage const& message) {
    SimAgent& agent = agents_[index];
    if (trace && !message.has_heartbeat_ack()) {
        say(agent.name + " hears " + message.ShortDebugString().substr(0, 150));
    }
    switch (message.message_case()) {
        case ControllerMessage::kRegistered:
            agent.sender.set_agent(message.registered().agent());
            agent.sender.set_incarnation(message.registered().incarnation());
            agent.sender.set_epoch(message.epoch());
            return hear_registered(index, message.registered(), message.epoch());
        case ControllerMessage::kPreparePlan: return prepare(index, message.prepare_plan());
        case ControllerMessage::kCommitPlan: {
            CommitPlan const& commit = message.commit_plan();
            auto const channel = agent.channels.find(commit.channel());
            if (channel == agent.channels.end() ||
                channel->second.prepared != commit.generation()) {
                broken(agent.name + " was told to commit what it has not prepared: channel " +
                       std::to_string(commit.channel()) + " generation " +
                       std::to_string(commit.generation()));
            }
            channel->second.committed = std::exchange(channel->second.prepared, 0);
            oracle_.commit_heard(commit.channel(), commit.generation());
            return;
        }
        case ControllerMessage::kAbortPlan: {
            auto const channel = agent.channels.find(message.abort_plan().channel());
            if (channel == agent.channels.end()) return;
            if (channel->second.prepared == message.abort_plan().generation()) {
                channel->second.prepared = 0;
            }
            if (channel->second.committed == 0) agent.channels.erase(channel);
            return;
        }
        case ControllerMessage::kChannelEnded:
            agent.channels.erase(message.channel_ended().channel());
            agent.later_channels.erase(message.channel_ended().channel());
            agent.ended.insert(message.channel_ended().channel());
            return;
        case ControllerMessage::kLost:
            for (std::uint32_t id : message.lost().channels()) agent.channels.erase(id);
            for (std::uint32_t id : message.lost().endpoints()) agent.endpoints.erase(id);
            return;
        default: return;
    }
}

void Simulation::hear_registered(std::size_t index, Registered const& reply, std::uint64_t epoch) {
    SimAgent& agent = agents_[index];
    agent.registered = true;
    say(agent.name + " is registered, epoch " + std::to_string(epoch));
    oracle_.id_given(IdKind::Agent, reply.agent(), agent.name);
    for (std::uint32_t id : reply.lost_channels()) {
        agent.channels.erase(id);
        agent.ended.insert(id);
    }
    for (std::uint32_t id : reply.lost_endpoints()) agent.endpoints.erase(id);
    name_rest(index);
    if (!agent.later_endpoints.empty() || !agent.later_channels.empty()) {
        at(soon(2500), [this, index] { announce(index); });
    }
}

void Simulation::announce(std::size_t index) {
    SimAgent& agent = agents_[index];
    if (!agent.alive || !agent.registered) return;
    if (time_ < agent.frozen_until) {
        at(agent.frozen_until, [this, index] { announce(index); });
        return;
    }
    AgentMessage message;
    for (auto const& [id, vertex] : agent.later_endpoints) {
        *message.mutable_held()->add_endpoints() = held_endpoint(id, vertex);
        agent.endpoints[id] = vertex;
    }
    for (auto& [id, channel] : agent.later_channels) {
        HeldChannel& held = *message.mutable_held()->add_channels();
        held = channel.held;
        held.set_generation(channel.committed);
        held.set_committed(true);
        SimAgent::Channel& now = agent.channels[id];
        now.held = channel.held;
        now.committed = std::max(now.committed, channel.committed);
    }
    agent.later_endpoints.clear();
    agent.later_channels.clear();
    agent_says(index, std::move(message));
}

void Simulation::prepare(std::size_t index, PreparePlan const& plan) {
    SimAgent& agent = agents_[index];
    if (agent.ended.contains(plan.channel())) {
        broken(agent.name + " got a plan of a channel whose end it was told");
    }
    oracle_.id_given(IdKind::Channel, plan.channel(), plan.request());
    bool const accepted = calm_ || !random_.one_in(25);
    if (accepted) {
        SimAgent::Channel& channel = agent.channels[plan.channel()];
        *channel.held.mutable_spec() = plan.spec();
        channel.held.set_id(plan.channel());
        channel.held.set_request(plan.request());
        channel.prepared = plan.generation();
    }
    if (!calm_ && random_.one_in(40)) return;  // it never says
    AgentMessage message;
    PlanAck& ack = *message.mutable_plan_ack();
    ack.set_channel(plan.channel());
    ack.set_generation(plan.generation());
    ack.set_accepted(accepted);
    ack.set_why(accepted ? "" : "no memory");
    for (int times = random_.one_in(10) ? 2 : 1; times > 0; --times) agent_says(index, message);
}

// ----------------------------------------------------------------------------------------- clients

void Simulation::call(std::size_t index, Millis limit,
                      std::function<void(Cluster&, CallId, Now, Effects&)> ask,
                      std::function<void(Answer const*)> done) {
    SimAgent const& agent = agents_[index];
    // The caller gives up a little later; whichever comes first is the outcome.
    auto const over = std::make_shared<bool>(false);
    auto const once = [over, done = std::move(done)](Answer const* answer) {
        if (!std::exchange(*over, true)) done(answer);
    };
    Sender sender = agent.sender;
    sender.set_protocol(kProtocol);
    bool const lost = !calm_ && random_.one_in(15);
    at(std::max(soon(random_.one_in(20) ? 800 : 15), agent.cut_until),
       [this, limit, ask, once, sender, lost, epoch = epoch_] {
           if (epoch != epoch_) return;
           to_controller([this, limit, ask, once, sender, lost] {
               apply([](Cluster& cluster, Now now, Effects& made) { cluster.tick(now, made); });
               CallId const id = names_++;
               calls_[id] = {oracle_.now() + limit, epoch_, [once, lost](Answer const& answer) {
                                 if (!lost) once(&answer);
                             }};
               bool const valid = oracle_.valid_caller(sender);
               Effects const effects = apply(
                   [&](Cluster& cluster, Now now, Effects& made) { ask(cluster, id, now, made); });
               if (valid) return;
               Oracle::no_effect(effects);
               if (effects.size() != 1) broken("a stale caller's message had an effect");
           });
       });
    at(time_ + limit + 2000, [once] { once(nullptr); });
}

void Simulation::create_endpoint(std::size_t index, std::string request, int tries) {
    SimAgent const& agent = agents_[index];
    if (tries == 0 || !agent.alive || !agent.registered || agent.impostor) return;
    std::uint64_t const incarnation = agent.sender.incarnation();
    std::uint64_t const epoch = agent.sender.epoch();
    CreateEndpointRequest asked;
    *asked.mutable_sender() = agent.sender;
    asked.mutable_sender()->set_protocol(kProtocol);
    asked.set_request(request);
    asked.set_vertex(1 + static_cast<std::uint32_t>(random_.below(2)));
    call(
        index, settings_.call_ms,
        [asked](Cluster& cluster, CallId id, Now now, Effects& effects) {
            cluster.create_endpoint(id, asked, now, effects);
        },
        [this, index, request, tries, incarnation, epoch, asked](Answer const* answer) {
            SimAgent& me = agents_[index];
            bool const same = me.registered && me.sender.incarnation() == incarnation &&
                              me.sender.epoch() == epoch && me.alive;
            if (answer == nullptr || answer->problem != Problem::None || !same) {
                at(soon(1500),
                   [this, index, request, tries] { create_endpoint(index, request, tries); });
                return;
            }
            oracle_.id_given(IdKind::Endpoint, answer->id, request);
            say(me.name + " has endpoint " + std::to_string(answer->id));
            me.endpoints[answer->id] = asked.vertex();
        });
}

std::vector<std::uint32_t> Simulation::some_endpoints() {
    std::vector<std::uint32_t> all;
    for (SimAgent const& agent : agents_) {
        for (auto const& [id, vertex] : agent.endpoints) all.push_back(id);
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    std::vector<std::uint32_t> some;
    for (std::uint32_t id : all) {
        if (random_.one_in(1 + all.size() / 3)) some.push_back(id);
    }
    if (some.empty() && !all.empty()) some.push_back(all[random_.below(all.size())]);
    return some;
}

void Simulation::create_channel(std::size_t index, CreateChannelRequest request, int tries) {
    SimAgent const& agent = agents_[index];
    if (tries == 0 || !agent.alive || !agent.registered) return;
    *request.mutable_sender() = agent.sender;
    request.mutable_sender()->set_protocol(kProtocol);
    Millis const limit =
        request.deadline_ms() == 0 ? settings_.call_ms : Millis{request.deadline_ms()};
    call(
        index, limit,
        [request](Cluster& cluster, CallId id, Now now, Effects& effects) {
            cluster.create_channel(id, request, now, effects);
        },
        [this, index, request, tries](Answer const* answer) {
            bool const again = answer == nullptr ||
                               answer->problem == Problem::FailedPrecondition ||
                               answer->problem == Problem::Unavailable;
            if (again) {
                at(soon(1500),
                   [this, index, request, tries] { create_channel(index, request, tries - 1); });
            } else if (answer->problem == Problem::None) {
                oracle_.id_given(IdKind::Channel, answer->id, request.request());
                if (!random_.one_in(3)) return;
                at(soon(20'000), [this, index, id = answer->id] {
                    DeleteChannelRequest over;
                    *over.mutable_sender() = agents_[index].sender;
                    over.mutable_sender()->set_protocol(kProtocol);
                    over.set_channel(id);
                    if (!agents_[index].registered) return;
                    call(
                        index, settings_.call_ms,
                        [over](Cluster& cluster, CallId c, Now now, Effects& effects) {
                            cluster.delete_channel(c, over, now, effects);
                        },
                        [](Answer const*) {});
                });
            }
        });
}

}  // namespace mgi::control::test
