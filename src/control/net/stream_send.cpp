// What a connection sends, and how it ends.
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "control/net/stream.hpp"

namespace mgi::control::net {

namespace {

using Why = Ending::Why;

constexpr std::size_t kLowWater = 64 << 10;
constexpr std::size_t kAtOnce = std::size_t{1} << 20;  // for one connection, then others
constexpr std::size_t kRecord = 16 << 10;              // of TLS
constexpr std::size_t kJoined = 16 << 10;              // smaller messages travel together
constexpr std::size_t kPieces = 16;

}  // namespace

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

void Stream::refuse(std::string why) {
    {
        std::lock_guard const lock(mutex_);
        if (std::exchange(closing_, true)) return;
        refusal_ = std::move(why);
    }
    poke();
}

Ending Stream::closed() const {
    std::lock_guard const lock(mutex_);
    return {refusal_.empty() ? Why::Closed : Why::Refused, refusal_};
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
    {
        std::lock_guard const lock(mutex_);
        if (over_ || std::exchange(woken_, true)) return;
    }
    poke();
}

void Stream::poke() {
    loop_->poke(shared_from_this());
}

void Stream::refill() {
    if (!sending_.empty()) return;
    std::lock_guard const lock(mutex_);
    sending_.swap(out_);
}

void Stream::flush() {
    {
        std::lock_guard const lock(mutex_);
        if (aborted_) throw Failure{{Why::Violation, abort_why_}};
    }
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
    if (lingers_) set_due(Loop::Clock::now() + limits_.linger);
}

/// After close(): once all has gone, the peer is told, and its own end awaited. Closing at once would
/// have the kernel throw away what the peer has not read yet.
void Stream::finish() {
    {
        std::lock_guard const lock(mutex_);
        if (!closing_) return;
    }
    if (!std::exchange(lingers_, true)) {
        set_due(Loop::Clock::now() + limits_.linger);
    }
    if (queued_ > 0) return;
    if (tls_ && !std::exchange(finished_, true)) tls_->finish();
    if (!write_wire()) return;
    if (peer_ended_) return end(closed());
    shutdown(fd_.get(), SHUT_WR);
    state_ = State::Draining;
}

}  // namespace mgi::control::net
