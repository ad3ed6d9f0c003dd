// A route between endpoints of one server: a transport copies segments into the receive ring.
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

    [[nodiscard]] bool has_credit() const override { return ring_.is_free(sent_); }
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

    CopyRoute(State& state, std::uint32_t source, std::uint32_t lane, std::uint32_t destination,
              transport::Transport& transport, std::uint64_t index, RingEnd<A> ring)
        : Route<A>(state, source, lane, destination, ring.first()),
          transport_(transport),
          index_(index),
          ring_(std::move(ring)) {}

    void arrive(std::uint64_t content) override { ring_.arrive(arrived_, content); }

    transport::Transport& transport_;
    std::uint64_t const index_;
    RingEnd<A> ring_;
    std::vector<memory::Range> ranges_;
};

template <class A>
bool CopyRoute<A>::start(std::uint64_t sequence) {
    // Its credit is one segment of the ring.
    MGI_ASSERT(this->in_flight() < ring_.size(), this->in_flight(), ring_.size(), sequence);
    std::uint64_t const content = lane_.content(sequence);
    memory::used_ranges(state_.layout, std::uint32_t(content), std::uint32_t(content >> 32),
                        ranges_);
    std::uint64_t const token = index_ << kSequenceBits | (sent_ & kSequenceMask);
    if (!transport_.submit({token, lane_.segment(sequence), ring_.segment(sent_), ranges_})) {
        return false;
    }
    this->departed(sequence);
    return true;
}

}  // namespace mgi::mover
