/// \file
/// A connection on the controller's side: an agent's session and calls, or a caller's alone. What is for
/// it waits in queues that have a limit, and becomes bytes once the connection takes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "control/controller/engine.hpp"
#include "control/rpc/server_side.hpp"
#include "control/state/shares.hpp"

namespace mgi::control {

class Session;

/// What a session asks of the controller. Called by the connections' thread.
class SessionOwner {
public:
    virtual ~SessionOwner() = default;
    /// Who leads, to be told of this session from now on; null on standby, and `refusal` says who does.
    virtual std::shared_ptr<Engine> began(std::shared_ptr<Session> const& session,
                                          ControllerMessage& refusal) = 0;
    /// Answers, at once or later, by Session::answer.
    virtual void asked(std::shared_ptr<Session> const& session, CallRequest const& call) = 0;
    virtual void cancelled(Session& session, std::uint64_t number) = 0;
    /// Nothing comes of it any more.
    virtual void over(Session& session) = 0;
};

class Session final : public ServerSide, public std::enable_shared_from_this<Session> {
public:
    Session(SessionId id, Security const& security, SessionOwner& owner);

    [[nodiscard]] SessionId id() const { return id_; }
    /// Queues a message. An agent that does not read loses its session at the limit. Thread-safe.
    void send(Send message);
    /// Queues a call's answer, behind the messages of the session. Thread-safe.
    void answer(std::uint64_t number, Answer answer);
    /// The same for a status.
    void answer(std::uint64_t number, std::shared_ptr<std::string const> json);
    /// Ends the connection after what was sent. Thread-safe.
    void close();

private:
    /// What becomes bytes when its turn has come: large answers stand in memory once, for all who asked.
    struct Reply {
        std::uint64_t number = 0;
        Answer answer;
        CallRequest::RequestCase kind = CallRequest::REQUEST_NOT_SET;
        std::shared_ptr<std::string const> json;
    };

    void said(AgentMessage& message) override;
    void refuse(ControllerMessage refusal);
    void asked(CallRequest const& call) override;
    void cancelled(std::uint64_t call) override;
    void over() override;
    void on_drained() override;
    void on_wake(net::Connection& connection) override;
    void queue(Reply reply);
    std::string next_frame();
    [[nodiscard]] static std::string frame_of(Send message);
    [[nodiscard]] static std::string frame_of(Reply const& reply);

    SessionId const id_;
    SessionOwner& owner_;
    std::shared_ptr<Engine> engine_;  ///< since the session began; the connections' thread alone
    bool refused_ = false;

    std::mutex mutex_;
    std::uint32_t agent_ = 0;  ///< that has registered here
    struct Waiting {
        CallRequest::RequestCase kind = CallRequest::REQUEST_NOT_SET;
        std::optional<std::string> owner;  ///< whose share it is, if it may wait
    };
    std::unordered_map<std::uint64_t, Waiting> calls_;  ///< that wait for an answer
    Shares calls_of_{"calls of one connection that wait", kCallsAtOnce, "repeat later"};
    std::deque<Send> messages_;
    std::size_t message_bytes_ = 0;
    std::deque<Reply> replies_;
    bool closing_ = false;
};

}  // namespace mgi::control
