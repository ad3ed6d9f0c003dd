/// \file
/// Listens and accepts, for any protocol, such that strangers lock nobody out: few of them at a time,
/// each for a few seconds, and the oldest makes room for the next.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "control/net/protocol.hpp"
#include "control/net/tls.hpp"

namespace mgi::control::net {

struct ServerOptions {
    std::string what = "server";  ///< for the log: "controller", "status page"
    /// Connections at a time; 0: what this process may open, without a reserve (most_connections).
    std::size_t most = 0;
    /// Those of them that have proven nothing yet (Connection::admit). At most half of `most`.
    std::size_t most_strangers = 64;
    std::size_t most_strangers_of_one_address = 16;
    /// From accept to admit(), with TLS, first byte and hello.
    std::chrono::milliseconds prove_within{5000};
    /// Bytes of the protocol, behind TLS, that a connection may send before admit().
    std::size_t stranger_bytes = 4096;
    /// Bytes that may wait to be sent on a connection; beyond it the peer does not read.
    std::size_t most_queued = std::size_t{256} << 20;
    /// How long a closed connection may take to read what was sent, from the last byte that it took.
    std::chrono::milliseconds linger{2000};
    /// How long the server's end waits for connections that were closed before it.
    std::chrono::milliseconds farewell{500};
    /// Called where the server cannot listen any more and opening its address again has failed for
    /// `reopen_within`. Left out: it logs why and ends the process, for its supervisor to start it again.
    std::function<void(std::string const& why)> failed;
    std::chrono::milliseconds reopen_within{5000};
};

struct ServerCounts {
    std::size_t connections = 0;
    std::size_t strangers = 0;      ///< of those
    std::uint64_t accepted = 0;     ///< ever
    std::uint64_t turned_away = 0;  ///< ever: refused, late, or made room for another one
};

/// One thread serves all connections. Thread-safe.
class Server {
public:
    using Factory = std::function<std::shared_ptr<Protocol>()>;

    /// Listens on each address of "host:port" when it returns; port 0 picks one. The port is this
    /// server's alone. `tls` is null for clear text. `make` is called for each connection, by the
    /// server's thread. Error(InvalidArgument) for what is no address, Error(Refused) where it cannot be
    /// listened on, with the reason.
    Server(std::string const& address, std::shared_ptr<Tls const> tls, Factory make,
           ServerOptions options = {});
    /// No protocol's function is called any more after it. Connections that were not closed are ended
    /// (Ending::Why::Stopped).
    ~Server();
    Server(Server const&) = delete;
    Server& operator=(Server const&) = delete;

    [[nodiscard]] std::uint16_t port() const;
    [[nodiscard]] ServerCounts counts() const;

private:
    class Core;
    std::unique_ptr<Core> core_;
};

}  // namespace mgi::control::net
