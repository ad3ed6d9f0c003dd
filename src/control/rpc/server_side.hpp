/// \file
/// The server's side of a connection: it hears Hello, admits or rejects, and takes frames apart.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "control/net/protocol.hpp"
#include "control/net/server.hpp"
#include "control/proto/control.pb.h"
#include "control/rpc/frames.hpp"
#include "control/rpc/limits.hpp"
#include "control/rpc/security.hpp"

namespace mgi::control {

/// Frames that are too long, malformed or out of order end the connection, which net::Server logs.
class ServerSide : public net::Protocol {
public:
    /// `security` must outlive the server.
    explicit ServerSide(Security const& security) : security_(security) {}

    void on_open(std::shared_ptr<net::Connection> connection) final;
    void on_bytes(std::string_view bytes) final;
    void on_end() final { connection_->close(); }
    void on_close(net::Ending const& ending) final;

protected:
    // By the connection's thread, after the Hello was accepted.
    virtual void said(AgentMessage& message) = 0;
    virtual void asked(CallRequest const& call) = 0;
    virtual void cancelled(std::uint64_t call) = 0;
    /// Nothing follows.
    virtual void over() = 0;

    /// Not before on_open.
    [[nodiscard]] net::Connection& connection() const { return *connection_; }
    [[nodiscard]] Security const& security() const { return security_; }

private:
    void take(std::string_view bytes);
    void greet(ClientFrame const& frame);
    void reject(Outcome::Code code, std::string const& why);

    Security const& security_;
    std::shared_ptr<net::Connection> connection_;
    FrameBuffer frames_{kLargestHello};
    bool greeted_ = false;
    bool rejected_ = false;
    bool part_is_due_ = false;
};

/// The options of a server for this protocol; `what` is for its log.
net::ServerOptions server_options(std::string what);

}  // namespace mgi::control
