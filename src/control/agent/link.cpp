#include "control/agent/link.hpp"

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <type_traits>
#include <utility>

#include "control/proto/control.grpc.pb.h"
#include "control/rpc/handover.hpp"
#include "control/rpc/limits.hpp"
#include "core/log.hpp"

namespace mgi::control {

namespace {

// What a controller that does not read may leave standing here; beyond it the session is over.
constexpr std::size_t kMostQueued = 4096;
constexpr std::chrono::seconds kLastCalls{2};

CallOutcome failed(CallOutcome::Kind kind, ErrorCode code, std::string text) {
    CallOutcome outcome;
    outcome.kind = kind;
    outcome.code = code;
    outcome.text = std::move(text);
    return outcome;
}

CallOutcome outcome_of(grpc::Status const& status, std::string const& explained) {
    using Kind = CallOutcome::Kind;
    std::string const& text = status.error_message();
    switch (status.error_code()) {
        case grpc::StatusCode::OK: return {};
        case grpc::StatusCode::UNAVAILABLE:
        case grpc::StatusCode::CANCELLED:
        case grpc::StatusCode::DEADLINE_EXCEEDED:
            return failed(Kind::Repeat, ErrorCode::Timeout, explained);
        case grpc::StatusCode::FAILED_PRECONDITION:
            return text.rfind("stale sender", 0) == 0
                       ? failed(Kind::Stale, ErrorCode::Refused, text)
                       : failed(Kind::Failed, ErrorCode::InvalidArgument, text);
        case grpc::StatusCode::INVALID_ARGUMENT:
        case grpc::StatusCode::OUT_OF_RANGE:
            return failed(Kind::Failed, ErrorCode::InvalidArgument, text);
        case grpc::StatusCode::NOT_FOUND: return failed(Kind::Failed, ErrorCode::NotFound, text);
        case grpc::StatusCode::RESOURCE_EXHAUSTED:
            return failed(Kind::Failed, ErrorCode::OutOfMemory, text);
        case grpc::StatusCode::ABORTED: return failed(Kind::Failed, ErrorCode::Refused, text);
        default: return failed(Kind::Failed, ErrorCode::Refused, explained);
    }
}

void fill(CallOutcome& outcome, CreateEndpointReply const& reply) {
    outcome.id = reply.endpoint();
}
void fill(CallOutcome& outcome, CreateChannelReply const& reply) {
    outcome.id = reply.channel();
    outcome.generation = reply.generation();
}
void fill(CallOutcome& outcome, GatherReply const& reply) {
    outcome.gathered = std::make_shared<GatherReply const>(reply);
}
void fill(CallOutcome& outcome, StatusReply const& reply) {
    outcome.text = reply.json();
}
void fill(CallOutcome&, DeleteReply const&) {}

using Stub = class Control::Stub::async;

template <class Request, class Reply>
using Method = void (Stub::*)(grpc::ClientContext*, Request const*, Reply*,
                              std::function<void(grpc::Status)>);

/// The call of a request: what answers it, and the stub's method.
template <class Request>
struct Unary;
template <>
struct Unary<CreateEndpointRequest> {
    using Reply = CreateEndpointReply;
    static constexpr Method<CreateEndpointRequest, Reply> kMethod = &Stub::CreateEndpoint;
};
template <>
struct Unary<DeleteEndpointRequest> {
    using Reply = DeleteReply;
    static constexpr Method<DeleteEndpointRequest, Reply> kMethod = &Stub::DeleteEndpoint;
};
template <>
struct Unary<CreateChannelRequest> {
    using Reply = CreateChannelReply;
    static constexpr Method<CreateChannelRequest, Reply> kMethod = &Stub::CreateChannel;
};
template <>
struct Unary<DeleteChannelRequest> {
    using Reply = DeleteReply;
    static constexpr Method<DeleteChannelRequest, Reply> kMethod = &Stub::DeleteChannel;
};
template <>
struct Unary<GatherRequest> {
    using Reply = GatherReply;
    static constexpr Method<GatherRequest, Reply> kMethod = &Stub::Gather;
};
template <>
struct Unary<StatusRequest> {
    using Reply = StatusReply;
    static constexpr Method<StatusRequest, Reply> kMethod = &Stub::Status;
};

template <class Request>
struct UnaryCall {
    grpc::ClientContext context;
    Request request;
    typename Unary<Request>::Reply reply;
};

}  // namespace

// gRPC's calls own it until their last callback.
class ControllerLink::Connection : public std::enable_shared_from_this<Connection> {
public:
    Connection(std::uint64_t session, std::string address, std::shared_ptr<Security const> security,
               std::shared_ptr<Inbox> inbox, std::shared_ptr<LinkEvents const> events)
        : session_(session),
          address_(std::move(address)),
          security_(std::move(security)),
          inbox_(std::move(inbox)),
          events_(std::move(events)),
          stub_(Control::NewStub(make_channel(address_, *security_))) {}

