#include "control/net/listener.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/epoll.h>

#include <cerrno>
#include <utility>

#include <mgi/error.hpp>

#include "core/log.hpp"

namespace mgi::control::net {

namespace {

constexpr int kAcceptAtOnce = 16;  // then those are heard that came before
constexpr std::chrono::milliseconds kReopenEvery{200};
constexpr std::chrono::milliseconds kWithoutSpare{100};

Fd spare_descriptor() {
    return Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

/// Errors that concern one connection, or will pass, and not the listening socket.
bool passes(int error) {
    switch (error) {
        case EINTR:
        case ECONNABORTED:
        case ECONNRESET:
        case EPROTO:
        case EPERM:  // a firewall's
        case ENETDOWN:
        case ENOPROTOOPT:
        case EHOSTDOWN:
        case ENONET:
        case EHOSTUNREACH:
        case ENETUNREACH:
        case EOPNOTSUPP:
        case ETIMEDOUT: return true;
        default: return false;
    }
}

bool is_shortage(int error) {
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

Fd listen_on(SocketAddress const& address, int* error) {
    Fd made(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    auto const refuse = [&](char const* step) {
        if (error != nullptr) *error = errno;
        throw Error(ErrorCode::Refused, with_errno(address.text() + ": " + step, errno));
    };
    if (!made) refuse("socket");
    int const yes = 1;
    // Connections of an earlier life may linger; another socket that listens is still an error.
    setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (address.storage.ss_family == AF_INET6) {
        // "[::]" is for both kinds, as "0.0.0.0" is for one.
        auto const& six = reinterpret_cast<sockaddr_in6 const&>(address.storage).sin6_addr;
        int const only = IN6_IS_ADDR_UNSPECIFIED(&six) ? 0 : 1;
        setsockopt(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
    }
    if (bind(made.get(), address.get(), address.size) != 0) refuse("bind");
    if (listen(made.get(), SOMAXCONN) != 0) refuse("listen");
    return made;
}

Listener::Listener(std::shared_ptr<Loop> loop, std::string what, Fd socket,
                   std::chrono::milliseconds reopen_within, Events events, BoundedLog& log)
    : loop_(std::move(loop)),
      what_(std::move(what)),
      socket_(std::move(socket)),
      address_(local_address(socket_.get())),
      reopen_within_(reopen_within),
      events_(std::move(events)),
      log_(log),
      spare_(spare_descriptor()) {}

void Listener::begin() {
    loop_->watch(shared_from_this(), socket_.get(), EPOLLIN);
}

void Listener::ready(std::uint32_t) {
    for (int count = 0; count < kAcceptAtOnce; ++count) {
        SocketAddress peer;
        peer.size = sizeof peer.storage;
        Fd fd(accept4(socket_.get(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.size,
                      SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (fd) {
            try {
                events_.accepted(std::move(fd), peer);
            } catch (std::exception const& error) {
                log_.warn(fmt::format("{}: a connection from {} cannot be served: {}", what_,
                                      peer.text(), error.what()));
            }
            continue;
        }
        int const error = errno;
        if (error == EAGAIN) return;
        if (passes(error)) continue;
        if (is_shortage(error)) {
            log_.warn(fmt::format("{}: a connection is turned away: {}", what_,
                                  with_errno("accept", error)));
            events_.crowded();
            return accept_one_to_close();
        }
        return broken(with_errno("accept", error));
    }
}

/// The one that waits would wait for ever, and have the loop turn without a pause.
void Listener::accept_one_to_close() {
    spare_.reset();
    {
        Fd const away(accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    }
    spare_ = spare_descriptor();
    if (spare_) return;
    // Another thread was faster. A pause is all that is left.
    loop_->change(*this, 0);
    loop_->set_due(*this, Loop::Clock::now() + kWithoutSpare);
}

void Listener::broken(std::string const& why) {
    log::error("{}: listens no more on {}: {}; it is opened again", what_, address_.text(), why);
    loop_->forget(*this);
    socket_.reset();
    why_ = why;
    broken_since_ = Loop::Clock::now();
    reopen();
}

void Listener::due() {
    if (socket_) {
        if (!spare_) spare_ = spare_descriptor();
        loop_->change(*this, EPOLLIN);
    } else {
        reopen();
    }
}

void Listener::reopen() {
    try {
        loop_->forget(*this);
        socket_ = listen_on(address_);
        begin();
        log::warn("{}: listens on {} again", what_, address_.text());
        return;
    } catch (Error const& error) {
        why_ = error.what();
        socket_.reset();
    }
    auto const now = Loop::Clock::now();
    if (now - broken_since_ > reopen_within_) {
        return events_.failed(
            fmt::format("{}: {} cannot be listened on any more: {}", what_, address_.text(), why_));
    }
    loop_->wait(shared_from_this(), now + kReopenEvery);
}

void Listener::stopped() {
    socket_.reset();
    spare_.reset();
}

}  // namespace mgi::control::net
