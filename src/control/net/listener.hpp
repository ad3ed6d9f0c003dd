/// \file
/// A socket that listens, and goes on listening whatever happens to it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "control/net/address.hpp"
#include "control/net/bounded_log.hpp"
#include "control/net/loop.hpp"

namespace mgi::control::net {

/// A non-blocking socket that listens on one address, which is its own alone. Error(Refused) says why it
/// cannot; `*error` is the system's number for it.
Fd listen_on(SocketAddress const& address, int* error = nullptr);

class Listener final : public Loop::Source, public std::enable_shared_from_this<Listener> {
public:
    struct Events {
        std::function<void(Fd, SocketAddress const&)> accepted;
        /// This process has no descriptor left: may something be closed?
        std::function<void()> crowded;
        std::function<void(std::string const& why)> failed;
    };

    Listener(std::shared_ptr<Loop> loop, std::string what, Fd socket,
             std::chrono::milliseconds reopen_within, Events events, BoundedLog& log);

    // For the loop's thread.
    void begin();
    void ready(std::uint32_t events) override;
    void due() override;
    void stopped() override;
    [[nodiscard]] bool waits_for_others() const override { return true; }

private:
    void accept_one_to_close();
    void broken(std::string const& why);
    void reopen();

    std::shared_ptr<Loop> const loop_;
    std::string const what_;
    Fd socket_;
    SocketAddress const address_;
    std::chrono::milliseconds const reopen_within_;
    Events const events_;
    BoundedLog& log_;
    Fd spare_;  ///< given up to accept, and close, a connection where there is no descriptor left
    Loop::Time broken_since_{};
    std::string why_;
};

}  // namespace mgi::control::net
