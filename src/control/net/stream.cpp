#include "control/net/stream.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <utility>

#include <mgi/error.hpp>

namespace mgi::control::net {

namespace {

using Why = Ending::Why;

constexpr std::size_t kStrangerRead = 8 << 10;
constexpr std::size_t kStrangerWire = 256 << 10;  // of TLS' handshake with certificates
constexpr std::size_t kMostDrained = std::size_t{1} << 20;
constexpr std::string_view kAlert("\x15\x03\x03\x00\x02\x02\x46", 7);  // TLS: protocol version
// A peer whose machine is gone is noticed after so long, also where nothing is being sent.
constexpr int kIdleSeconds = 10;
constexpr int kProbeSeconds = 3;
constexpr int kProbes = 3;
constexpr unsigned kUserTimeoutMs = 20'000;

void set(int fd, int level, int name, int value) {
    setsockopt(fd, level, name, &value, sizeof value);
}

void set_up(int fd) {
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
}

}  // namespace

Stream::Stream(std::shared_ptr<Loop> loop, std::shared_ptr<Protocol> protocol,
               std::unique_ptr<TlsStream> tls, StreamLimits limits, Owner* owner)
    : loop_(std::move(loop)),
      protocol_(std::move(protocol)),
      tls_(std::move(tls)),
      limits_(limits),
      owner_(owner) {}

void Stream::accepted(Fd fd, SocketAddress const& peer) {
    fd_ = std::move(fd);
    peer_ = peer.text();
    origin_ = peer.origin();
    proven_ = false;
    set_up(fd_.get());
    events_ = EPOLLIN;
    loop_->watch(shared_from_this(), fd_.get(), events_);
    late_ = "it has proven nothing within " + std::to_string(limits_.prove_within.count()) + " ms";
    set_due(Loop::Clock::now() + limits_.prove_within);
    guarded([this] { stand(); });
}

void Stream::await_address(Loop::Time until) {
    due_ = until;
    loop_->wait(shared_from_this(), until);
}

void Stream::connect(std::vector<SocketAddress> addresses, Loop::Time until) {
    guarded([&] {
        loop_->wait(shared_from_this(), until);
        due_ = until;
        arm();
        late_ = "no connection came to stand in time";
        auto const dial = std::make_shared<Dial>(
            loop_, std::move(addresses), [this](int error, Fd fd, SocketAddress const& peer) {
                guarded([&] { connected(error, std::move(fd), peer); });
            });
        dial_ = dial;
        dial->begin();
    });
}

void Stream::connected(int error, Fd fd, SocketAddress const& peer) {
    auto const self = shared_from_this();  // the loop's may be the last but this one
    dial_.reset();
    peer_ = peer.text();
    if (error != 0) throw Failure{{Why::Unreachable, with_errno("connect", error)}};
    loop_->forget(*this);
    fd_ = std::move(fd);
    set_up(fd_.get());
    events_ = EPOLLIN;
    loop_->watch(shared_from_this(), fd_.get(), events_);
    arm();
    stand();
}

template <class Step>
void Stream::guarded(Step&& step) {
    if (state_ == State::Over) return;
    try {
        step();
    } catch (Failure const& failure) {
        last_word(failure.ending);
        end(failure.ending);
    } catch (std::exception const& error) {
        end({Why::Violation, error.what()});
    }
}

/// TLS may say why it fails.
void Stream::last_word(Ending const& ending) {
    if (!tls_ || !fd_ || state_ == State::Connecting) return;
    try {
        // OpenSSL says nothing to who speaks no TLS, who would see an end without a reason.
        if (ending.why == Why::NotTls && !proven_) wire_ += kAlert;
        write_wire();
    } catch (Failure const&) {
        return;  // the other side is gone
    }
}

/// TCP stands.
void Stream::stand() {
    state_ = State::Handshake;
    if (tls_) {
        advance();
    } else {
        open();
    }
    flush();  // a client's word may have been waiting for this
}

void Stream::open() {
    state_ = State::Open;
    if (proven_) clear_deadline();  // of a client's connecting
    protocol_->on_open(shared_from_this());
    listen_for();
}

bool Stream::silent() const {
    std::lock_guard const lock(mutex_);
    return closing_ || aborted_ || full_;
}

void Stream::ready(std::uint32_t events) {
    guarded([&] {
        if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) receive();
        if (state_ != State::Over) flush();
    });
}

void Stream::receive() {
    auto& space = loop_->space();
    std::size_t const most = proven_ ? space.size() : std::min(space.size(), kStrangerRead);
    ssize_t const got = recv(fd_.get(), space.data(), most, 0);
    if (got < 0) {
        if (errno == EAGAIN || errno == EINTR) return;
        throw Failure{{Why::PeerClosed, with_errno("the connection broke", errno)}};
    }
    if (got == 0) {
        if (state_ == State::Draining || peer_ended_) return end(closed());
        if (state_ == State::Handshake) {
            throw Failure{{Why::PeerClosed, "the connection was closed during the TLS handshake"}};
        }
        return peer_ended();
    }
    std::string_view const bytes(space.data(), static_cast<std::size_t>(got));
    wire_bytes_ += bytes.size();
    if (state_ == State::Draining || silent()) {
        drained_ += bytes.size();
        if (drained_ > kMostDrained) end(closed());
        return;
    }
    if (!proven_ && wire_bytes_ > limits_.unproven_bytes + kStrangerWire) {
        throw Failure{{Why::Violation, "it sends and sends, and proves nothing"}};
    }
    if (tls_) {
        tls_->take(bytes);
        advance();
    } else {
        deliver(bytes);
    }
}

