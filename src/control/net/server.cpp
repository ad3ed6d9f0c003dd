#include "control/net/server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <future>
#include <list>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <mgi/error.hpp>

#include "control/net/address.hpp"
#include "control/net/bounded_log.hpp"
#include "control/net/files.hpp"
#include "control/net/listener.hpp"
#include "control/net/loop.hpp"
#include "control/net/stream.hpp"
#include "core/log.hpp"

namespace mgi::control::net {

namespace {

using Why = Ending::Why;

constexpr int kPortTries = 16;

ServerOptions completed(ServerOptions options) {
    if (options.most == 0) options.most = most_connections();
    options.most_strangers =
        std::max<std::size_t>(1, std::min(options.most_strangers, options.most / 2));
    options.most_strangers_of_one_address = std::max<std::size_t>(
        1, std::min(options.most_strangers_of_one_address, options.most_strangers));
    return options;
}

/// Sockets that listen on all addresses of a host, with one port.
std::vector<Fd> listen_on_all(HostPort const& where) {
    std::vector<SocketAddress> addresses;
    try {
        addresses = resolve(where, true);
    } catch (Error const& error) {
        throw Error(ErrorCode::Refused, error.what());
    }
    for (int left = kPortTries;; --left) {
        std::vector<Fd> sockets;
        std::uint16_t port = where.port;
        std::string trouble;
        try {
            for (SocketAddress address : addresses) {
                address.set_port(port);
                int reason = 0;
                try {
                    sockets.push_back(listen_on(address, &reason));
                } catch (Error const& error) {
                    // A name may have an address of a kind that this machine does not speak.
                    bool const absent = reason == EADDRNOTAVAIL || reason == EAFNOSUPPORT;
                    if (!absent) throw;
                    trouble = error.what();
                    continue;
                }
                if (port == 0) port = local_address(sockets.back().get()).port();
            }
        } catch (Error const&) {
            // The port that was picked for the first address may be taken at the second.
            if (where.port == 0 && left > 0) continue;
            throw;
        }
        if (sockets.empty()) throw Error(ErrorCode::Refused, trouble);
        return sockets;
    }
}

[[noreturn]] void end_process(std::string const& why) {
    log::error("{}; the program ends, for its supervisor to start it again", why);
    std::_Exit(EXIT_FAILURE);
}

}  // namespace

class Server::Core final : public Stream::Owner {
public:
    Core(std::string const& address, std::shared_ptr<Tls const> tls, Factory make,
         ServerOptions options)
        : options_(completed(std::move(options))), tls_(std::move(tls)), make_(std::move(make)) {
        if (!options_.failed) options_.failed = end_process;
        std::vector<Fd> sockets = listen_on_all(split_address("address", address));
        port_ = local_address(sockets.front().get()).port();
        loop_ = Loop::make();
        for (Fd& socket : sockets) {
            auto const listener = std::make_shared<Listener>(
                loop_, options_.what, std::move(socket), options_.reopen_within,
                Listener::Events{
                    [this](Fd fd, SocketAddress const& peer) { accept(std::move(fd), peer); },
                    [this] { make_room(""); }, options_.failed},
                log_);
            listeners_.push_back(listener);
            loop_->post([listener] { listener->begin(); });
        }
    }

    ~Core() override {
        std::promise<void> quiet;
        std::future<void> const waited = quiet.get_future();
        loop_->post([&] {
            for (auto const& listener : listeners_) {
                loop_->forget(*listener);
                listener->stopped();
            }
            leaving_ = &quiet;
            see_who_is_left();
        });
        waited.wait_for(options_.farewell);
        loop_->stop();
    }

    [[nodiscard]] std::uint16_t port() const { return port_; }

    [[nodiscard]] ServerCounts counts() const {
        return {connections_count_, strangers_count_, accepted_, turned_away_};
    }

    void admitted(Stream& stream) override { forget_stranger(stream); }

