/// \file
/// The state machine on a bench: virtual time, agents made by hand, everything it sends kept.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/state/cluster.hpp"

namespace mgi::control::test {

/// A CPU, `gpus` GPUs and the links between them.
ServerGraph server_graph(int gpus = 2);

struct Agent {
    std::string name;
    std::string instance;
    SessionId session = 0;
    Sender sender;
    std::vector<std::uint32_t> endpoints;
};

class Rig {
public:
    explicit Rig(Settings settings = {}, std::uint64_t epoch = 1, std::uint32_t first_id = 1);

    Millis time = 1'000'000;
    Millis wall = 0;
    Cluster cluster;
    std::vector<MakePlan> plans;  ///< asked for and not answered yet
    std::map<CallId, Answer> answers;
    std::map<SessionId, std::vector<ControllerMessage>> sent;
    std::vector<SessionId> closed;
    std::vector<IdKind> reserves;

    /// Time passes, with a tick every 50 ms; agents that are named send heartbeats.
    void pass(Millis milliseconds, std::vector<Agent const*> const& beating = {});

    /// Registers; `previous` gives what it knew. The sender is filled in where it is let in.
    Agent register_agent(std::string const& name, std::string const& instance = "instance-1",
                         Register held = {}, Sender const& previous = {});
    SessionId open();
    void say(Agent const& agent, AgentMessage message);
    void say(SessionId session, Sender const& sender, AgentMessage message);
    void heartbeat(Agent const& agent, std::uint64_t sequence = 1);
    void close(Agent const& agent);

    std::uint32_t endpoint(Agent& agent, std::uint32_t vertex = 1);
    CallId create_endpoint(Agent const& agent, std::string const& request,
                           std::uint32_t vertex = 1);
    CallId create_channel(Agent const& agent, std::string const& request,
                          std::vector<std::uint32_t> const& sources,
                          std::vector<std::uint32_t> const& destinations,
                          std::uint32_t deadline_ms = 0);
    CallId gather(Agent const& agent, std::string const& request, std::uint32_t rank,
                  std::uint32_t size, std::string const& data, std::string const& key = "key",
                  std::uint32_t deadline_ms = 0);
    void leave(Agent const& agent, std::uint32_t channel,
               std::vector<std::uint32_t> const& endpoints, bool creator = false);
    CallId delete_channel(Agent const& agent, std::uint32_t channel);
    CallId delete_endpoint(Agent const& agent, std::uint32_t endpoint);
    /// Answers all plans that were asked for.
    void plan(std::string const& error = {}, std::string const& table = "table");
    void accept(Agent const& agent, std::uint32_t channel, std::uint64_t generation = 1,
                bool accepted = true, std::string const& why = {});
    /// A running channel from the first endpoint of `a` to that of `b`; its id.
    std::uint32_t running(Agent const& a, Agent const& b, std::string const& request = "request-1");

    /// The messages of a kind that a session got, oldest first.
    std::vector<ControllerMessage> got(Agent const& agent,
                                       ControllerMessage::MessageCase kind) const;
    /// The last message of a session.
    ControllerMessage last(SessionId session) const;
    std::string state(std::string const& server) const;

    /// A call of the state machine: `ask` is what it begins with.
    template <class Ask>
    CallId call(Ask const& ask) {
        CallId const id = next_++;
        apply([&](Now now, Effects& effects) { ask(id, now, effects); });
        return id;
    }

    template <class Event>
    void apply(Event const& event) {
        Effects effects;
        event(Now{time, wall}, effects);
        take(effects);
    }

private:
    void take(Effects& effects);
    std::uint64_t next_ = 1;
};

HeldEndpoint held_endpoint(std::uint32_t id, std::uint32_t vertex = 1);
HeldChannel held_channel(std::uint32_t id, std::vector<std::uint32_t> const& sources,
                         std::vector<std::uint32_t> const& destinations, std::uint64_t generation,
                         bool committed, std::string const& request = "request-1");

}  // namespace mgi::control::test
