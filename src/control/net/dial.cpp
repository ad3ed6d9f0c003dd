#include "control/net/dial.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <utility>

namespace mgi::control::net {

namespace {

/// Where all of one family lead nowhere, the other one's turn comes soon.
std::deque<SocketAddress> families_in_turn(std::vector<SocketAddress> const& addresses) {
    std::deque<SocketAddress> firsts;
    std::deque<SocketAddress> others;
    for (SocketAddress const& address : addresses) {
        bool const first = address.storage.ss_family == addresses.front().storage.ss_family;
        (first ? firsts : others).push_back(address);
    }
    std::deque<SocketAddress> order;
    while (!firsts.empty() || !others.empty()) {
        for (auto* family : {&firsts, &others}) {
            if (family->empty()) continue;
            order.push_back(family->front());
            family->pop_front();
        }
    }
    return order;
}

}  // namespace

Dial::Dial(std::shared_ptr<Loop> loop, std::vector<SocketAddress> const& addresses, Done done)
    : loop_(std::move(loop)), done_(std::move(done)), left_(families_in_turn(addresses)) {
    attempts_.reserve(left_.size());
}

void Dial::next() {
    bool begun = false;
    while (!begun && !left_.empty()) {
        SocketAddress const address = left_.front();
        left_.pop_front();
        begun = attempt(address);
    }
    if (left_.empty()) {
        loop_->forget(*this);  // nothing is due any more
    } else {
        loop_->wait(shared_from_this(), Loop::Clock::now() + kNextAfter);
    }
    if (attempts_.empty()) done_(error_, {}, failed_);
}

bool Dial::attempt(SocketAddress const& address) {
    Fd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    bool const begun =
        fd && (::connect(fd.get(), address.get(), address.size) == 0 || errno == EINPROGRESS);
    if (!begun) {
        failed(address, errno);
        return false;
    }
    int const socket = fd.get();
    try {
        auto made = std::make_shared<Attempt>(*this, std::move(fd), address);
        loop_->watch(made, socket, EPOLLOUT);
        attempts_.push_back(std::move(made));  // has room
        return true;
    } catch (std::exception const&) {
        failed(address, ENOMEM);
        return false;
    }
}

void Dial::answered(Attempt& attempt) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(attempt.fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    loop_->forget(attempt);
    Fd fd = std::move(attempt.fd);
    SocketAddress const peer = attempt.address;
    std::erase_if(attempts_, [&](auto const& one) { return one.get() == &attempt; });
    if (error == 0) {
        stop();
        return done_(0, std::move(fd), peer);
    }
    failed(peer, error);
    next();
}

void Dial::failed(SocketAddress const& address, int error) {
    failed_ = address;
    error_ = error;
}

void Dial::stop() {
    loop_->forget(*this);
    for (auto const& attempt : attempts_) loop_->forget(*attempt);
    attempts_.clear();
    left_.clear();
}

}  // namespace mgi::control::net
