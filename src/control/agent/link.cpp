#include "control/agent/link.hpp"

#include <utility>

namespace mgi::control {

namespace {

// What a controller that does not read may leave standing here; beyond it the session is over.
constexpr std::size_t kMostUnread = std::size_t{128} << 20;
// Beyond it calls wait: a heartbeat behind it is not too late.
constexpr std::size_t kMostQueued = std::size_t{16} << 20;

net::ClientOptions client_options() {
    net::ClientOptions options;
    options.most_queued = kMostUnread;
    return options;
}

CallOutcome failed(CallOutcome::Kind kind, ErrorCode code, std::string text) {
    CallOutcome outcome;
    outcome.kind = kind;
    outcome.code = code;
    outcome.text = std::move(text);
    return outcome;
}

CallOutcome failure_of(Outcome const& outcome) {
    using Kind = CallOutcome::Kind;
    std::string const& text = outcome.text();
    switch (outcome.code()) {
        case Outcome::UNAVAILABLE:
        case Outcome::CANCELLED:
        case Outcome::DEADLINE_EXCEEDED: return failed(Kind::Repeat, ErrorCode::Timeout, text);
        case Outcome::FAILED_PRECONDITION:
            return text.rfind("stale sender", 0) == 0
                       ? failed(Kind::Stale, ErrorCode::Refused, text)
                       : failed(Kind::Failed, ErrorCode::InvalidArgument, text);
        case Outcome::INVALID_ARGUMENT:
            return failed(Kind::Failed, ErrorCode::InvalidArgument, text);
        case Outcome::ABORTED: return failed(Kind::Failed, ErrorCode::GroupFailed, text);
        case Outcome::NOT_FOUND: return failed(Kind::Failed, ErrorCode::NotFound, text);
        case Outcome::RESOURCE_EXHAUSTED: return failed(Kind::Failed, ErrorCode::OutOfMemory, text);
        default: return failed(Kind::Failed, ErrorCode::Refused, text);
    }
}

CallOutcome outcome_of(Outcome const& outcome, CallAnswer const& answer) {
    if (outcome.code() != Outcome::OK) return failure_of(outcome);
    CallOutcome made;
    switch (answer.reply_case()) {
        case CallAnswer::kCreateEndpoint: made.id = answer.create_endpoint().endpoint(); break;
        case CallAnswer::kCreateChannel:
            made.id = answer.create_channel().channel();
            made.generation = answer.create_channel().generation();
            break;
        case CallAnswer::kGather:
            made.gathered = std::make_shared<GatherReply const>(answer.gather());
            break;
        case CallAnswer::kStatus: made.text = answer.status().json(); break;
        default: break;
    }
    return made;
}

void put(CallRequest& call, CreateEndpointRequest const& request) {
    *call.mutable_create_endpoint() = request;
}
void put(CallRequest& call, DeleteEndpointRequest const& request) {
    *call.mutable_delete_endpoint() = request;
}
void put(CallRequest& call, CreateChannelRequest const& request) {
    *call.mutable_create_channel() = request;
}
void put(CallRequest& call, DeleteChannelRequest const& request) {
    *call.mutable_delete_channel() = request;
}
void put(CallRequest& call, GatherRequest const& request) {
    *call.mutable_gather() = request;
}
void put(CallRequest& call, StatusRequest const& request) {
    *call.mutable_status() = request;
}

}  // namespace

ControllerLink::ControllerLink(std::shared_ptr<Security const> security,
                               std::shared_ptr<Inbox> inbox, LinkEvents events)
    : security_(std::move(security)),
      inbox_(std::move(inbox)),
      events_(std::make_shared<LinkEvents const>(std::move(events))),
      client_(client_options()) {}

void ControllerLink::open(std::uint64_t session, std::string const& address) {
    close();
    ClientSide::Events brings;
    brings.said = [inbox = inbox_, events = events_, session](ControllerMessage const& message) {
        inbox->post(
            [events, session, message = std::make_shared<ControllerMessage const>(message)] {
                events->received(session, *message);
            });
    };
    brings.over = [inbox = inbox_, events = events_, session](Outcome const& why) {
        inbox->post([events, session, text = why.text()] { events->broken(session, text); });
    };
    try {
        check_connect_address("controller", address, *security_);
        connection_ = ClientSide::open(client_, address, security_, std::move(brings));
    } catch (Error const& error) {  // an address that a controller named
        inbox_->post([events = events_, session, why = std::string(error.what())] {
            events->broken(session, why);
        });
    }
}

void ControllerLink::send(AgentMessage const& message) {
    if (connection_ != nullptr) connection_->say(message);
}

void ControllerLink::close() {
    if (connection_ == nullptr) return;
    connection_->close();
    connection_.reset();
}

void ControllerLink::cancel(CallNumber number) {
    if (connection_ != nullptr) connection_->cancel(number);
}

void ControllerLink::call(CallNumber number, UnaryRequest const& request, Milliseconds limit) {
    auto const ended = [inbox = inbox_, events = events_, number](CallOutcome outcome) {
        inbox->post([events, number, outcome = std::move(outcome)] {
            events->call_ended(number, outcome);
        });
    };
    if (connection_ == nullptr) {
        return ended(
            failed(CallOutcome::Kind::Repeat, ErrorCode::Timeout, "no controller is connected"));
    }
    // Heartbeats go the same way.
    if (connection_->queued() > kMostQueued) {
        return ended(failed(CallOutcome::Kind::Repeat, ErrorCode::Timeout,
                            "too much is on its way to the controller"));
    }
    CallRequest call;
    call.set_number(number);
    std::visit([&](auto const& message) { put(call, message); }, request);
    connection_->call(call, limit, [ended](Outcome const& how, CallAnswer const& answer) {
        ended(outcome_of(how, answer));
    });
}

}  // namespace mgi::control
