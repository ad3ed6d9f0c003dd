#include <memory>
#include <string>

#include <mgi/error.hpp>

#include "control/rpc/server_side.hpp"
#include "fuzz/targets.hpp"

namespace mgi::fuzz {

namespace {

using namespace control;

/// A connection that goes nowhere.
class Nowhere final : public net::Connection {
public:
    void send(std::string bytes) override { sent_ += bytes.size(); }
    void close() override { ended = true; }
    void refuse(std::string) override { ended = true; }
    void abort(std::string) override { ended = true; }
    void wake() override {}
    void admit() override { admitted = true; }
    void set_deadline(std::chrono::milliseconds, std::string) override {}
    void clear_deadline() override {}
    void set_alarm(std::chrono::steady_clock::time_point) override {}
    [[nodiscard]] std::size_t queued() const override { return sent_; }
    [[nodiscard]] std::string const& peer() const override { return peer_; }

    bool ended = false;
    bool admitted = false;

private:
    std::size_t sent_ = 0;
    std::string peer_ = "nowhere";
};

class Heard final : public ServerSide {
public:
    Heard(Security const& security, std::shared_ptr<Nowhere> connection)
        : ServerSide(security), connection_(std::move(connection)) {}

protected:
    void said(AgentMessage&) override { check(); }
    void asked(CallRequest const&) override { check(); }
    void cancelled(std::uint64_t) override { check(); }
    void over() override {}

private:
    void check() const {
        require(connection_->admitted, "nothing is heard of who was not admitted");
    }
    std::shared_ptr<Nowhere> const connection_;
};

}  // namespace

void control_frames(Input input) {
    static Security const open{SecurityOptions{}};
    auto const connection = std::make_shared<Nowhere>();
    Heard side(open, connection);
    side.on_open(connection);
    std::uint32_t const piece = 1 + input.below(64);
    if (input.one_in(2)) {  // behind a good hello
        ClientFrame hello;
        hello.mutable_hello()->set_transport(kTransport);
        side.on_bytes(frame_with(hello));
        require(connection->admitted, "a good hello is admitted");
    }
    std::string const bytes(input.all());
    try {
        for (std::size_t at = 0; at < bytes.size() && !connection->ended; at += piece) {
            side.on_bytes(std::string_view(bytes).substr(at, piece));
        }
    } catch (Error const& error) {
        require(error.code() == ErrorCode::InvalidArgument, "what is refused is an argument",
                error.what());
    }
    side.on_close({});
}

}  // namespace mgi::fuzz
