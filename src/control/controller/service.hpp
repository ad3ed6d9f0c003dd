/// \file
/// The controller's gRPC service: sessions of agents, calls of clients.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "control/controller/engine.hpp"
#include "control/controller/session.hpp"
#include "control/controller/status_board.hpp"
#include "control/proto/control.grpc.pb.h"
#include "control/rpc/security.hpp"

namespace mgi::control {

/// A call that waits for its answer.
class Call;

/// Serves with the engine that it was given; without one it is on standby and says who leads.
/// Thread-safe. Must outlive the server, and `retire` comes before the server's shutdown.
class ControlService final : public Control::CallbackService, public Outlet {
public:
    /// `address` is what agents reach this controller by.
    ControlService(Security const& security, std::string address);
    ~ControlService() override;

    /// From now on this controller leads.
    void lead(std::shared_ptr<Engine> engine);
    /// From now on another one does ("host:port", or empty: not known yet). Sessions end and calls
    /// fail, both with NOT_LEADER; the engine is stopped.
    void stand_by(std::string const& leader);
    /// Sessions and calls end, so that the server can be shut down.
    void retire() { stand_by({}); }

    /// The status page's JSON; also on standby. Both are a moment old where several ask.
    [[nodiscard]] std::string status() const;
    /// Empty on standby.
    [[nodiscard]] std::shared_ptr<Snapshot const> snapshot() const;

    void carry_out(Send const& send) override;
    void carry_out(Close const& close) override;
    void carry_out(Answer const& answer) override;

    /// For Call: it was cancelled.
    void cancelled(CallId call, Engine& engine);

private:
    using Context = grpc::CallbackServerContext;
    using Reactor = grpc::ServerUnaryReactor;

    grpc::ServerBidiReactor<AgentMessage, ControllerMessage>* Session(Context* context) override;
    Reactor* CreateEndpoint(Context* context, CreateEndpointRequest const* request,
                            CreateEndpointReply* reply) override;
    Reactor* DeleteEndpoint(Context* context, DeleteEndpointRequest const* request,
                            DeleteReply* reply) override;
    Reactor* CreateChannel(Context* context, CreateChannelRequest const* request,
                           CreateChannelReply* reply) override;
    Reactor* DeleteChannel(Context* context, DeleteChannelRequest const* request,
                           DeleteReply* reply) override;
    Reactor* Gather(Context* context, GatherRequest const* request, GatherReply* reply) override;
    Reactor* Status(Context* context, StatusRequest const* request, StatusReply* reply) override;

    /// Starts a call: `ask` puts it to the state machine, `fill` writes the reply.
    Reactor* start(Context* context,
                   std::function<void(Cluster&, CallId, Now, Effects&)> const& ask,
                   std::function<void(Answer const&)> fill);
    [[nodiscard]] std::shared_ptr<Engine> engine() const;
    [[nodiscard]] std::string not_leader() const;
    std::shared_ptr<control::Session> find(SessionId session) const;

    Security const& security_;
    std::string const address_;
    mutable StatusBoard board_;
    std::atomic<std::uint64_t> next_{1};  ///< names of sessions and calls

    mutable std::mutex mutex_;
    std::shared_ptr<Engine> engine_;
    std::string leader_;
    std::unordered_map<SessionId, std::shared_ptr<control::Session>> sessions_;
    std::unordered_map<CallId, Call*> calls_;
};

}  // namespace mgi::control
