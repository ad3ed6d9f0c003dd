#include "control/state/rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <mgi/graph.hpp>
#include <mgi/runtime.hpp>
#include <utility>
#include <variant>

namespace mgi::control::test {
namespace {

ChannelSpec spec(std::vector<std::uint32_t> const& sources,
                 std::vector<std::uint32_t> const& destinations) {
    ChannelSpec made;
    made.set_name("orders");
    for (std::uint32_t id : sources) made.add_sources(id);
    for (std::uint32_t id : destinations) made.add_destinations(id);
    return made;
}

IdBlocks blocks(std::uint32_t first) {
    IdBlock const block{first, 1000};
    return {block, block, block};
}

}  // namespace

ServerGraph server_graph(int gpus) {
    ServerGraph graph;
    graph.add_vertices()->set_name("cpu0");
    graph.mutable_vertices(0)->set_kind(static_cast<std::uint32_t>(VertexKind::Cpu));
    for (int i = 1; i <= gpus; ++i) {
        Vertex& gpu = *graph.add_vertices();
        gpu.set_name("gpu" + std::to_string(i - 1));
        gpu.set_kind(static_cast<std::uint32_t>(VertexKind::Gpu));
        gpu.set_parent(1);
        for (bool const up : {true, false}) {
            Link& link = *graph.add_links();
            link.set_from(up ? static_cast<std::uint32_t>(i) : 0);
            link.set_to(up ? 0 : static_cast<std::uint32_t>(i));
            link.set_gbps(25);
            link.set_kind("pcie");
        }
    }
    return graph;
}

HeldEndpoint held_endpoint(std::uint32_t id, std::uint32_t vertex) {
    HeldEndpoint held;
    held.set_id(id);
    held.set_vertex(vertex);
    held.set_application("query");
    return held;
}

HeldChannel held_channel(std::uint32_t id, std::vector<std::uint32_t> const& sources,
                         std::vector<std::uint32_t> const& destinations, std::uint64_t generation,
                         bool committed, std::string const& request) {
    HeldChannel held;
    *held.mutable_spec() = spec(sources, destinations);
    held.set_id(id);
    held.set_generation(generation);
    held.set_committed(committed);
    held.set_request(request);
    return held;
}

Rig::Rig(Settings settings, std::uint64_t epoch, std::uint32_t first_id)
    : cluster(settings, epoch, blocks(first_id), Now{time, wall}) {
    set_log_level("off");  // refusals are what is tested here
}

void Rig::take(Effects& effects) {
    for (Effect& effect : effects) {
        if (auto* send = std::get_if<Send>(&effect)) {
            sent[send->session].push_back(whole(*send));
        } else if (auto* close = std::get_if<Close>(&effect)) {
            closed.push_back(close->session);
        } else if (auto* answer = std::get_if<Answer>(&effect)) {
            EXPECT_FALSE(answers.contains(answer->call)) << "two answers to one call";
            answers[answer->call] = *answer;
        } else if (auto* plan = std::get_if<MakePlan>(&effect)) {
            plans.push_back(std::move(*plan));
        } else if (auto* reserve = std::get_if<Reserve>(&effect)) {
            reserves.push_back(reserve->kind);
        }
    }
}

void Rig::pass(Millis milliseconds, std::vector<Agent const*> const& beating) {
    for (Millis const end = time + milliseconds; time < end;) {
        time += std::min<Millis>(50, end - time);
        for (Agent const* agent : beating) heartbeat(*agent);
        apply([this](Now now, Effects& effects) { cluster.tick(now, effects); });
    }
}

SessionId Rig::open() {
    SessionId const session = next_++;
    apply([&](Now now, Effects& effects) { cluster.session_opened(session, now, effects); });
    return session;
}

Agent Rig::register_agent(std::string const& name, std::string const& instance, Register held,
                          Sender const& previous) {
    Agent agent{name, instance, open(), previous, {}};
    agent.sender.set_protocol(kProtocol);
    AgentMessage message;
    *message.mutable_register_() = std::move(held);
    Register& word = *message.mutable_register_();
    word.set_name(name);
    word.set_instance(instance);
    if (!word.has_graph()) *word.mutable_graph() = server_graph();
    say(agent.session, agent.sender, std::move(message));
    for (ControllerMessage const& reply : got(agent, ControllerMessage::kRegistered)) {
        agent.sender.set_agent(reply.registered().agent());
        agent.sender.set_incarnation(reply.registered().incarnation());
        agent.sender.set_epoch(reply.epoch());
    }
    return agent;
}

void Rig::say(SessionId session, Sender const& sender, AgentMessage message) {
    *message.mutable_sender() = sender;
    apply([&](Now now, Effects& effects) {
        cluster.session_message(session, message, now, effects);
    });
}

void Rig::say(Agent const& agent, AgentMessage message) {
    say(agent.session, agent.sender, std::move(message));
}

void Rig::heartbeat(Agent const& agent, std::uint64_t sequence) {
    AgentMessage message;
    message.mutable_heartbeat()->set_sequence(sequence);
    say(agent, std::move(message));
}

void Rig::close(Agent const& agent) {
    apply([&](Now now, Effects& effects) { cluster.session_closed(agent.session, now, effects); });
}

CallId Rig::create_endpoint(Agent const& agent, std::string const& request, std::uint32_t vertex) {
    CreateEndpointRequest message;
    *message.mutable_sender() = agent.sender;
    message.set_request(request);
    message.set_vertex(vertex);
    message.set_application("query");
    CallId const call = next_++;
    apply([&](Now now, Effects& effects) { cluster.create_endpoint(call, message, now, effects); });
    return call;
}

std::uint32_t Rig::endpoint(Agent& agent, std::uint32_t vertex) {
    CallId const call = create_endpoint(agent, "endpoint-" + std::to_string(next_), vertex);
    EXPECT_EQ(answers.at(call).problem, Problem::None) << answers.at(call).text;
    agent.endpoints.push_back(answers.at(call).id);
    return answers.at(call).id;
}

CallId Rig::create_channel(Agent const& agent, std::string const& request,
                           std::vector<std::uint32_t> const& sources,
                           std::vector<std::uint32_t> const& destinations,
                           std::uint32_t deadline_ms) {
    CreateChannelRequest message;
    *message.mutable_sender() = agent.sender;
    message.set_request(request);
    *message.mutable_spec() = spec(sources, destinations);
    message.set_deadline_ms(deadline_ms);
    CallId const call = next_++;
    apply([&](Now now, Effects& effects) { cluster.create_channel(call, message, now, effects); });
    return call;
}

CallId Rig::gather(Agent const& agent, std::string const& request, std::uint32_t rank,
                   std::uint32_t size, std::string const& data, std::string const& key,
                   std::uint32_t deadline_ms) {
    GatherRequest message;
    *message.mutable_sender() = agent.sender;
    message.set_request(request);
    message.set_key(key);
    message.set_rank(rank);
    message.set_size(size);
    message.set_data(data);
    message.set_deadline_ms(deadline_ms);
    CallId const call = next_++;
    apply([&](Now now, Effects& effects) { cluster.gather(call, message, now, effects); });
    return call;
}

void Rig::leave(Agent const& agent, std::uint32_t channel,
                std::vector<std::uint32_t> const& endpoints, bool creator) {
    AgentMessage message;
    ChannelLeft& left = *message.mutable_channel_left();
    left.set_channel(channel);
    left.set_creator(creator);
    left.mutable_endpoints()->Assign(endpoints.begin(), endpoints.end());
    say(agent, std::move(message));
}

CallId Rig::delete_channel(Agent const& agent, std::uint32_t channel) {
    DeleteChannelRequest message;
    *message.mutable_sender() = agent.sender;
    message.set_channel(channel);
    CallId const call = next_++;
    apply([&](Now now, Effects& effects) { cluster.delete_channel(call, message, now, effects); });
    return call;
}

CallId Rig::delete_endpoint(Agent const& agent, std::uint32_t endpoint) {
    DeleteEndpointRequest message;
    *message.mutable_sender() = agent.sender;
    message.set_endpoint(endpoint);
    CallId const call = next_++;
    apply([&](Now now, Effects& effects) { cluster.delete_endpoint(call, message, now, effects); });
    return call;
}

void Rig::plan(std::string const& error, std::string const& table) {
    for (MakePlan const& asked : std::exchange(plans, {})) {
        PlanMade made;
        made.error = error;
        for (auto const* ends : {&asked.sources, &asked.destinations}) {
            for (Place const& place : *ends) made.tables[place.agent] = table;
        }
        apply([&](Now now, Effects& effects) {
            cluster.planned(asked.channel, asked.generation, made, now, effects);
        });
    }
}

void Rig::accept(Agent const& agent, std::uint32_t channel, std::uint64_t generation, bool accepted,
                 std::string const& why) {
    AgentMessage message;
    PlanAck& ack = *message.mutable_plan_ack();
    ack.set_channel(channel);
    ack.set_generation(generation);
    ack.set_accepted(accepted);
    ack.set_why(why);
    say(agent, std::move(message));
}

std::uint32_t Rig::running(Agent const& a, Agent const& b, std::string const& request) {
    CallId const call = create_channel(a, request, {a.endpoints.at(0)}, {b.endpoints.at(0)});
    EXPECT_EQ(plans.size(), 1u);
    std::uint32_t const id = plans.at(0).channel;
    plan();
    accept(a, id);
    accept(b, id);
    EXPECT_EQ(answers.at(call).problem, Problem::None) << answers.at(call).text;
    EXPECT_EQ(answers.at(call).id, id);
    return id;
}

std::vector<ControllerMessage> Rig::got(Agent const& agent,
                                        ControllerMessage::MessageCase kind) const {
    std::vector<ControllerMessage> found;
    auto const all = sent.find(agent.session);
    if (all == sent.end()) return found;
    for (ControllerMessage const& message : all->second) {
        if (message.message_case() == kind) found.push_back(message);
    }
    return found;
}

ControllerMessage Rig::last(SessionId session) const {
    auto const all = sent.find(session);
    return all == sent.end() || all->second.empty() ? ControllerMessage{} : all->second.back();
}

std::string Rig::state(std::string const& server) const {
    for (ServerView const& view : cluster.snapshot(Now{time, wall}).servers) {
        if (view.name == server) return view.state;
    }
    return "unknown";
}

}  // namespace mgi::control::test
