#include "control/rpc/client_side.hpp"

#include <fmt/format.h>

#include <future>
#include <vector>

namespace mgi::control {

namespace {

/// The first bytes of a TLS alert.
bool is_alert(std::string_view bytes) {
    return bytes.starts_with("\x15\x03");
}

}  // namespace

Outcome outcome(Outcome::Code code, std::string text) {
    Outcome made;
    made.set_code(code);
    made.set_text(std::move(text));
    return made;
}

ClientSide::ClientSide(std::string address, std::shared_ptr<Security const> security, Events events)
    : address_(std::move(address)), security_(std::move(security)), events_(std::move(events)) {}

std::shared_ptr<ClientSide> ClientSide::open(net::Client& client, std::string const& address,
                                             std::shared_ptr<Security const> const& security,
                                             Events events) {
    auto const side = std::make_shared<ClientSide>(address, security, std::move(events));
    ClientFrame hello;
    hello.mutable_hello()->set_transport(kTransport);
    if (security->sends_token()) hello.mutable_hello()->set_token(security->token());
    side->connection_ =
        client.connect(address, security->client_tls(), security->options().tls_name, side);
    side->connection_->send(frame_with(hello));  // the first word: nobody else has it yet
    return side;
}

void ClientSide::on_open(std::shared_ptr<net::Connection> connection) {
    open_ = std::move(connection);
    if (security_->asks_for_user()) {
        // Somebody else's program may have taken a dead controller's port.
        net::OtherEnd const end = open_->other_end();
        distrust_ = wrong_user(end);
        if (!distrust_.empty()) {
            distrust_ += "; give both the same --token-file, or --insecure to trust it";
        }
        // One that is closed may be the controller's, which asks for TLS: that is all it may say.
        if (!distrust_.empty() && !end.closed) return open_->abort(distrust_);
    }
    open_->set_deadline(kHelloLimit, "it has not answered a hello");
}

void ClientSide::say(AgentMessage const& message) {
    ClientFrame frame;
    *frame.mutable_session() = message;
    if (frame.ByteSizeLong() > kLargestRequest) {
        return connection_->abort(
            fmt::format("a message of {} bytes, where {} are the most that a controller takes",
                        frame.ByteSizeLong(), kLargestRequest));
    }
    connection_->send(frame_with(frame));
}

void ClientSide::call(CallRequest const& request, std::chrono::milliseconds limit,
                      Done const& done) {
    ClientFrame frame;
    *frame.mutable_call() = request;
    std::size_t const size = frame.ByteSizeLong();
    if (size > kLargestRequest) {
        return done(outcome(Outcome::RESOURCE_EXHAUSTED,
                            fmt::format("a request of {} bytes, where {} are the most", size,
                                        kLargestRequest)),
                    {});
    }
    std::string const bytes = frame_with(frame);
    bool first = false;
    std::optional<Outcome> over;
    {
        std::lock_guard const lock(mutex_);
        if (closing_) {
            over = outcome(Outcome::CANCELLED, "the connection was closed");
        } else if (over_) {
            over = over_;
        } else {
            Time const until = std::chrono::steady_clock::now() + limit;
            deadlines_.emplace(until, request.number());
            first = deadlines_.begin()->second == request.number();
            calls_.insert_or_assign(request.number(), Waiting{done, until});
        }
    }
    if (over) return done(*over, {});
    connection_->send(bytes);
    if (first) connection_->wake();
}

std::optional<ClientSide::Waiting> ClientSide::taken(std::uint64_t number) {
    std::lock_guard const lock(mutex_);
    auto const found = calls_.find(number);
    if (found == calls_.end()) return std::nullopt;
    Waiting waiting = std::move(found->second);
    calls_.erase(found);
    deadlines_.erase({waiting.until, number});
    return waiting;
}

void ClientSide::cancel(std::uint64_t number) {
    auto const waiting = taken(number);
    if (!waiting) return;
    ClientFrame frame;
    frame.mutable_cancel()->set_number(number);
    connection_->send(frame_with(frame));
    waiting->done(outcome(Outcome::CANCELLED, "the caller gave up"), {});
}

void ClientSide::close() {
    {
        std::lock_guard const lock(mutex_);
        closing_ = true;
    }
    end_calls(outcome(Outcome::CANCELLED, "the connection was closed"));
    connection_->close();
}

void ClientSide::end_calls(Outcome const& why) {
    std::map<std::uint64_t, Waiting> calls;
    {
        std::lock_guard const lock(mutex_);
        calls.swap(calls_);
        deadlines_.clear();
    }
    for (auto const& [number, waiting] : calls) waiting.done(why, {});
}

void ClientSide::on_bytes(std::string_view bytes) {
    if (!greeted_ && !security_->guarded() && is_alert(bytes)) {
        seen_ = net::Ending{net::Ending::Why::NotTls, "it speaks TLS"};
        return open_->abort("");
    }
    if (!distrust_.empty()) return open_->abort(distrust_);
    frames_.add(bytes);
    while (auto const bytes_of_frame = frames_.next()) {
        ServerFrame frame;
        parse_frame(*bytes_of_frame, frame);
        take(frame);
    }
}

void ClientSide::take(ServerFrame const& frame) {
    switch (frame.frame_case()) {
        case ServerFrame::kWelcome:
            greeted_ = true;
            open_->clear_deadline();
            frames_.limit(kLargestAnswer);
            return;
        case ServerFrame::kRejected: rejected_ = frame.rejected(); return open_->close();
        case ServerFrame::kSession:
            if (greeted_ && events_.said) return events_.said(frame.session());
            break;
        case ServerFrame::kAnswer:
            if (!greeted_) break;
            if (auto const waiting = taken(frame.answer().number())) {
                waiting->done(frame.answer().outcome(), frame.answer());
            }
            return;
        case ServerFrame::FRAME_NOT_SET: break;
    }
    open_->abort("a frame that has no place here; is it a controller of another version?");
}

void ClientSide::on_end() {
    if (!seen_) {
        seen_ = net::Ending{net::Ending::Why::PeerClosed, greeted_ ? "" : "before a welcome"};
    }
    open_->close();
}

void ClientSide::set_alarm(net::Connection& connection) {
    std::lock_guard const lock(mutex_);
    if (!deadlines_.empty()) connection.set_alarm(deadlines_.begin()->first);
}

void ClientSide::on_wake(net::Connection& connection) {
    set_alarm(connection);
}

void ClientSide::on_alarm(net::Connection& connection) {
    auto const now = std::chrono::steady_clock::now();
    for (;;) {
        std::uint64_t number = 0;
        {
            std::lock_guard const lock(mutex_);
            if (deadlines_.empty() || deadlines_.begin()->first > now) break;
            number = deadlines_.begin()->second;
        }
        auto const late = taken(number);
        if (!late) continue;
        ClientFrame frame;
        frame.mutable_cancel()->set_number(number);
        connection.send(frame_with(frame));
        late->done(outcome(Outcome::DEADLINE_EXCEEDED,
                           fmt::format("controller {} did not answer in time", address_)),
                   {});
    }
    set_alarm(connection);
}

Outcome ClientSide::outcome_of(net::Ending const& ending) const {
    if (rejected_) {
        bool const other = rejected_->code() == Outcome::UNIMPLEMENTED;
        return outcome(
            rejected_->code(),
            fmt::format("controller {} {}: {}", address_,
                        other ? "is of another version" : "refuses us", rejected_->text()));
    }
    net::Ending const& said = seen_ ? *seen_ : ending;
    if (greeted_ && said.why == net::Ending::Why::PeerClosed) {
        return outcome(Outcome::UNAVAILABLE,
                       fmt::format("the controller at {} ended the connection{}{}", address_,
                                   said.text.empty() ? "" : ": ", said.text));
    }
    bool const refused = said.why == net::Ending::Why::NotTls ||
                         said.why == net::Ending::Why::Certificate ||
                         said.why == net::Ending::Why::Handshake;
    return outcome(refused ? Outcome::UNAUTHENTICATED : Outcome::UNAVAILABLE,
                   security_->explain(address_, said));
}

void ClientSide::on_close(net::Ending const& ending) {
    Outcome const why = outcome_of(ending);
    {
        std::lock_guard const lock(mutex_);
        over_ = why;
    }
    end_calls(why);
    if (events_.over) events_.over(why);
}

std::pair<Outcome, CallAnswer> call_once(std::string const& address,
                                         std::shared_ptr<Security const> const& security,
                                         CallRequest const& request,
                                         std::chrono::milliseconds limit) {
    std::promise<std::pair<Outcome, CallAnswer>> ended;
    {
        net::Client client;
        auto const side = ClientSide::open(client, address, security, {});
        side->call(request, limit, [&](Outcome const& how, CallAnswer const& answer) {
            ended.set_value({how, answer});
        });
        auto result = ended.get_future().get();
        side->close();
        return result;
    }
}

}  // namespace mgi::control
