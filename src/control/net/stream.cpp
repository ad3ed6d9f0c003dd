#include "control/net/stream.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <utility>

#include <mgi/error.hpp>

namespace mgi::control::net {

namespace {

using Why = Ending::Why;

constexpr std::size_t kLowWater = 64 << 10;
constexpr std::size_t kAtOnce = std::size_t{1} << 20;  // for one connection, then others
constexpr std::size_t kRecord = 16 << 10;              // of TLS
constexpr std::size_t kStrangerRead = 8 << 10;
constexpr std::size_t kStrangerWire = 256 << 10;  // of TLS' handshake with certificates
constexpr std::size_t kMostDrained = std::size_t{1} << 20;
constexpr std::size_t kJoined = 16 << 10;  // smaller messages travel together
constexpr std::size_t kPieces = 16;
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
    loop_->set_due(*this, Loop::Clock::now() + limits_.prove_within);
    guarded([this] { stand(); });
}

void Stream::connect(std::vector<SocketAddress> addresses, Loop::Time until) {
    std::reverse(addresses.begin(), addresses.end());
    addresses_ = std::move(addresses);
    connect_until_ = until;
    late_ = "no connection came to stand in time";
    guarded([this] { connect_next(0); });
}

void Stream::connect_next(int last_error) {
    while (!addresses_.empty()) {
        SocketAddress const address = addresses_.back();
        addresses_.pop_back();
        peer_ = address.text();
        Fd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        if (!fd) {
            last_error = errno;
            continue;
        }
        set_up(fd.get());
        if (::connect(fd.get(), address.get(), address.size) != 0 && errno != EINPROGRESS) {
            last_error = errno;
            continue;
        }
        loop_->forget(*this);
        fd_ = std::move(fd);
        events_ = EPOLLOUT;
        loop_->watch(shared_from_this(), fd_.get(), events_);
        loop_->set_due(*this, connect_until_);
        return;
    }
    throw Failure{{Why::Unreachable, with_errno("connect", last_error)}};
}

template <class Step>
void Stream::guarded(Step&& step) {
    if (state_ == State::Over) return;
    try {
        step();
    } catch (Failure const& failure) {
        last_word();
        end(failure.ending);
    } catch (std::exception const& error) {
        end({Why::Violation, error.what()});
    }
}

/// TLS may say why it fails.
void Stream::last_word() {
    if (!tls_ || !fd_ || state_ == State::Connecting) return;
    try {
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
        if (state_ == State::Connecting) {
            int error = 0;
            socklen_t size = sizeof error;
            getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
            if (error != 0) return connect_next(error);
            events_ = EPOLLIN;
            loop_->change(*this, events_);
            return stand();
        }
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
        if (state_ == State::Draining || peer_ended_) return end({Why::Closed, ""});
        if (state_ == State::Handshake) {
            throw Failure{{Why::PeerClosed, "the connection was closed during the TLS handshake"}};
        }
        return peer_ended();
    }
    std::string_view const bytes(space.data(), static_cast<std::size_t>(got));
    wire_bytes_ += bytes.size();
    if (state_ == State::Draining || silent()) {
        drained_ += bytes.size();
        if (drained_ > kMostDrained) end({Why::Closed, ""});
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

void Stream::send(std::string bytes) {
    if (bytes.empty()) return;
    {
        std::lock_guard const lock(mutex_);
        if (over_ || closing_ || aborted_ || full_) return;
        queued_ += bytes.size();
        sent_ever_ += bytes.size();
        if (queued_ > limits_.most_queued) {
            full_ = true;
        } else if (!out_.empty() && out_.back().size() + bytes.size() <= kJoined) {
            out_.back() += bytes;
        } else {
            out_.push_back(std::move(bytes));
        }
    }
    poke();
}

void Stream::close() {
    {
        std::lock_guard const lock(mutex_);
        if (std::exchange(closing_, true)) return;
    }
    poke();
}

void Stream::abort(std::string why) {
    {
        std::lock_guard const lock(mutex_);
        if (std::exchange(aborted_, true)) return;
        abort_why_ = std::move(why);
    }
    poke();
}

void Stream::wake() {
    poke();
}

void Stream::poke() {
    loop_->poke(shared_from_this());
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
    loop_->set_due(*this, Loop::Clock::now() + from_now);
}

void Stream::clear_deadline() {
    if (!lingers_ && proven_) loop_->set_due(*this, Loop::kNever);
}

void Stream::due() {
    if (lingers_) return end({Why::Closed, ""});
    end({Why::Late, late_});
}

void Stream::poked() {
    guarded([this] {
        bool full = false;
        bool aborted = false;
        {
            std::lock_guard const lock(mutex_);
            full = full_;
            aborted = aborted_;
        }
        if (aborted) throw Failure{{Why::Violation, abort_why_}};
        if (full) {
            throw Failure{
                {Why::Full, "it does not read: " + std::to_string(queued_) + " bytes wait for it"}};
        }
        if (state_ == State::Open) return flush();
        if (state_ != State::Draining && silent()) end({Why::Closed, ""});
    });
}

void Stream::refill() {
    if (!sending_.empty()) return;
    std::lock_guard const lock(mutex_);
    sending_.swap(out_);
}

void Stream::flush() {
    std::size_t budget = kAtOnce;
    while (state_ == State::Open) {
        if (!write_some(budget)) break;
        if (queued_ > kLowWater || silent()) break;
        std::uint64_t before = 0;
        std::uint64_t after = 0;
        {
            std::lock_guard const lock(mutex_);
            before = sent_ever_;
        }
        protocol_->on_drained();
        {
            std::lock_guard const lock(mutex_);
            after = sent_ever_;
        }
        if (after == before) break;
    }
    if (state_ == State::Handshake || state_ == State::Draining) write_wire();
    if (state_ == State::Open) finish();
    listen_for();
}

/// False when the socket takes no more now.
bool Stream::write_some(std::size_t& budget) {
    for (;;) {
        if (!write_wire()) return false;
        refill();
        if (sending_.empty()) return true;
        if (budget == 0) {
            poke();  // others first
            return false;
        }
        if (tls_) {
            budget -= std::min(budget, encrypt_some());
        } else if (!write_plain(budget)) {
            return false;
        }
    }
}

/// What TLS made; true once all of it has gone.
bool Stream::write_wire() {
    if (tls_) tls_->out(wire_);
    while (wire_sent_ < wire_.size()) {
        ssize_t const went = ::send(fd_.get(), wire_.data() + wire_sent_, wire_.size() - wire_sent_,
                                    MSG_NOSIGNAL | MSG_DONTWAIT);
        if (went < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN) return false;
            wire_.clear();
            wire_sent_ = 0;
            throw Failure{{Why::PeerClosed, with_errno("the connection broke", errno)}};
        }
        wire_sent_ += static_cast<std::size_t>(went);
        this->went(0);
    }
    wire_.clear();
    wire_sent_ = 0;
    return true;
}

std::size_t Stream::encrypt_some() {
    std::size_t made = 0;
    while (!sending_.empty() && made < 4 * kRecord) {
        std::string const& first = sending_.front();
        std::size_t const piece = std::min(first.size() - sent_, kRecord);
        tls_->write(std::string_view(first).substr(sent_, piece));
        made += piece;
        went(piece);
    }
    return made;
}

bool Stream::write_plain(std::size_t& budget) {
    std::array<iovec, kPieces> pieces{};
    std::size_t count = 0;
    std::size_t skipped = sent_;
    for (auto at = sending_.begin(); at != sending_.end() && count < kPieces; ++at) {
        pieces[count++] = {at->data() + skipped, at->size() - skipped};
        skipped = 0;
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    ssize_t const sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
        if (errno == EINTR) return true;
        if (errno == EAGAIN) return false;
        throw Failure{{Why::PeerClosed, with_errno("the connection broke", errno)}};
    }
    budget -= std::min(budget, static_cast<std::size_t>(sent));
    went(static_cast<std::size_t>(sent));
    return true;
}

/// So much of what waited is the kernel's, or TLS', now.
void Stream::went(std::size_t bytes) {
    queued_ -= bytes;
    sent_ += bytes;
    while (!sending_.empty() && sent_ >= sending_.front().size()) {
        sent_ -= sending_.front().size();
        sending_.pop_front();
    }
    if (lingers_) loop_->set_due(*this, Loop::Clock::now() + limits_.linger);
}

/// After close(): once all has gone, the peer is told, and its own end awaited. Closing at once would
/// have the kernel throw away what the peer has not read yet.
void Stream::finish() {
    {
        std::lock_guard const lock(mutex_);
        if (!closing_) return;
    }
    if (!std::exchange(lingers_, true)) {
        loop_->set_due(*this, Loop::Clock::now() + limits_.linger);
    }
    if (queued_ > 0) return;
    if (tls_ && !std::exchange(finished_, true)) tls_->finish();
    if (!write_wire()) return;
    if (peer_ended_) return end({Why::Closed, ""});
    shutdown(fd_.get(), SHUT_WR);
    state_ = State::Draining;
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
