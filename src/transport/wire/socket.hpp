// TCP sockets that never wait, and the addresses they have.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace mgi::transport::wire {

// Owns a file descriptor.
class Descriptor {
public:
    Descriptor() = default;
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    Descriptor(Descriptor const&) = delete;
    Descriptor& operator=(Descriptor const&) = delete;
    ~Descriptor();

    [[nodiscard]] int get() const { return number_; }
    explicit operator bool() const { return number_ >= 0; }

private:
    int number_ = -1;
};

// An IPv4 or IPv6 address and a port, as numbers: nothing is looked up.
class Address {
public:
    Address() = default;  // of nothing
    // "10.0.0.1:7000", "[fe80::1]:7000"; port 0 is any. Throws Error(InvalidArgument).
    explicit Address(std::string_view text);
    Address(sockaddr_storage const& storage, socklen_t bytes) : storage_(storage), bytes_(bytes) {}

    [[nodiscard]] std::string text() const;
    [[nodiscard]] bool empty() const { return bytes_ == 0; }
    [[nodiscard]] int family() const { return storage_.ss_family; }
    [[nodiscard]] sockaddr const* get() const {
        return reinterpret_cast<sockaddr const*>(&storage_);
    }
    [[nodiscard]] socklen_t bytes() const { return bytes_; }
    // The same host with any port.
    [[nodiscard]] Address without_port() const;

private:
    sockaddr_storage storage_{};
    socklen_t bytes_ = 0;
};

// Nanoseconds since the other end's machine has said what of this connection it has, or has no room for;
// nothing where the system does not tell.
std::optional<std::uint64_t> since_answer(Descriptor const& socket);

// "what: what the system says".
std::string with_error(std::string const& what, int error);

// Begins a connection from a local address (its NIC's; empty: as the system likes) to a remote one.
// Throws Error(NotFound) where that cannot even begin.
Descriptor begin_connecting(Address const& local, Address const& remote);
// Whether it is connected; 0, or the system's error. Called once the socket can be written to.
int how_it_went(Descriptor const& socket);

// Throws Error(Refused) that says what the system says.
Descriptor listen_on(Address const& address);
Address address_of(Descriptor const& socket);

// The next connection, or nothing: `error` is then the system's, EAGAIN if there is just none.
Descriptor accept_from(Descriptor const& listener, Address& peer, int& error);

}  // namespace mgi::transport::wire
