#include "control/net/address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>

#include <mgi/error.hpp>

namespace mgi::control::net {

HostPort split_address(std::string_view what, std::string_view text) {
    std::size_t const colon = text.rfind(':');
    HostPort where;
    int port = -1;
    if (colon != std::string_view::npos) {
        char const* const end = text.data() + text.size();
        auto const [rest, problem] = std::from_chars(text.data() + colon + 1, end, port);
        if (problem != std::errc() || rest != end) port = -1;
        where.host = text.substr(0, colon);
    }
    bool const brackets = where.host.starts_with('[') && where.host.ends_with(']');
    if (brackets) where.host = where.host.substr(1, where.host.size() - 2);
    // Without brackets nobody knows which colon is before the port.
    bool const bare_six = !brackets && where.host.find(':') != std::string::npos;
    if (port < 0 || port > 65'535 || where.host.empty() || bare_six) {
        throw Error(ErrorCode::InvalidArgument,
                    fmt::format("{} {}: not host:port with a port up to 65535 (an IPv6 address "
                                "stands in brackets)",
                                what, text.empty() ? "(empty)" : text));
    }
    where.port = static_cast<std::uint16_t>(port);
    return where;
}

std::uint16_t SocketAddress::port() const {
    if (storage.ss_family == AF_INET6) {
        return ntohs(reinterpret_cast<sockaddr_in6 const&>(storage).sin6_port);
    }
    return ntohs(reinterpret_cast<sockaddr_in const&>(storage).sin_port);
}

void SocketAddress::set_port(std::uint16_t port) {
    if (storage.ss_family == AF_INET6) {
        reinterpret_cast<sockaddr_in6&>(storage).sin6_port = htons(port);
    } else {
        reinterpret_cast<sockaddr_in&>(storage).sin_port = htons(port);
    }
}

namespace {

/// An IPv4 address that came through a socket for both kinds is one.
bool is_mapped(in6_addr const& address) {
    return IN6_IS_ADDR_V4MAPPED(&address);
}

std::string number_of(SocketAddress const& address) {
    char text[INET6_ADDRSTRLEN] = "?";
    if (address.storage.ss_family == AF_INET6) {
        auto const& six = reinterpret_cast<sockaddr_in6 const&>(address.storage).sin6_addr;
        if (is_mapped(six)) {
            inet_ntop(AF_INET, six.s6_addr + 12, text, sizeof text);
        } else {
            inet_ntop(AF_INET6, &six, text, sizeof text);
        }
    } else {
        inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in const&>(address.storage).sin_addr, text,
                  sizeof text);
    }
    return text;
}

}  // namespace

std::string SocketAddress::text() const {
    std::string const number = number_of(*this);
    bool const six = number.find(':') != std::string::npos;
    return fmt::format("{}{}{}:{}", six ? "[" : "", number, six ? "]" : "", port());
}

std::string SocketAddress::origin() const {
    if (storage.ss_family != AF_INET6) return number_of(*this);
    auto const& six = reinterpret_cast<sockaddr_in6 const&>(storage).sin6_addr;
    if (is_mapped(six)) return number_of(*this);
    return {reinterpret_cast<char const*>(six.s6_addr), 8};
}

SocketAddress local_address(int socket) {
    SocketAddress address;
    address.size = sizeof address.storage;
    getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.size);
    return address;
}

bool is_numeric(std::string const& host) {
    in6_addr unused{};
    return inet_pton(AF_INET, host.c_str(), &unused) == 1 ||
           inet_pton(AF_INET6, host.c_str(), &unused) == 1;
}

std::vector<SocketAddress> resolve(HostPort const& where, bool to_listen) {
    addrinfo wanted{};
    wanted.ai_family = AF_UNSPEC;
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0) |
                      (is_numeric(where.host) ? AI_NUMERICHOST : 0);
    addrinfo* found = nullptr;
    int const problem =
        getaddrinfo(where.host.c_str(), std::to_string(where.port).c_str(), &wanted, &found);
    if (problem != 0) {
        throw Error(ErrorCode::NotFound,
                    fmt::format("host {}: {}", where.host, gai_strerror(problem)));
    }
    std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> const owned(found, &freeaddrinfo);
    std::vector<SocketAddress> addresses;
    for (addrinfo const* one = found; one != nullptr; one = one->ai_next) {
        SocketAddress address;
        if (one->ai_addrlen > sizeof address.storage) continue;
        std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
        address.size = one->ai_addrlen;
        // A hosts file may name one twice.
        bool const known = std::any_of(addresses.begin(), addresses.end(), [&](auto const& other) {
            return other.text() == address.text();
        });
        if (!known) addresses.push_back(address);
    }
    return addresses;
}

}  // namespace mgi::control::net
