/// \file
/// The agent's session with the controller: whom to ask, when again, when the other side is gone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "control/agent/ports.hpp"

namespace mgi::control {

struct SessionOptions {
    std::vector<std::string> controllers;  ///< "host:port", tried in turn
    Milliseconds first_pause{50};          ///< between attempts; doubles up to the longest
    Milliseconds longest_pause{2000};
    Milliseconds register_limit{5000};  ///< for a controller to answer a registration
    std::uint64_t seed = 0;  ///< agents that lost one controller do not all come back at once
};

/// Single-threaded. Events of older sessions are ignored.
class ControllerSession {
public:
    /// What the session asks of the agent.
    struct Owner {
        std::function<Register()> registration;  ///< all that is held
        std::function<void(Registered const&)> joined;
        std::function<void(ControllerMessage const&)> received;  ///< what is not the session's own
        std::function<void(std::string const& why)> lost;        ///< once after each `joined`
        std::function<void(Heartbeat&)> heartbeat;               ///< fills in figures
    };

    ControllerSession(SessionOptions options, AgentPorts& ports, Owner owner);

    [[nodiscard]] bool joined() const { return state_ == State::Joined; }
    /// The registration is under way: what it names cannot be changed any more.
    [[nodiscard]] bool registering() const { return state_ == State::Registering; }
    [[nodiscard]] std::uint64_t number() const { return number_; }
    [[nodiscard]] Sender const& sender() const { return sender_; }
    [[nodiscard]] std::string const& controller() const { return controller_; }
    [[nodiscard]] std::uint32_t lease_ms() const { return lease_ms_; }
    /// Why there is no controller now; empty while there is one.
    [[nodiscard]] std::string const& away() const { return away_; }

    /// Sends with this agent's ids in front. Only while joined.
    void send(AgentMessage message);
    /// The controller does not know this incarnation any more, or there is cause to doubt it.
    void register_again(std::string const& why, Time now);

    void received(std::uint64_t session, ControllerMessage const& message, Time now);
    void broken(std::uint64_t session, std::string const& why, Time now);
    void tick(Time now);
    [[nodiscard]] Time next() const { return next_; }

private:
    enum class State : std::uint8_t { Waiting, Registering, Joined };

    void open(Time now);
    void refused(Refused const& refused, Time now);
    /// Gives this session up and tries again after a pause.
    void retry(std::string const& why, Time now);
    void beat(Time now);

    SessionOptions options_;
    AgentPorts& ports_;
    Owner owner_;
    std::mt19937_64 random_;
    State state_ = State::Waiting;
    Time next_{};
    Time heard_{};  ///< the controller's last word
    Milliseconds pause_;
    std::size_t turn_ = 0;               ///< of the list of controllers
    std::optional<std::string> leader_;  ///< named by one that is not
    std::string controller_;
    std::string away_ = "no controller was asked yet";
    std::set<std::string> warned_;  ///< reasons of this outage that were said
    std::uint64_t number_ = 0;
    std::uint64_t sequence_ = 0;
    Sender sender_;
    Milliseconds heartbeat_{300};
    std::uint32_t lease_ms_ = 1200;
};

}  // namespace mgi::control
