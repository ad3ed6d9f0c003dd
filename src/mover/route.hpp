// The segments on their way from one lane to one destination: credits, flights, arrival in sequence.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include <mgi/device/state.hpp>

#include "transport/transport.hpp"

namespace mgi::mover {

using State = device::ChannelState<device::LibcuAtomics>;

// The segments on their way from one lane to one destination.
class Route {
public:
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
    [[nodiscard]] device::ReadRing<device::LibcuAtomics>& ring() const;

    State& state_;
    std::uint32_t const source_;
    std::uint32_t const lane_;
    std::uint32_t const destination_;
    std::uint64_t sent_ = 0;     // sequences of this (source, destination) that were started
    std::uint64_t arrived_ = 0;  // and that were pushed
    std::uint64_t finished_ = 0;
    std::deque<Flight> flights_;
    std::vector<memory::Range> ranges_;
};

}  // namespace mgi::mover
