// A route to an endpoint of another process whose memory this one can write: a transport copies segments into the
// receive ring there, and the link only says that they stand there.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "mover/far_route.hpp"
#include "transport/transport.hpp"

namespace mgi::mover {

template <class A>
class BasicPlacedRoute final : public BasicFarRoute<A> {
public:
    using typename Route<A>::State;
    using Route<A>::kSequenceBits;
    using Route<A>::kSequenceMask;

    // `end` has a ring; `index` names the route in the transport's tokens.
    BasicPlacedRoute(State& state, std::uint32_t source, std::uint32_t lane,
                     std::uint32_t destination, BasicFarEnd<A> const& end,
                     transport::Transport& transport, std::uint64_t index)
        : BasicFarRoute<A>(state, source, lane, destination, end),
          transport_(transport),
          index_(index),
          copies_(std::bit_ceil(end.flow->window())) {}

    bool start(std::uint64_t sequence) override;
    void complete_copy(std::uint64_t token) override;

private:
    using BasicFarRoute<A>::end_;
    using BasicFarRoute<A>::ranges_;
    using BasicFarRoute<A>::sent_;
    using BasicFarRoute<A>::state_;

    // By the lowest bits of a sequence under way, of which there are no more than a window.
    struct Copy {
        std::uint64_t sequence = 0;
        std::uint64_t content = 0;
    };
    [[nodiscard]] Copy& copy_of(std::uint64_t sequence) {
        return copies_[sequence & (copies_.size() - 1)];
    }

    transport::Transport& transport_;
    std::uint64_t const index_;
    std::vector<Copy> copies_;
};

template <class A>
bool BasicPlacedRoute<A>::start(std::uint64_t sequence) {
    std::uint64_t const content = this->content(sequence);
    if (content == 0) {
        this->depart(sequence);
        end_.carrier->start(this->transfer_of(sent_ - 1, content));
        return true;
    }
    memory::used_ranges(state_.layout, device::Content::rows(content),
                        device::Content::units(content), ranges_);
    std::uint64_t const token = index_ << kSequenceBits | (sent_ & kSequenceMask);
    char* const to = end_.ring->segment(sent_ % end_.flow->window());
    if (!transport_.submit({token, this->lane_.segment(sequence), to, ranges_})) return false;
    copy_of(sent_) = {sent_, content};
    this->depart(sequence);
    return true;
}

template <class A>
void BasicPlacedRoute<A>::complete_copy(std::uint64_t token) {
    Copy const& copy = copy_of(token);
    MGI_ASSERT((copy.sequence & kSequenceMask) == (token & kSequenceMask), copy.sequence,
               token & kSequenceMask, index_);
    end_.carrier->start(this->transfer_of(copy.sequence, copy.content));
}

// That of production code.
using PlacedRoute = BasicPlacedRoute<device::LibcuAtomics>;

}  // namespace mgi::mover
