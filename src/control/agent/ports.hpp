/// \file
/// What the agent's core asks of its surroundings: a session and calls to the controller, messages to
/// applications. Nothing of it waits; outcomes come back as events, each with the number given here.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include <mgi/error.hpp>

#include "control/local/cbor.hpp"
#include "control/local/socket.hpp"
#include "control/proto/control.pb.h"

namespace mgi::control {

/// The agent's time: steady, from outside.
using Time = std::chrono::steady_clock::time_point;
using Milliseconds = std::chrono::milliseconds;

using ApplicationId = std::uint64_t;
using CallNumber = std::uint64_t;

using UnaryRequest =
    std::variant<CreateEndpointRequest, DeleteEndpointRequest, CreateChannelRequest,
                 DeleteChannelRequest, GatherRequest, StatusRequest>;

/// How a unary call ended.
struct CallOutcome {
    enum class Kind : std::uint8_t {
        Done,
        Repeat,  ///< the controller could not be asked, or was not the right one
        Stale,   ///< it does not know this agent's incarnation: register again, repeat
        Failed,  ///< it will not, for good
    };
    Kind kind = Kind::Done;
    ErrorCode code = ErrorCode::Ok;
    std::string text;              ///< of a failure; of Status, the JSON
    std::uint32_t id = 0;          ///< of what was made
    std::uint64_t generation = 0;  ///< of a channel's plan
    std::shared_ptr<GatherReply const> gathered = {};
};

class AgentPorts {
public:
    AgentPorts() = default;
    AgentPorts(AgentPorts const&) = delete;
    AgentPorts& operator=(AgentPorts const&) = delete;
    virtual ~AgentPorts() = default;

    /// Begins a session with a controller, whose events carry `session`; the one before is over.
    virtual void open_session(std::uint64_t session, std::string const& controller) = 0;
    virtual void send(AgentMessage const& message) = 0;
    /// Calls under way end with it, as Repeat.
    virtual void close_session() = 0;
    /// A unary call to the controller of the open session.
    virtual void call(CallNumber number, UnaryRequest const& request, Milliseconds limit) = 0;

    /// Nobody waits for it any more; no event of it follows.
    virtual void cancel(CallNumber number) = 0;

    virtual void tell(ApplicationId application, Json const& message) = 0;
    /// The same with a file descriptor, of which the message says that it brings it.
    virtual void hand(ApplicationId application, Json const& message, Fd fd) = 0;
    /// Closes an application's connection; no event of it follows.
    virtual void dismiss(ApplicationId application) = 0;

    /// The wall clock, for the controller's warning about clocks that are off.
    [[nodiscard]] virtual std::int64_t wall_ms() const = 0;
};

}  // namespace mgi::control
