// The segments on their way from one lane to one destination: credits, flights, arrival in sequence.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "mover/lane_end.hpp"

namespace mgi::mover {

// A template over the atomics policy, as all that runs the protocols is.
template <class A>
class Route {
public:
    using State = device::ChannelState<A>;
    // A token names a route, or a flow, and the lowest bits of one of its sequences.
    static constexpr int kSequenceBits = 40;
    static constexpr std::uint64_t kSequenceMask = (std::uint64_t{1} << kSequenceBits) - 1;

    // `first`: the sequence that the next segment of this (source, destination) has.
    Route(State& state, std::uint32_t source, std::uint32_t lane, std::uint32_t destination,
          std::uint64_t first)
        : state_(state),
          source_(source),
          destination_(destination),
          lane_(state, source, lane),
          sent_(first),
          arrived_(first),
          finished_(lane_.delivered()) {}
    virtual ~Route() = default;
    Route(Route const&) = delete;
    Route& operator=(Route const&) = delete;

    // Whether the destination has a free segment for this source.
    [[nodiscard]] virtual bool has_credit() const = 0;
    // Sends the lane's segment `sequence` on its way there; a credit is there. False: no room now.
    virtual bool start(std::uint64_t sequence) = 0;
    // The transport's copy with this token, which a route has asked for, is complete.
    virtual void complete_copy([[maybe_unused]] std::uint64_t token) {}
    // Takes in what has arrived, in sequence, and gives the source's segments back. Returns how many.
    std::uint32_t finish();
    // Tells the destination how many segments this source has sent it.
    virtual void announce_end() = 0;
    // Segments at the destination that its consumers have not taken.
    [[nodiscard]] virtual std::uint64_t backlog() const = 0;

    [[nodiscard]] std::uint64_t in_flight() const { return flights_.size(); }
    // Sequence of the lane that finished last, plus 1 (Partition and Broadcast: each passes here).
    [[nodiscard]] std::uint64_t finished() const { return finished_; }
    // The oldest sequence of the lane that is on its way, if any.
    [[nodiscard]] std::optional<std::uint64_t> oldest() const {
        if (flights_.empty()) return std::nullopt;
        return flights_.front().sequence;
    }

protected:
    // Marks what is complete since the last time.
    virtual void look() {}
    // The oldest flight, of this content, is complete, and all before it have arrived.
    virtual void arrive([[maybe_unused]] std::uint64_t content) {}

    void departed(std::uint64_t sequence) {
        MGI_ASSERT(flights_.empty() || flights_.back().sequence < sequence, sequence, source_,
                   destination_);
        flights_.push_back({sequence, false});
        ++sent_;
    }
    // What of a segment of the lane is for this destination: nothing, if the rows are for another one.
    [[nodiscard]] std::uint64_t content(std::uint64_t sequence) const {
        return device::Content::at(lane_.content(sequence), destination_);
    }
    // The lowest bits of a sequence of this (source, destination).
    void complete(std::uint64_t sequence) {
        std::uint64_t const flight = (sequence - arrived_) & kSequenceMask;
        MGI_ASSERT(flight < flights_.size() && !flights_[flight].complete, sequence & kSequenceMask,
                   arrived_, flights_.size(), source_, destination_);
        flights_[flight].complete = true;
    }

    State& state_;
    std::uint32_t const source_;
    std::uint32_t const destination_;
    LaneEnd<A> lane_;
    std::uint64_t sent_;     // sequences of this (source, destination) that were started
    std::uint64_t arrived_;  // and that have arrived

private:
    struct Flight {
        std::uint64_t sequence = 0;  // of the lane
        bool complete = false;
    };
    std::uint64_t finished_;
    std::deque<Flight> flights_;
};

template <class A>
std::uint32_t Route<A>::finish() {
    look();
    MGI_ASSERT(sent_ - arrived_ == flights_.size(), sent_, arrived_, flights_.size());
    std::uint32_t count = 0;
    while (!flights_.empty() && flights_.front().complete) {
        std::uint64_t const sequence = flights_.front().sequence;
        arrive(content(sequence));
        lane_.give_back(sequence);
        MGI_ASSERT(finished_ <= sequence, finished_, sequence, source_, destination_);
        finished_ = sequence + 1;
        flights_.pop_front();
        ++arrived_;
        ++count;
    }
    return count;
}

}  // namespace mgi::mover
