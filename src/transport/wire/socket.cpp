#include "transport/wire/socket.hpp"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>

#include <mgi/error.hpp>

namespace mgi::transport::wire {
namespace {

// As many connections of one moment as a large channel makes.
constexpr int kBacklog = 1024;

[[noreturn]] void refuse(std::string_view text) {
    throw Error(ErrorCode::InvalidArgument,
                "\"" + std::string(text) +
                    "\" is no address of a wire; \"10.0.0.1:7000\" and \"[fd00::1]:7000\" are");
}

void set(Descriptor const& socket, int level, int option) {
    int const one = 1;
    // What fails here costs speed and nothing else.
    (void)setsockopt(socket.get(), level, option, &one, sizeof(one));
}

void prepare(Descriptor const& socket) {
    set(socket, IPPROTO_TCP, TCP_NODELAY);
}

}  // namespace

Descriptor::~Descriptor() {
    if (number_ >= 0) ::close(number_);
}

std::optional<std::uint64_t> since_answer(Descriptor const& socket) {
    tcp_info info{};
    socklen_t bytes = sizeof(info);
    if (getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return std::nullopt;
    return std::uint64_t{info.tcpi_last_ack_recv} * 1'000'000;
}

std::string with_error(std::string const& what, int error) {
    return what + ": " + std::system_category().message(error);
}

Address::Address(std::string_view text) {
    std::size_t const colon = text.rfind(':');
    if (colon == std::string_view::npos) refuse(text);
    std::string_view const digits = text.substr(colon + 1);
    std::uint16_t port = 0;
    auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (error != std::errc() || end != digits.data() + digits.size()) refuse(text);
    std::string host(text.substr(0, colon));
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
        host = host.substr(1, host.size() - 2);
        sockaddr_in6 address{};
        address.sin6_family = AF_INET6;
        address.sin6_port = htons(port);
        if (std::size_t const percent = host.find('%'); percent != std::string::npos) {
            address.sin6_scope_id = if_nametoindex(host.c_str() + percent + 1);
            if (address.sin6_scope_id == 0) refuse(text);
            host.resize(percent);
        }
        if (inet_pton(AF_INET6, host.c_str(), &address.sin6_addr) != 1) refuse(text);
        std::memcpy(&storage_, &address, sizeof(address));
        bytes_ = sizeof(address);
    } else {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) refuse(text);
        std::memcpy(&storage_, &address, sizeof(address));
        bytes_ = sizeof(address);
    }
}

std::string Address::text() const {
    std::array<char, INET6_ADDRSTRLEN> host{};
    if (family() == AF_INET) {
        sockaddr_in address{};
        std::memcpy(&address, &storage_, sizeof(address));
        inet_ntop(AF_INET, &address.sin_addr, host.data(), host.size());
        return std::string(host.data()) + ":" + std::to_string(ntohs(address.sin_port));
    }
    if (family() != AF_INET6) return "nowhere";
    sockaddr_in6 address{};
    std::memcpy(&address, &storage_, sizeof(address));
    inet_ntop(AF_INET6, &address.sin6_addr, host.data(), host.size());
    std::string text = "[" + std::string(host.data());
    if (address.sin6_scope_id != 0) text += "%" + std::to_string(address.sin6_scope_id);
    return text + "]:" + std::to_string(ntohs(address.sin6_port));
}

Address Address::without_port() const {
    Address other = *this;
    if (family() == AF_INET) {
        sockaddr_in address{};
        std::memcpy(&address, &storage_, sizeof(address));
        address.sin_port = 0;
        std::memcpy(&other.storage_, &address, sizeof(address));
    } else if (family() == AF_INET6) {
        sockaddr_in6 address{};
        std::memcpy(&address, &storage_, sizeof(address));
        address.sin6_port = 0;
        std::memcpy(&other.storage_, &address, sizeof(address));
    }
    return other;
}

Descriptor begin_connecting(Address const& local, Address const& remote) {
    std::string const what = "a connection from " +
                             (local.empty() ? std::string("any address") : local.text()) + " to " +
                             remote.text();
    Descriptor socket(::socket(remote.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket) throw Error(ErrorCode::NotFound, with_error(what, errno));
    prepare(socket);
    if (!local.empty()) {
        // Else each connection of a NIC would hold a port for all remote addresses.
        set(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT);
        Address const any = local.without_port();
        if (bind(socket.get(), any.get(), any.bytes()) != 0) {
            throw Error(ErrorCode::NotFound, with_error(what, errno));
        }
    }
    if (connect(socket.get(), remote.get(), remote.bytes()) != 0 && errno != EINPROGRESS) {
        throw Error(ErrorCode::NotFound, with_error(what, errno));
    }
    return socket;
}

int how_it_went(Descriptor const& socket) {
    int error = 0;
    socklen_t bytes = sizeof(error);
    if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) return errno;
    return error;
}

Descriptor listen_on(Address const& address) {
    std::string const what = "cannot listen on " + address.text();
    Descriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket) throw Error(ErrorCode::Refused, with_error(what, errno));
    set(socket, SOL_SOCKET, SO_REUSEADDR);
    if (address.family() == AF_INET6) set(socket, IPPROTO_IPV6, IPV6_V6ONLY);
    if (bind(socket.get(), address.get(), address.bytes()) != 0 ||
        listen(socket.get(), kBacklog) != 0) {
        throw Error(ErrorCode::Refused, with_error(what, errno));
    }
    return socket;
}

Address address_of(Descriptor const& socket) {
    sockaddr_storage storage{};
    socklen_t bytes = sizeof(storage);
    if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&storage), &bytes) != 0) return {};
    return {storage, bytes};
}

Descriptor accept_from(Descriptor const& listener, Address& peer, int& error) {
    sockaddr_storage storage{};
    socklen_t bytes = sizeof(storage);
    Descriptor socket(accept4(listener.get(), reinterpret_cast<sockaddr*>(&storage), &bytes,
                              SOCK_NONBLOCK | SOCK_CLOEXEC));
    error = socket ? 0 : errno;
    if (!socket) return socket;
    prepare(socket);
    peer = {storage, bytes};
    return socket;
}

}  // namespace mgi::transport::wire