void Stream::advance() {
    if (state_ == State::Handshake) {
        if (!tls_->handshake()) return;
        open();
    }
    auto& plain = loop_->second_space();
    while (state_ == State::Open && !silent()) {
        std::size_t const got = tls_->read(plain.data(), proven_ ? plain.size() : kStrangerRead);
        if (got == 0) break;
        deliver({plain.data(), got});
    }
    if (state_ == State::Open && tls_->ended() && !peer_ended_) peer_ended();
}

/// A stranger's bytes go no further than its limit; what comes behind its proof is not a stranger's.
void Stream::deliver(std::string_view bytes) {
    while (!bytes.empty() && !silent()) {
        std::size_t piece = bytes.size();
        if (!proven_) piece = std::min(piece, limits_.unproven_bytes - stranger_bytes_);
        if (piece == 0) {
            throw Failure{{Why::Violation, "its first " + std::to_string(limits_.unproven_bytes) +
                                               " bytes prove nothing"}};
        }
        if (!proven_) stranger_bytes_ += piece;
        protocol_->on_bytes(bytes.substr(0, piece));
        bytes.remove_prefix(piece);
    }
}

void Stream::peer_ended() {
    peer_ended_ = true;
    listen_for();
    if (!silent()) protocol_->on_end();
}

OtherEnd Stream::other_end() const {
    return net::other_end(fd_.get());
}

std::vector<std::string> Stream::certificate_names() const {
    return tls_ ? tls_->peer_names() : std::vector<std::string>();
}

void Stream::admit() {
    if (proven_) return;
    proven_ = true;
    clear_deadline();
    if (owner_ != nullptr) owner_->admitted(*this);
}

void Stream::set_deadline(std::chrono::milliseconds from_now, std::string why) {
    if (lingers_ || !proven_) return;
    late_ = std::move(why);
    set_due(Loop::Clock::now() + from_now);
}

void Stream::clear_deadline() {
    if (!lingers_ && proven_) set_due(Loop::kNever);
}

void Stream::set_alarm(Loop::Time at) {
    alarm_ = at;
    arm();
}

void Stream::set_due(Loop::Time due) {
    due_ = due;
    arm();
}

void Stream::arm() {
    loop_->set_due(*this, std::min(due_, alarm_));
}

void Stream::due() {
    auto const now = Loop::Clock::now();
    if (due_ <= now) {
        if (lingers_) return end(closed());
        return end({Why::Late, late_});
    }
    guarded([&] {
        if (alarm_ <= now) {
            alarm_ = Loop::kNever;
            protocol_->on_alarm(*this);
        }
        flush();
        arm();
    });
}

void Stream::poked() {
    guarded([this] {
        bool full = false;
        bool aborted = false;
        bool woken = false;
        {
            std::lock_guard const lock(mutex_);
            full = full_;
            aborted = aborted_;
            woken = std::exchange(woken_, false);
        }
        if (aborted) throw Failure{{Why::Violation, abort_why_}};
        if (full) {
            throw Failure{
                {Why::Full, "it does not read: " + std::to_string(queued_) + " bytes wait for it"}};
        }
        if (woken) protocol_->on_wake(*this);
        if (state_ == State::Open) return flush();
        if (state_ != State::Draining && silent()) end(closed());
    });
}

/// Which events matter now.
void Stream::listen_for() {
    if (state_ == State::Over || state_ == State::Connecting) return;
    bool const waits = !wire_.empty() || !sending_.empty();
    std::uint32_t const events =
        (peer_ended_ ? 0u : std::uint32_t{EPOLLIN}) | (waits ? std::uint32_t{EPOLLOUT} : 0u);
    if (events == events_) return;
    events_ = events;
    loop_->change(*this, events_);
}

void Stream::end(Ending const& ending) {
    if (state_ == State::Over) return;
    auto const self = shared_from_this();  // the loop's may be the last but this one
    state_ = State::Over;
    if (dial_) dial_->stop();
    dial_.reset();
    loop_->forget(*this);
    fd_.reset();
    {
        std::lock_guard const lock(mutex_);
        over_ = true;
        out_.clear();
        queued_ = 0;
    }
    sending_.clear();
    wire_ = {};
    tls_.reset();
    if (owner_ != nullptr) owner_->over(*this, ending);
    auto const protocol = std::exchange(protocol_, nullptr);
    protocol->on_close(ending);
}

void Stream::stopped() {
    end({Why::Stopped, "this side stops"});
}

}  // namespace mgi::control::net
