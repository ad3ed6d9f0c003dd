/// \file
/// A connection as its loop sees it: socket, TLS, deadlines, what waits to be sent.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "control/net/address.hpp"
#include "control/net/dial.hpp"
#include "control/net/loop.hpp"
#include "control/net/protocol.hpp"
#include "control/net/tls.hpp"

namespace mgi::control::net {

struct StreamLimits {
    /// Bytes that may wait to be sent; more: the other side does not read.
    std::size_t most_queued = std::size_t{256} << 20;
    /// Bytes of the protocol that a connection may send before admit().
    std::size_t unproven_bytes = 4096;
    /// From accept to admit(), TLS included.
    std::chrono::milliseconds prove_within{5000};
    /// How long close() waits for the other side to take what was sent, from the last byte it took.
    std::chrono::milliseconds linger{2000};
};

class Stream final : public Connection,
                     public Loop::Source,
                     public std::enable_shared_from_this<Stream> {
public:
    /// Who counts connections. Called by the loop's thread.
    class Owner {
    public:
        virtual ~Owner() = default;
        virtual void admitted(Stream& stream) = 0;
        /// Before Protocol::on_close.
        virtual void over(Stream& stream, Ending const& ending) = 0;
    };

    Stream(std::shared_ptr<Loop> loop, std::shared_ptr<Protocol> protocol,
           std::unique_ptr<TlsStream> tls, StreamLimits limits, Owner* owner);

    // For the loop's thread.

    /// An accepted connection, whose socket does not block. It has proven nothing.
    void accepted(Fd fd, SocketAddress const& peer);
    /// A client's whose host has no address yet.
    void await_address(Loop::Time until);
    /// Connects to one of these addresses (Dial); the server proves itself by TLS, if at all.
    void connect(std::vector<SocketAddress> addresses, Loop::Time until);
    void end(Ending const& ending);
    [[nodiscard]] bool proven() const { return proven_; }
    /// It has shown that it knows the token, and has yet to show that this is no replay.
    [[nodiscard]] bool shows_token() const { return tls_ && tls_->shows_token(); }
    [[nodiscard]] std::string const& origin() const { return origin_; }

    void send(std::string bytes) override;
    void close() override;
    void refuse(std::string why) override;
    void abort(std::string why) override;
    void wake() override;
    void admit() override;
    void set_deadline(std::chrono::milliseconds from_now, std::string why) override;
    void clear_deadline() override;
    void set_alarm(Loop::Time at) override;
    [[nodiscard]] std::size_t queued() const override { return queued_; }
    [[nodiscard]] std::string const& peer() const override { return peer_; }
    [[nodiscard]] OtherEnd other_end() const override;
    [[nodiscard]] std::vector<std::string> certificate_names() const override;

    void ready(std::uint32_t events) override;
    void due() override;
    void poked() override;
    void stopped() override;

private:
    enum class State : std::uint8_t { Connecting, Handshake, Open, Draining, Over };

    template <class Step>
    void guarded(Step&& step);
    void poke();
    void set_due(Loop::Time due);
    void arm();
    void last_word(Ending const& ending);
    void stand();
    void open();
    void connected(int error, Fd fd, SocketAddress const& peer);
    void receive();
    void advance();
    void deliver(std::string_view bytes);
    void peer_ended();
    void flush();
    bool write_some(std::size_t& budget);
    bool write_wire();
    bool write_plain(std::size_t& budget);
    std::size_t encrypt_some();
    void refill();
    void went(std::size_t bytes);
    void finish();
    void listen_for();
    [[nodiscard]] bool silent() const;
    [[nodiscard]] Ending closed() const;

    std::shared_ptr<Loop> const loop_;
    std::shared_ptr<Protocol> protocol_;
    std::unique_ptr<TlsStream> tls_;
    StreamLimits const limits_;
    Owner* const owner_;
    Fd fd_;
    std::string peer_;
    std::string origin_;
    std::shared_ptr<Dial> dial_;  ///< a client's, until it is connected
    State state_ = State::Connecting;
    bool proven_ = true;
    bool peer_ended_ = false;
    bool finished_ = false;  ///< TLS was told that this side sends no more
    bool lingers_ = false;   ///< close() was heard, and the deadline is its own
    std::uint32_t events_ = 0;
    std::size_t wire_bytes_ = 0;
    std::size_t stranger_bytes_ = 0;
    std::size_t drained_ = 0;
    Loop::Time due_ = Loop::kNever;  ///< the deadline
    Loop::Time alarm_ = Loop::kNever;
    std::string late_ = "a deadline passed";
    std::deque<std::string> sending_;  ///< the loop's share of what waits
    std::size_t sent_ = 0;             ///< of its first
    std::string wire_;                 ///< encrypted
    std::size_t wire_sent_ = 0;

    std::atomic<std::size_t> queued_{0};
    mutable std::mutex mutex_;
    std::deque<std::string> out_;
    std::uint64_t sent_ever_ = 0;
    bool woken_ = false;
    bool closing_ = false;
    std::string refusal_;
    bool full_ = false;
    bool aborted_ = false;
    std::string abort_why_;
    bool over_ = false;
};

}  // namespace mgi::control::net
