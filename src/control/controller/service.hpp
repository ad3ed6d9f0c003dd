/// \file
/// The controller's service: sessions of agents, calls of clients.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "control/controller/engine.hpp"
#include "control/controller/session.hpp"
#include "control/controller/status_board.hpp"
#include "control/controller/worker.hpp"
#include "control/net/server.hpp"
#include "control/rpc/security.hpp"
#include "control/state/shares.hpp"

namespace mgi::control {

/// Serves with the engine that it was given; without one it is on standby and says who leads.
/// Thread-safe. Must outlive the server that `serve` makes, and `retire` comes before that one's end.
class ControlService final : public Outlet, private SessionOwner {
public:
    /// `address` is what agents reach this controller by.
    ControlService(Security const& security, std::string address);
    ~ControlService() override;

    /// Listens for agents and callers, as net::Server does.
    [[nodiscard]] std::unique_ptr<net::Server> serve(std::string const& listen);

    /// From now on this controller leads.
    void lead(std::shared_ptr<Engine> engine);
    /// From now on another one does ("host:port", or empty: not known yet). Sessions end and calls
    /// fail, both with NOT_LEADER; the engine is stopped.
    void stand_by(std::string const& leader);
    /// Sessions and calls end, so that the server can be shut down.
    void retire() { stand_by({}); }

    /// The status page's JSON; also on standby. Both are a moment old where several ask.
    [[nodiscard]] std::string status() const { return *status_text(); }
    /// Empty on standby.
    [[nodiscard]] std::shared_ptr<Snapshot const> snapshot() const;

    void carry_out(Send const& send) override;
    void carry_out(Close const& close) override;
    void carry_out(Answer const& answer) override;

private:
    struct Caller {
        std::shared_ptr<Session> session;
        std::uint64_t number = 0;
        std::shared_ptr<Engine> engine;
    };
    using Ask = std::function<void(Cluster&, CallId, Now, Effects&)>;

    std::shared_ptr<Engine> began(std::shared_ptr<Session> const& session,
                                  ControllerMessage& refusal) override;
    void asked(std::shared_ptr<Session> const& session, CallRequest const& call) override;
    void cancelled(Session& session, std::uint64_t number) override;
    void over(Session& session) override;

    void start(std::shared_ptr<Session> const& session, std::uint64_t number, Ask const& ask);
    void tell_status(std::shared_ptr<Session> const& session, CallRequest const& call);
    void give_up(CallId call, Engine& engine);
    [[nodiscard]] std::shared_ptr<std::string const> status_text(
        std::optional<std::string> const& owner = {}) const;
    [[nodiscard]] std::shared_ptr<Engine> engine() const;
    [[nodiscard]] std::string not_leader() const;
    std::shared_ptr<Session> find(SessionId session) const;

    Security const& security_;
    std::string const address_;
    mutable StatusBoard board_;
    std::atomic<std::uint64_t> next_{1};  ///< names of sessions and calls

    mutable std::mutex mutex_;
    Shares statuses_;  ///< that are asked for and not answered
    std::shared_ptr<Engine> engine_;
    std::string leader_;
    std::unordered_map<SessionId, std::shared_ptr<Session>> sessions_;  ///< that have begun
    std::unordered_map<CallId, Caller> calls_;
    std::unordered_map<SessionId, std::unordered_map<std::uint64_t, CallId>> calls_of_;
    Worker writes_status_;  ///< the last: its thread ends first
};

}  // namespace mgi::control