    void over(Stream& stream, Ending const& ending) override {
        bool const stranger = forget_stranger(stream);
        connections_.erase(&stream);
        connections_count_ = connections_.size();
        say(stream, ending, stranger);
        see_who_is_left();
    }

private:
    void accept(Fd fd, SocketAddress const& peer) {
        ++accepted_;
        std::string const origin = peer.origin();
        std::size_t same = 0;
        std::size_t all = 0;
        for (Stream const* stranger : strangers_) {
            if (stranger->shows_token()) continue;
            ++all;
            same += stranger->origin() == origin ? 1 : 0;
        }
        if (same >= options_.most_strangers_of_one_address) {
            make_room(origin);
        } else if (all >= options_.most_strangers || connections_.size() >= options_.most) {
            make_room("");
        }
        if (connections_.size() >= options_.most) {
            ++turned_away_;
            log_.warn(
                fmt::format("{}: {} is turned away: {} connections are open, as many as may "
                            "be (ulimit -n)",
                            options_.what, peer.text(), connections_.size()));
            return;
        }
        StreamLimits limits;
        limits.most_queued = options_.most_queued;
        limits.unproven_bytes = options_.stranger_bytes;
        limits.prove_within = options_.prove_within;
        limits.linger = options_.linger;
        auto const stream = std::make_shared<Stream>(
            loop_, make_(), tls_ ? tls_->begin("") : nullptr, limits, this);
        connections_.insert(stream.get());
        strangers_.push_back(stream.get());
        count();
        try {
            stream->accepted(std::move(fd), peer);
        } catch (...) {  // epoll takes no more
            connections_.erase(stream.get());
            forget_stranger(*stream);
            throw;
        }
    }

    /// Ends the oldest stranger of the address given, or of the one that has the most. Who has shown the token stays while there
    /// are others: strangers may come faster than its handshake ends.
    void make_room(std::string const& origin) {
        std::vector<Stream*> candidates;
        for (bool const with_token : {false, true}) {
            for (Stream* stranger : strangers_) {
                bool const of_it = origin.empty() || stranger->origin() == origin;
                if (of_it && stranger->shows_token() == with_token) candidates.push_back(stranger);
            }
            if (!candidates.empty()) break;
        }
        if (candidates.empty()) return;
        std::unordered_map<std::string, std::size_t> count_of;
        std::string busiest = candidates.front()->origin();
        for (Stream const* stranger : candidates) {
            if (++count_of[stranger->origin()] > count_of[busiest]) busiest = stranger->origin();
        }
        // The oldest, whatever it has said: an honest one proves itself soon, and a byte is no proof.
        auto const chosen = std::ranges::find_if(
            candidates, [&](Stream const* stranger) { return stranger->origin() == busiest; });
        (*chosen)->end({Why::Evicted, "it had proven nothing when others came"});
    }

    bool forget_stranger(Stream& stream) {
        bool const was = strangers_.remove(&stream) > 0;
        count();
        return was;
    }

    void count() {
        connections_count_ = connections_.size();
        strangers_count_ = strangers_.size();
    }

    void say(Stream const& stream, Ending const& ending, bool stranger) {
        bool const of_note = ending.why != Why::Closed && ending.why != Why::Stopped &&
                             ending.why != Why::PeerClosed;
        if (of_note) ++turned_away_;
        if (of_note) {
            log_.warn(fmt::format("{}: {} {} is closed: {}", options_.what,
                                  stranger ? "a stranger's connection from" : "the connection of",
                                  stream.peer(), ending.text));
        } else if (!ending.text.empty()) {
            log::debug("{}: {}: {}", options_.what, stream.peer(), ending.text);
        }
    }

    void see_who_is_left() {
        if (leaving_ == nullptr || !connections_.empty()) return;
        std::exchange(leaving_, nullptr)->set_value();
    }

    ServerOptions options_;
    std::shared_ptr<Tls const> const tls_;
    Factory const make_;
    std::uint16_t port_ = 0;
    BoundedLog log_;
    // The loop's thread alone uses these.
    std::unordered_set<Stream*> connections_;
    std::list<Stream*> strangers_;  ///< the oldest first
    std::vector<std::shared_ptr<Listener>> listeners_;
    std::promise<void>* leaving_ = nullptr;
    // Copies for other threads.
    std::atomic<std::size_t> connections_count_{0};
    std::atomic<std::size_t> strangers_count_{0};
    std::atomic<std::uint64_t> accepted_{0};
    std::atomic<std::uint64_t> turned_away_{0};
    std::shared_ptr<Loop> loop_;
};

Server::Server(std::string const& address, std::shared_ptr<Tls const> tls, Factory make,
               ServerOptions options)
    : core_(std::make_unique<Core>(address, std::move(tls), std::move(make), std::move(options))) {}

Server::~Server() = default;

std::uint16_t Server::port() const {
    return core_->port();
}

ServerCounts Server::counts() const {
    return core_->counts();
}

}  // namespace mgi::control::net