    void begin() {
        stream_ = std::make_unique<Stream>(shared_from_this());
        count(1);
        stream_->begin();
    }

    void send(AgentMessage const& message) { stream_->send(message); }

    template <class Request>
    void call(CallNumber number, Request const& request, Milliseconds limit) {
        auto const call = std::make_shared<UnaryCall<Request>>();
        call->request = request;
        prepare_call(call->context, *security_, limit);
        {
            std::lock_guard const lock(mutex_);
            contexts_.emplace(number, std::shared_ptr<grpc::ClientContext>(call, &call->context));
            ++running_;
        }
        hand_over(call.get());
        (stub_->async()->*Unary<Request>::kMethod)(
            &call->context, &call->request, &call->reply,
            [self = shared_from_this(), call, number](grpc::Status const& status) {
                take_over(call.get());
                CallOutcome outcome =
                    outcome_of(status, self->security_->explain(self->address_, status));
                if (status.ok()) fill(outcome, call->reply);
                self->inbox_->post([events = self->events_, number, outcome] {
                    events->call_ended(number, outcome);
                });
                {
                    std::lock_guard const lock(self->mutex_);
                    self->contexts_.erase(number);
                }
                self->count(-1);
            });
    }

    void cancel(CallNumber number) {
        std::shared_ptr<grpc::ClientContext> context;
        {
            std::lock_guard const lock(mutex_);
            auto const found = contexts_.find(number);
            if (found != contexts_.end()) context = found->second;
        }
        if (context != nullptr) context->TryCancel();
    }

    void cancel() {
        stream_->finish(true);
        std::map<CallNumber, std::shared_ptr<grpc::ClientContext>> contexts;
        {
            std::lock_guard const lock(mutex_);
            contexts = contexts_;
        }
        for (auto const& [number, context] : contexts) context->TryCancel();
    }

    bool wait_until_idle(std::chrono::milliseconds limit) {
        std::unique_lock lock(mutex_);
        return idle_.wait_for(lock, limit, [&] { return running_ == 0; });
    }

private:
    class Stream : public grpc::ClientBidiReactor<AgentMessage, ControllerMessage> {
    public:
        explicit Stream(std::shared_ptr<Connection> connection)
            : connection_(std::move(connection)) {}

        void begin() {
            connection_->security_->authorize(context_);
            connection_->stub_->async()->Session(&context_, this);
            StartRead(&incoming_);
            // Writes are started from another thread than the callbacks'.
            AddHold();
            hand_over(this);
            StartCall();
        }

        // The agent's thread: it alone starts the first of a row of writes, and lets go.
        void send(AgentMessage const& message) {
            Message first;
            {
                std::lock_guard const lock(mutex_);
                if (over_) return;
                if (outgoing_.size() < kMostQueued) {
                    outgoing_.push_back(std::make_shared<AgentMessage const>(message));
                    if (outgoing_.size() > 1) return;
                    first = outgoing_.front();
                }
            }
            // No lock is held in a call of gRPC, which may call back at once.
            if (first != nullptr) {
                hand_over(this);
                StartWrite(first.get());
            } else {
                finish(true);
            }
        }
        // No write begins any more, so gRPC may end the call.
        void finish(bool cancel) {
            {
                std::lock_guard const lock(mutex_);
                if (std::exchange(over_, true)) return;
            }
            if (cancel) context_.TryCancel();
            hand_over(this);
            RemoveHold();
        }

