// A route between endpoints of one server: a transport copies segments into the receive ring. Of a broadcast a route may
// bring on, from GPU to GPU, what another one has brought: so the source's links do not carry all copies.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/segment_layout.hpp"
#include "mover/ring_end.hpp"
#include "mover/route.hpp"
#include "transport/transport.hpp"

namespace mgi::mover {

// Takes up where the tables stand.
template <class A>
class CopyRoute final : public Route<A> {
public:
    using typename Route<A>::State;
    // `index` names the route in the transport's tokens.
    CopyRoute(State& state, std::uint32_t source, std::uint32_t lane, std::uint32_t destination,
              transport::Transport& transport, std::uint64_t index)
        : CopyRoute(state, source, lane, destination, transport, index,
                    RingEnd<A>(state, source, destination)) {}

    void complete_copy(std::uint64_t token) override { this->complete(token); }

    // Of a broadcast, before anything was started: whether this route can bring on what `before`, if there is one, has
    // brought to its ring, or else what the source has, over links that have nothing else to do. Then it does.
    bool follow(CopyRoute* before);

    [[nodiscard]] bool has_credit() const override {
        if (!ring_.is_free(sent_)) return false;
        if (before_ != nullptr && before_->finished() <= next()) return false;
        // What the ring's segment had has been brought on from there.
        return behind_ == nullptr || next() < behind_->finished() + ring_.size();
    }
    bool start(std::uint64_t sequence) override;
    void announce_end() override { ring_.end(arrived_ + 1); }
    [[nodiscard]] std::uint64_t backlog() const override { return ring_.backlog(arrived_); }

private:
    using Route<A>::kSequenceBits;
    using Route<A>::kSequenceMask;
    using Route<A>::state_;
    using Route<A>::lane_;
    using Route<A>::sent_;
    using Route<A>::arrived_;
    using Route<A>::finished;

    CopyRoute(State& state, std::uint32_t source, std::uint32_t lane, std::uint32_t destination,
              transport::Transport& transport, std::uint64_t index, RingEnd<A> ring)
        : Route<A>(state, source, lane, destination, ring.first()),
          transport_(transport),
          index_(index),
          ring_(std::move(ring)) {}

    void arrive(std::uint64_t content) override { ring_.arrive(arrived_, content); }

    // Of a broadcast, each of whose routes brings each segment: the lane's sequence that is started next, and where one
    // lies that has arrived.
    [[nodiscard]] std::uint64_t next() const { return finished() + this->in_flight(); }
    [[nodiscard]] char const* arrived(std::uint64_t sequence) const {
        MGI_ASSERT(sequence < finished() && finished() <= sequence + ring_.size(), sequence,
                   finished(), ring_.size());
        return ring_.segment(arrived_ - (finished() - sequence));
    }

    transport::Transport& transport_;
    std::uint64_t const index_;
    RingEnd<A> ring_;
    std::vector<memory::Range> ranges_;
    CopyRoute const* before_ = nullptr;  // from whose ring it brings segments on
    CopyRoute const* behind_ = nullptr;  // that brings on from this one's
};

template <class A>
bool CopyRoute<A>::follow(CopyRoute* before) {
    char const* const from =
        before != nullptr ? before->ring_.segment(before->sent_) : lane_.segment(next());
    if (!ring_.keeps_segments() || !transport_.links(from, ring_.segment(sent_))) return false;
    if (before == nullptr) return true;
    before_ = before;
    before->behind_ = this;
    return true;
}

template <class A>
bool CopyRoute<A>::start(std::uint64_t sequence) {
    // Its credit is one segment of the ring.
    MGI_ASSERT(this->in_flight() < ring_.size(), this->in_flight(), ring_.size(), sequence);
    std::uint64_t const content = this->content(sequence);
    if (content == 0) {
        this->departed(sequence);
        this->complete(sent_ - 1);
        return true;
    }
    memory::used_ranges(state_.layout, device::Content::rows(content),
                        device::Content::units(content), ranges_);
    std::uint64_t const token = index_ << kSequenceBits | (sent_ & kSequenceMask);
    // What is for this destination alone was not brought to the ring before.
    bool const to_all = device::Content::address(lane_.content(sequence)) == 0;
    bool const brought = before_ != nullptr && to_all;
    char const* const from = brought ? before_->arrived(sequence) : lane_.segment(sequence);
    // Slots of other ways from GPU to GPU are for the mover of the first one.
    bool const straight = brought;
    if (!transport_.submit({token, from, ring_.segment(sent_), ranges_, straight})) {
        return false;
    }
    this->departed(sequence);
    return true;
}

}  // namespace mgi::mover
