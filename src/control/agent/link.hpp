/// \file
/// The agent's connection to a controller, by gRPC: one session stream and unary calls. gRPC's threads
/// only queue what they bring.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "control/agent/inbox.hpp"
#include "control/agent/ports.hpp"
#include "control/rpc/security.hpp"

namespace mgi::control {

/// What a connection brings; called on the agent's thread.
struct LinkEvents {
    std::function<void(std::uint64_t session, ControllerMessage const&)> received;
    std::function<void(std::uint64_t session, std::string const& why)> broken;
    std::function<void(CallNumber, CallOutcome)> call_ended;
};

/// One at a time: opening the next one ends the one before. Used by one thread. Its end waits for gRPC to
/// let go of cancelled calls, a bounded time.
class ControllerLink {
public:
    ControllerLink(std::shared_ptr<Security const> security, std::shared_ptr<Inbox> inbox,
                   LinkEvents events);
    ControllerLink(ControllerLink const&) = delete;
    ControllerLink& operator=(ControllerLink const&) = delete;
    ~ControllerLink();

    void open(std::uint64_t session, std::string const& address);
    void send(AgentMessage const& message);
    void close();
    void call(CallNumber number, UnaryRequest const& request, Milliseconds limit);
    /// Nobody waits for that call any more.
    void cancel(CallNumber number);

private:
    class Connection;
    std::shared_ptr<Security const> security_;
    std::shared_ptr<Inbox> inbox_;
    std::shared_ptr<LinkEvents const> events_;
    std::shared_ptr<Connection> connection_;
};

}  // namespace mgi::control
