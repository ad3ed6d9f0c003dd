#include "control/controller/session.hpp"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <mgi/error.hpp>

#include "control/state/settings.hpp"
#include "control/state/validation.hpp"
#include "core/log.hpp"
#include "core/text.hpp"

namespace mgi::control {
namespace {

/// An agent that reads nothing is cut off here: a plan of the largest channel must fit, twice.
constexpr std::size_t kMostBytes = std::size_t{128} << 20;
constexpr std::size_t kMostMessages = 65'536;
/// So much is made into bytes ahead of what the connection takes.
constexpr std::size_t kAhead = 64 << 10;
constexpr std::chrono::milliseconds kLastWords{10'000};

std::size_t size_of(Send const& send) {
    return send.message->ByteSizeLong() + send.table.size();
}

Outcome::Code code_of(Problem problem) {
    switch (problem) {
        case Problem::None: return Outcome::OK;
        case Problem::InvalidArgument: return Outcome::INVALID_ARGUMENT;
        case Problem::NotFound: return Outcome::NOT_FOUND;
        case Problem::FailedPrecondition: return Outcome::FAILED_PRECONDITION;
        case Problem::ResourceExhausted: return Outcome::RESOURCE_EXHAUSTED;
        case Problem::Unavailable: return Outcome::UNAVAILABLE;
        case Problem::DeadlineExceeded: return Outcome::DEADLINE_EXCEEDED;
        case Problem::Aborted: return Outcome::ABORTED;
        case Problem::Unimplemented: return Outcome::UNIMPLEMENTED;
    }
    return Outcome::INTERNAL;
}

/// For whom an agent asks, where that may wait: a deletion is answered at once, and makes room.
std::optional<std::string> owner_in(CallRequest const& call) {
    std::string const* owner = nullptr;
    switch (call.request_case()) {
        case CallRequest::kCreateEndpoint: owner = &call.create_endpoint().owner(); break;
        case CallRequest::kCreateChannel: owner = &call.create_channel().owner(); break;
        case CallRequest::kGather: owner = &call.gather().owner(); break;
        case CallRequest::kStatus: owner = &call.status().owner(); break;
        default: return std::nullopt;
    }
    return wrong_owner(*owner).empty() ? *owner : std::string();
}

/// The agent that a call names as its sender; 0: none.
std::uint32_t sender_in(CallRequest const& call) {
    switch (call.request_case()) {
        case CallRequest::kCreateEndpoint: return call.create_endpoint().sender().agent();
        case CallRequest::kDeleteEndpoint: return call.delete_endpoint().sender().agent();
        case CallRequest::kCreateChannel: return call.create_channel().sender().agent();
        case CallRequest::kDeleteChannel: return call.delete_channel().sender().agent();
        case CallRequest::kGather: return call.gather().sender().agent();
        case CallRequest::kStatus:
        case CallRequest::REQUEST_NOT_SET: break;
    }
    return 0;
}

/// Why the certificate that an agent has shown is not for the server that it registers, or nothing.
std::string wrong_certificate(Security const& security, net::Connection const& connection,
                              std::string const& server) {
    if (!security.encrypted() || security.options().any_server) return "";
    std::vector<std::string> const names = connection.certificate_names();
    if (names_server(names, server)) return "";
    std::string const name = without_controls(server.substr(0, 255));
    return fmt::format(
        "its certificate is for {}, not for a server of the name '{}': issue it with DNS:{} in "
        "its subjectAltName, or start the controller with --any-server",
        names.empty() ? "no name" : fmt::format("{}", fmt::join(names, ", ")), name, name);
}

}  // namespace

Session::Session(SessionId id, Security const& security, SessionOwner& owner)
    : ServerSide(security), id_(id), owner_(owner) {}

void Session::said(AgentMessage& message) {
    if (refused_) return;
    if (message.has_register_()) {
        std::string const wrong =
            wrong_certificate(security(), connection(), message.register_().name());
        if (!wrong.empty()) {
            ControllerMessage refusal;
            refusal.set_protocol(kProtocol);
            refusal.mutable_refused()->set_text(wrong);
            log::warn("controller: the agent at {} is refused: {}", connection().peer(), wrong);
            return refuse(std::move(refusal));
        }
    }
    if (engine_ == nullptr) {
        ControllerMessage refusal;
        engine_ = owner_.began(shared_from_this(), refusal);
        if (engine_ == nullptr) {
            return refuse(std::move(refusal));
        }
        engine_->apply([this](Cluster& cluster, Now now, Effects& effects) {
            cluster.session_opened(id_, now, effects);
        });
    }
    engine_->apply([&](Cluster& cluster, Now now, Effects& effects) {
        cluster.session_message(id_, message, now, effects);
    });
}

void Session::refuse(ControllerMessage refusal) {
    refused_ = true;
    send({id_, std::make_shared<ControllerMessage const>(std::move(refusal)), {}});
    close();
}

void Session::asked(CallRequest const& call) {
    std::string full;
    bool own = false;
    {
        std::lock_guard const lock(mutex_);
        own = sender_in(call) == 0 || sender_in(call) == agent_;
        if (calls_.count(call.number()) != 0) {
            throw Error(
                ErrorCode::InvalidArgument,
                fmt::format("call {} while one of that number is under way", call.number()));
        }
        auto const owner = owner_in(call);
        if (owner) {
            full = calls_of_.refusal(*owner);
            calls_of_.add(*owner);
        }
        calls_.emplace(call.number(), Waiting{call.request_case(), owner});
    }
    if (!own) {
        // Whoever has proven to be one server speaks for no other.
        return answer(call.number(),
                      {0, Problem::FailedPrecondition,
                       "stale sender: this connection has not registered that agent", 0, 0});
    }
    if (full.empty()) return owner_.asked(shared_from_this(), call);
    answer(call.number(), {0, Problem::Unavailable, full, 0, 0});
}

void Session::cancelled(std::uint64_t call) {
    owner_.cancelled(*this, call);
}

void Session::over() {
    if (engine_ != nullptr) {
        engine_->apply([this](Cluster& cluster, Now now, Effects& effects) {
            cluster.session_closed(id_, now, effects);
        });
    }
    owner_.over(*this);
    std::lock_guard const lock(mutex_);
    closing_ = true;
    messages_.clear();
    replies_.clear();
}

void Session::send(Send message) {
    bool stuck = false;
    {
        std::lock_guard const lock(mutex_);
        if (closing_) return;
        if (message.message->has_registered()) agent_ = message.message->registered().agent();
        message_bytes_ += size_of(message);
        messages_.push_back(std::move(message));
        stuck = messages_.size() > kMostMessages || message_bytes_ > kMostBytes;
        if (stuck) {
            closing_ = true;
            messages_.clear();
            replies_.clear();
        }
    }
    if (stuck) return connection().abort("its session does not read what it is sent");
    connection().wake();
}

void Session::answer(std::uint64_t number, Answer answer) {
    Reply reply;
    reply.number = number;
    reply.answer = std::move(answer);
    queue(std::move(reply));
}

void Session::answer(std::uint64_t number, std::shared_ptr<std::string const> json) {
    Reply reply;
    reply.number = number;
    reply.json = std::move(json);
    queue(std::move(reply));
}

void Session::queue(Reply reply) {
    bool stuck = false;
    {
        std::lock_guard const lock(mutex_);
        auto const found = calls_.find(reply.number);
        if (closing_ || found == calls_.end()) return;
        reply.kind = found->second.kind;
        if (found->second.owner) calls_of_.remove(*found->second.owner);
        calls_.erase(found);
        replies_.push_back(std::move(reply));
        stuck = replies_.size() > 2 * kCallsAtOnce;
    }
    if (stuck) return connection().abort("it does not read the answers to its calls");
    connection().wake();
}

void Session::close() {
    {
        std::lock_guard const lock(mutex_);
        if (std::exchange(closing_, true)) return;
    }
    connection().wake();
}

void Session::on_wake(net::Connection& connection) {
    std::lock_guard const lock(mutex_);
    if (closing_) connection.set_deadline(kLastWords, "it does not read its session's last words");
}

/// Messages go first: they are small and a heartbeat's acknowledgement is awaited, while answers may have
/// 64 MiB each.
void Session::on_drained() {
    while (connection().queued() < kAhead) {
        std::string const frame = next_frame();
        if (frame.empty()) break;
        connection().send(frame);
    }
    std::lock_guard const lock(mutex_);
    if (closing_ && messages_.empty() && replies_.empty()) connection().close();
}

/// Empty where nothing waits.
std::string Session::next_frame() {
    std::optional<Send> message;
    std::optional<Reply> reply;
    {
        std::lock_guard const lock(mutex_);
        if (!messages_.empty()) {
            message = std::move(messages_.front());
            messages_.pop_front();
            message_bytes_ -= size_of(*message);
        } else if (!replies_.empty()) {
            reply = std::move(replies_.front());
            replies_.pop_front();
        }
    }
    if (message) return frame_of(std::move(*message));
    return reply ? frame_of(*reply) : "";
}

std::string Session::frame_of(Send message) {
    ServerFrame frame;
    *frame.mutable_session() = whole(std::move(message));
    std::size_t const size = frame.ByteSizeLong();
    if (size > kLargestAnswer) {
        throw Error(ErrorCode::InvalidArgument,
                    fmt::format("a message of {} bytes is due to it, and {} are the most", size,
                                kLargestAnswer));
    }
    return frame_with(frame);
}

std::string Session::frame_of(Reply const& reply) {
    ServerFrame frame;
    CallAnswer& made = *frame.mutable_answer();
    Answer const& answer = reply.answer;
    made.set_number(reply.number);
    made.mutable_outcome()->set_code(code_of(answer.problem));
    made.mutable_outcome()->set_text(answer.text);
    if (answer.problem == Problem::None) {
        switch (reply.kind) {
            case CallRequest::kCreateEndpoint:
                made.mutable_create_endpoint()->set_endpoint(answer.id);
                break;
            case CallRequest::kCreateChannel:
                made.mutable_create_channel()->set_channel(answer.id);
                made.mutable_create_channel()->set_generation(answer.generation);
                break;
            case CallRequest::kGather: *made.mutable_gather() = *answer.gathered; break;
            case CallRequest::kStatus: made.mutable_status()->set_json(*reply.json); break;
            default: made.mutable_deleted(); break;
        }
    }
    std::size_t const size = frame.ByteSizeLong();
    if (size > kLargestAnswer) {
        made.clear_reply();
        made.mutable_outcome()->set_code(Outcome::RESOURCE_EXHAUSTED);
        made.mutable_outcome()->set_text(
            fmt::format("an answer of {} bytes, where {} are the most", size, kLargestAnswer));
    }
    return frame_with(frame);
}

}  // namespace mgi::control
