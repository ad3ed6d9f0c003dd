#include "control/rpc/server_side.hpp"

#include <fmt/format.h>

#include <utility>

#include <mgi/error.hpp>

namespace mgi::control {

namespace {

/// What queues of sessions leave room for is one message of the largest size, and its frame.
constexpr std::size_t kMostQueued = 2 * kLargestAnswer;

/// The first bytes of a TLS handshake.
bool is_tls(std::string_view bytes) {
    return bytes.starts_with("\x16\x03");
}

[[noreturn]] void refuse(char const* why) {
    throw Error(ErrorCode::InvalidArgument, why);
}

}  // namespace

void ServerSide::on_open(std::shared_ptr<net::Connection> connection) {
    connection_ = std::move(connection);
}

void ServerSide::on_bytes(std::string_view bytes) {
    if (!greeted_ && !frames_.has_part() && is_tls(bytes)) {
        // In the clear, which tells the other side's TLS what is wrong.
        return reject(Outcome::UNAUTHENTICATED,
                      "TLS, and this controller has neither certificates nor a token");
    }
    frames_.add(bytes);
    bool whole = false;
    while (auto const frame = rejected_ ? std::nullopt : frames_.next()) {
        take(*frame);
        whole = true;
    }
    // Strangers have the server's own deadline.
    if (!frames_.has_part()) {
        if (std::exchange(part_is_due_, false)) connection_->clear_deadline();
    } else if (whole || !part_is_due_) {
        part_is_due_ = true;
        connection_->set_deadline(kFrameLimit, "a frame began and did not end in time");
    }
}

void ServerSide::take(std::string_view bytes) {
    ClientFrame frame;
    parse_frame(bytes, frame);
    if (!greeted_) return greet(frame);
    switch (frame.frame_case()) {
        case ClientFrame::kSession: return said(*frame.mutable_session());
        case ClientFrame::kCall: return asked(frame.call());
        case ClientFrame::kCancel: return cancelled(frame.cancel().number());
        case ClientFrame::kHello: refuse("a second hello");
        case ClientFrame::FRAME_NOT_SET: break;
    }
    refuse("an empty frame, or one of another version");
}

void ServerSide::greet(ClientFrame const& frame) {
    if (!frame.has_hello()) refuse("its first frame is no hello");
    Hello const& hello = frame.hello();
    if (hello.transport() != kTransport) {
        return reject(Outcome::UNIMPLEMENTED,
                      fmt::format("version {} of the transport: this controller speaks {}; update "
                                  "the older side",
                                  hello.transport(), kTransport));
    }
    if (security_.sends_token()) {
        if (hello.token().empty()) {
            return reject(Outcome::UNAUTHENTICATED,
                          "the controller asks for a token and none came: use --token-file");
        }
        if (!security_.is_token(hello.token())) {
            return reject(Outcome::UNAUTHENTICATED,
                          "the token is not the controller's: give both the same --token-file");
        }
    }
    if (security_.asks_for_user()) {
        std::string const wrong = wrong_user(connection_->other_end());
        if (!wrong.empty()) {
            return reject(Outcome::UNAUTHENTICATED,
                          wrong +
                              "; give both the same --token-file, or start the controller "
                              "with --insecure for all users of its machine");
        }
    }
    greeted_ = true;
    frames_.limit(kLargestRequest);
    connection_->admit();
    ServerFrame welcome;
    welcome.mutable_welcome();
    connection_->send(frame_with(welcome));
}

void ServerSide::reject(Outcome::Code code, std::string const& why) {
    rejected_ = true;
    ServerFrame rejected;
    rejected.mutable_rejected()->set_code(code);
    rejected.mutable_rejected()->set_text(why);
    connection_->send(frame_with(rejected));
    connection_->refuse(why);
}

void ServerSide::on_close(net::Ending const&) {
    over();
}

net::ServerOptions server_options(std::string what) {
    net::ServerOptions options;
    options.what = std::move(what);
    options.prove_within = kHelloLimit;
    options.stranger_bytes = kLargestHello + kFrameHead;
    options.most_queued = kMostQueued;
    return options;
}

}  // namespace mgi::control
