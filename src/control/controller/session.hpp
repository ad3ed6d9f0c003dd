/// \file
/// An agent's session on the controller's side: one stream, its messages read one by one, those to it
/// waiting in a queue that has a limit.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "control/controller/engine.hpp"

namespace mgi::control {

/// Owned by itself from its start to the end of its stream, and by whoever sends to it.
class Session final : public grpc::ServerBidiReactor<AgentMessage, ControllerMessage>,
                      public std::enable_shared_from_this<Session> {
public:
    /// `over` is called once, when nothing will come of the stream any more.
    Session(SessionId id, grpc::CallbackServerContext* context, std::shared_ptr<Engine> engine,
            std::function<void(SessionId)> over);

    void start();
    /// Queues a message. An agent that does not read loses its session at the limit. Thread-safe.
    void send(Send message);
    /// Ends the stream after what was sent. Thread-safe.
    void close();

private:
    void OnReadDone(bool ok) override;
    void OnWriteDone(bool ok) override;
    void OnCancel() override;
    void OnDone() override;
    void write_next();
    void tell_closed();

    SessionId const id_;
    grpc::CallbackServerContext* const context_;
    std::shared_ptr<Engine> const engine_;
    std::function<void(SessionId)> const over_;
    std::shared_ptr<Session> self_;  ///< until OnDone
    AgentMessage read_;

    std::mutex mutex_;
    std::deque<Send> queue_;
    std::size_t queued_bytes_ = 0;
    std::shared_ptr<ControllerMessage const> writing_;
    ControllerMessage
        whole_;  ///< what is written instead, where a part of it is this session's own
    bool closing_ = false;
    bool finished_ = false;
};

}  // namespace mgi::control
