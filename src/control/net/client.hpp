/// \file
/// Connections to servers, made and served by one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "control/net/protocol.hpp"
#include "control/net/tls.hpp"

namespace mgi::control::net {

class Loop;

struct ClientOptions {
    /// For the name server, TCP and TLS together.
    std::chrono::milliseconds connect_within{2000};
    std::size_t most_queued = std::size_t{256} << 20;
    std::chrono::milliseconds linger{500};
};

/// Thread-safe.
class Client {
public:
    explicit Client(ClientOptions options = {});
    /// No protocol's function is called any more after it. Connections are ended (Why::Stopped).
    ~Client();
    Client(Client const&) = delete;
    Client& operator=(Client const&) = delete;

    /// Connects to "host:port", to one of the host's addresses (Dial). Protocol::on_open follows, or on_close
    /// that says why not. `tls` is null for clear text; `tls_name` is the name in the server's
    /// certificate, empty: the host. What is sent before the connection stands waits.
    /// Error(InvalidArgument) for what is no address.
    std::shared_ptr<Connection> connect(std::string const& address,
                                        std::shared_ptr<Tls const> const& tls,
                                        std::string const& tls_name,
                                        std::shared_ptr<Protocol> protocol);

private:
    ClientOptions const options_;
    std::shared_ptr<Loop> const loop_;
};

}  // namespace mgi::control::net
