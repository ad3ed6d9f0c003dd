// The segments on their way from one lane to one destination: credits, flights, arrival in sequence.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <vector>

#include <mgi/device/state.hpp>

#include "transport/transport.hpp"

namespace mgi::mover {

// Takes up where the tables stand. A template over the atomics policy, as all that runs the protocols
// is.
template <class A>
class Route {
public:
    using State = device::ChannelState<A>;
    Route(State& state, std::uint32_t source, std::uint32_t lane, std::uint32_t destination);

    // A transport's token names a route (by its index) and one of its sequences.
    static constexpr int kSequenceBits = 40;

    // Whether the destination has a free segment for this source.
    [[nodiscard]] bool has_credit() const;
    // Copies the lane's segment `sequence` into that segment. False when the transport is full.
    bool start(transport::Transport& transport, std::uint64_t index, std::uint64_t sequence);
    // The copy with this token is complete.
    void complete(std::uint64_t token);
    // Puts what is complete into the receive queue, in sequence, and gives the source's segments
    // back. Returns how many.
    std::uint32_t finish();
    // Tells the destination how many segments this source has sent it.
    void announce_end();

    [[nodiscard]] std::uint64_t in_flight() const { return flights_.size(); }
    // Sequence of the lane that finished last, plus 1 (Partition and Broadcast: each passes here).
    [[nodiscard]] std::uint64_t finished() const { return finished_; }
    // The oldest sequence of the lane that is on its way, if any.
    [[nodiscard]] std::optional<std::uint64_t> oldest() const;
    // Segments pushed to the destination that its consumers have not taken.
    [[nodiscard]] std::uint64_t backlog() const;

private:
    struct Flight {
        std::uint64_t sequence = 0;  // of the lane
        bool complete = false;
    };
    [[nodiscard]] device::ReadRing<A>& ring() const;
    static std::uint64_t first_sequence(device::ReadRing<A> const& ring);

    State& state_;
    std::uint32_t const source_;
    std::uint32_t const lane_;
    std::uint32_t const destination_;
    std::uint64_t sent_;     // sequences of this (source, destination) that were started
    std::uint64_t arrived_;  // and that were pushed
    std::uint64_t finished_;
    std::deque<Flight> flights_;
    std::vector<memory::Range> ranges_;
};

template <class A>
Route<A>::Route(State& state, std::uint32_t source, std::uint32_t lane, std::uint32_t destination)
    : state_(state),
      source_(source),
      lane_(lane),
      destination_(destination),
      sent_(first_sequence(ring())),
      arrived_(sent_),
      finished_(state.sources[source].lanes[lane].delivered.load(device::relaxed)) {}

template <class A>
std::uint64_t Route<A>::first_sequence(device::ReadRing<A> const& ring) {
    std::uint64_t first = UINT64_MAX;
    for (std::uint32_t i = 0; i < ring.size; ++i) {
        first = std::min<std::uint64_t>(first, ring.slots[i].sequence.load(device::relaxed));
    }
    return first;
}

template <class A>
device::ReadRing<A>& Route<A>::ring() const {
    return state_.destinations[destination_].rings[source_];
}

template <class A>
bool Route<A>::has_credit() const {
    auto& ring = this->ring();
    // acquire: the consumer is done with the segment that we are going to overwrite.
    return ring.slots[sent_ % ring.size].sequence.load(device::acquire) == sent_;
}

template <class A>
bool Route<A>::start(transport::Transport& transport, std::uint64_t index, std::uint64_t sequence) {
    auto& lane = state_.sources[source_].lanes[lane_];
    auto const& from = lane.slots[sequence & lane.mask];
    auto const& to = ring().slots[sent_ % ring().size];
    std::uint64_t const content = from.content.load(device::relaxed);
    memory::used_ranges(state_.layout, std::uint32_t(content), std::uint32_t(content >> 32),
                        ranges_);
    std::uint64_t const token =
        index << kSequenceBits | (sent_ & ((std::uint64_t{1} << kSequenceBits) - 1));
    if (!transport.submit({token, state_.pool + from.offset, state_.pool + to.offset, ranges_})) {
        return false;
    }
    flights_.push_back({sequence, false});
    ++sent_;
    return true;
}

template <class A>
void Route<A>::complete(std::uint64_t token) {
    std::uint64_t const mask = (std::uint64_t{1} << kSequenceBits) - 1;
    flights_[(token - arrived_) & mask].complete = true;
}

template <class A>
std::uint32_t Route<A>::finish() {
    auto& lane = state_.sources[source_].lanes[lane_];
    std::uint32_t count = 0;
    while (!flights_.empty() && flights_.front().complete) {
        auto& from = lane.slots[flights_.front().sequence & lane.mask];
        std::uint32_t const index = std::uint32_t(arrived_ % ring().size);
        auto& to = ring().slots[index];
        std::uint64_t const content = from.content.load(device::relaxed);
        std::uint32_t const chunks = state_.chunks_of(std::uint32_t(content));
        to.content.store(content, device::relaxed);
        to.readers.store(chunks, device::relaxed);
        state_.destinations[destination_].queue->push(State::describe(source_, index), chunks);
        device::release_reads(from, 1, lane.mask + 1, [&](auto& slot) {
            std::memset(state_.pool + slot.offset, 0, state_.layout.bit_bytes);
        });
        finished_ = flights_.front().sequence + 1;
        flights_.pop_front();
        ++arrived_;
        ++count;
    }
    return count;
}

template <class A>
void Route<A>::announce_end() {
    state_.destinations[destination_].counts[source_].store(arrived_ + 1, device::relaxed);
}

template <class A>
std::optional<std::uint64_t> Route<A>::oldest() const {
    if (flights_.empty()) return std::nullopt;
    return flights_.front().sequence;
}

template <class A>
std::uint64_t Route<A>::backlog() const {
    auto const& queue = *state_.destinations[destination_].queue;
    return queue.pushed() - queue.taken();
}

}  // namespace mgi::mover