        void OnReadDone(bool ok) override {
            take_over(this);
            auto const& connection = *connection_;
            if (!ok) {
                connection.inbox_->post([over = connection_->weak_from_this()] {
                    if (auto const still = over.lock()) still->stream_->finish(false);
                });
                return hand_over(this);
            }
            auto const message = std::make_shared<ControllerMessage>();
            message->Swap(&incoming_);
            connection.inbox_->post([events = connection.events_, session = connection.session_,
                                     message] { events->received(session, *message); });
            hand_over(this);
            StartRead(&incoming_);
        }

        void OnWriteDone(bool ok) override {
            take_over(this);
            Message next;
            {
                std::lock_guard const lock(mutex_);
                outgoing_.pop_front();
                if (!over_ && !outgoing_.empty()) next = outgoing_.front();
            }
            if (!ok) return context_.TryCancel();
            hand_over(this);
            if (next != nullptr) StartWrite(next.get());
        }

        void OnDone(grpc::Status const& status) override {
            take_over(this);
            auto const connection = std::move(connection_);
            std::string const why =
                status.ok() ? "the controller at " + connection->address_ + " ended the session"
                            : connection->security_->explain(connection->address_, status);
            connection->inbox_->post([events = connection->events_, session = connection->session_,
                                      why] { events->broken(session, why); });
            connection->count(-1);  // `this` may be gone with the last word of `connection`
        }

    private:
        using Message = std::shared_ptr<AgentMessage const>;

        std::shared_ptr<Connection> connection_;
        grpc::ClientContext context_;
        ControllerMessage incoming_;
        std::mutex mutex_;
        // The first is being written. Whoever starts a write holds the message until gRPC has it: it
        // may be written, and taken out, before that.
        std::deque<Message> outgoing_;
        bool over_ = false;
    };

    void count(int change) {
        std::lock_guard const lock(mutex_);
        running_ += change;
        if (running_ == 0) idle_.notify_all();
    }

    std::uint64_t const session_;
    std::string const address_;
    std::shared_ptr<Security const> const security_;
    std::shared_ptr<Inbox> const inbox_;
    std::shared_ptr<LinkEvents const> const events_;
    std::unique_ptr<Control::Stub> const stub_;
    std::unique_ptr<Stream> stream_;
    std::mutex mutex_;
    std::condition_variable idle_;
    int running_ = 0;  // calls that gRPC still knows
    std::map<CallNumber, std::shared_ptr<grpc::ClientContext>> contexts_;
};

ControllerLink::ControllerLink(std::shared_ptr<Security const> security,
                               std::shared_ptr<Inbox> inbox, LinkEvents events)
    : security_(std::move(security)),
      inbox_(std::move(inbox)),
      events_(std::make_shared<LinkEvents const>(std::move(events))) {}

ControllerLink::~ControllerLink() {
    auto const last = connection_;
    close();
    if (last != nullptr && !last->wait_until_idle(kLastCalls)) {
        log::warn("agent: gRPC still holds a cancelled call");
    }
}

void ControllerLink::open(std::uint64_t session, std::string const& address) {
    close();
    connection_ = std::make_shared<Connection>(session, address, security_, inbox_, events_);
    connection_->begin();
}

void ControllerLink::send(AgentMessage const& message) {
    if (connection_ != nullptr) connection_->send(message);
}

void ControllerLink::close() {
    if (connection_ == nullptr) return;
    connection_->cancel();
    connection_.reset();
}

void ControllerLink::cancel(CallNumber number) {
    if (connection_ != nullptr) connection_->cancel(number);
}

void ControllerLink::call(CallNumber number, UnaryRequest const& request, Milliseconds limit) {
    if (connection_ == nullptr) {
        inbox_->post([events = events_, number] {
            events->call_ended(number, failed(CallOutcome::Kind::Repeat, ErrorCode::Timeout,
                                              "no controller is connected"));
        });
        return;
    }
    std::visit([&](auto const& message) { connection_->call(number, message, limit); }, request);
}

}  // namespace mgi::control
