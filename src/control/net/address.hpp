/// \file
/// Addresses of sockets: "host:port", IPv6 in brackets, and what they mean to the system.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mgi::control::net {

struct HostPort {
    std::string host;  ///< without brackets
    std::uint16_t port = 0;
};

/// Splits "host:port" or "[::1]:port"; port 0 is one. Error(InvalidArgument) names `what`.
HostPort split_address(std::string_view what, std::string_view text);

struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t size = 0;

    [[nodiscard]] sockaddr const* get() const {
        return reinterpret_cast<sockaddr const*>(&storage);
    }
    [[nodiscard]] std::uint16_t port() const;
    void set_port(std::uint16_t port);
    /// "10.0.0.5:7070", "[::1]:7070".
    [[nodiscard]] std::string text() const;
    /// Whose it is, for limits on one peer: an IPv4 address, or the first half of an IPv6 address, for
    /// one network has all of the second half.
    [[nodiscard]] std::string origin() const;
};

/// A socket's own address.
SocketAddress local_address(int socket);

/// Whether the host is a number, which no name server is asked for.
bool is_numeric(std::string const& host);

/// The addresses of a host, in the system's order, to listen on or to connect to. Waits for name
/// servers. Error(NotFound) says what the system says.
std::vector<SocketAddress> resolve(HostPort const& where, bool to_listen);

}  // namespace mgi::control::net
