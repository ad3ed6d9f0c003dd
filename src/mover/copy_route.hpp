// A route between endpoints of one server: a transport copies segments into the receive ring.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "mover/receive_ring.hpp"
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
        : Route<A>(state, source, lane, destination,
                   first_sequence(state.destinations[destination].rings[source])),
          transport_(transport),
          index_(index) {}

    // The copy with this token is complete.
    void complete_copy(std::uint64_t token) { this->complete(token); }

    [[nodiscard]] bool has_credit() const override {
        auto& ring = this->ring();
        // acquire: the consumer is done with the segment that we are going to overwrite.
        return ring.slots[sent_ % ring.size].sequence.load(device::acquire) == sent_;
    }
    bool start(std::uint64_t sequence) override;
    void announce_end() override {
        state_.destinations[destination_].counts[source_].store(arrived_ + 1, device::relaxed);
    }
    [[nodiscard]] std::uint64_t backlog() const override {
        auto const& queue = *state_.destinations[destination_].queue;
        std::uint64_t const taken = queue.taken();  // ahead of what is pushed, which only grows
        return queue.pushed() - taken;
    }

private:
    using Route<A>::kSequenceBits;
    using Route<A>::kSequenceMask;
    using Route<A>::state_;
    using Route<A>::source_;
    using Route<A>::destination_;
    using Route<A>::sent_;
    using Route<A>::arrived_;

    void arrive(device::Slot<A>& from) override;
    [[nodiscard]] device::ReadRing<A>& ring() const {
        return state_.destinations[destination_].rings[source_];
    }
    static std::uint64_t first_sequence(device::ReadRing<A> const& ring) {
        std::uint64_t first = UINT64_MAX;
        for (std::uint32_t i = 0; i < ring.size; ++i) {
            first = std::min<std::uint64_t>(first, ring.slots[i].sequence.load(device::relaxed));
        }
        return first;
    }

    transport::Transport& transport_;
    std::uint64_t const index_;
    std::vector<memory::Range> ranges_;
};

template <class A>
bool CopyRoute<A>::start(std::uint64_t sequence) {
    auto const& from = this->slot_of(sequence);
    auto const& to = ring().slots[sent_ % ring().size];
    std::uint64_t const content = from.content.load(device::relaxed);
    memory::used_ranges(state_.layout, std::uint32_t(content), std::uint32_t(content >> 32),
                        ranges_);
    std::uint64_t const token = index_ << kSequenceBits | (sent_ & kSequenceMask);
    if (!transport_.submit({token, state_.pool + from.offset, state_.pool + to.offset, ranges_})) {
        return false;
    }
    this->departed(sequence);
    return true;
}

template <class A>
void CopyRoute<A>::arrive(device::Slot<A>& from) {
    push_segment(state_, source_, destination_, arrived_, from.content.load(device::relaxed));
}

}  // namespace mgi::mover
