/// \file
/// Connecting to a host that has several addresses, some of which may be silent.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "control/net/address.hpp"
#include "control/net/loop.hpp"

namespace mgi::control::net {

/// Tries the addresses as RFC 8305 has it: IPv6 and IPv4 in turn, the next one as soon as one has failed or
/// has said nothing for 250 ms, while those before are waited for yet. The first that connects is taken
/// and the others are closed. Used by the loop's thread.
class Dial final : public Loop::Source, public std::enable_shared_from_this<Dial> {
public:
    static constexpr std::chrono::milliseconds kNextAfter{250};

    /// Called once: with a socket that does not block and stands, or with what the system says of the
    /// address that failed last, and that address. It may end the dial.
    using Done = std::function<void(int error, Fd fd, SocketAddress const& peer)>;

    Dial(std::shared_ptr<Loop> loop, std::vector<SocketAddress> const& addresses, Done done);

    /// May call `done` already.
    void begin() { next(); }
    /// Closes what is under way; `done` is called no more.
    void stop();

    void ready(std::uint32_t) override {}
    void due() override { next(); }

private:
    struct Attempt final : Loop::Source {
        Attempt(Dial& dial, Fd socket, SocketAddress const& to)
            : of(dial.weak_from_this()), fd(std::move(socket)), address(to) {}
        void ready(std::uint32_t) override {
            if (auto const dial = of.lock()) dial->answered(*this);
        }
        std::weak_ptr<Dial> const of;
        Fd fd;
        SocketAddress const address;
    };

    void next();
    bool attempt(SocketAddress const& address);
    void answered(Attempt& attempt);
    void failed(SocketAddress const& address, int error);

    std::shared_ptr<Loop> const loop_;
    Done const done_;
    std::deque<SocketAddress> left_;  ///< not tried yet
    std::vector<std::shared_ptr<Attempt>> attempts_;
    int error_ = EADDRNOTAVAIL;  ///< of the address that failed last
    SocketAddress failed_;       ///< that address
};

}  // namespace mgi::control::net
