// A route to an endpoint on another server: a link carries segments from the lane's memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "memory/segment_layout.hpp"
#include "mover/channel_words.hpp"
#include "mover/far_flow.hpp"
#include "mover/link/carrier.hpp"
#include "mover/placed_ring.hpp"
#include "mover/route.hpp"

namespace mgi::mover {

// Where a far route sends to. All of it outlives the route.
template <class A>
struct BasicFarEnd {
    std::uint32_t channel = 0;
    link::Carrier* carrier = nullptr;
    BasicFarFlow<A>* flow = nullptr;
    std::uint64_t token = 0;     // the flow's number; comes back with each acknowledgement
    std::uint64_t nics = 0;      // the source's device's own, as Transfer::nics
    bool by_host = true;         // as Transfer::by_host
    PlacedRing* ring = nullptr;  // of a flow whose segments this process puts in place itself
};

template <class A>
class BasicFarRoute : public Route<A> {
public:
    using typename Route<A>::State;
    using Route<A>::kSequenceBits;
    using Route<A>::kSequenceMask;

    BasicFarRoute(State& state, std::uint32_t source, std::uint32_t lane, std::uint32_t destination,
                  BasicFarEnd<A> const& end)
        : Route<A>(state, source, lane, destination, 0), end_(end) {}

    // A credit may be here ahead of an acknowledgement.
    [[nodiscard]] bool has_credit() const override {
        return sent_ < end_.flow->allowed() && this->in_flight() < end_.flow->window();
    }
    bool start(std::uint64_t sequence) override;
    void announce_end() override;
    [[nodiscard]] std::uint64_t backlog() const override {
        return arrived_ - std::min(arrived_, end_.flow->freed());
    }

protected:
    using Route<A>::state_;
    using Route<A>::source_;
    using Route<A>::destination_;
    using Route<A>::sent_;
    using Route<A>::arrived_;

    // The next sequence departs, with the lane's segment `of_lane`. Ahead of whatever may be answered, by another
    // thread.
    void depart(std::uint64_t of_lane) {
        MGI_ASSERT(this->in_flight() < end_.flow->window(), this->in_flight(), end_.flow->window(),
                   sent_, source_, destination_);
        end_.flow->set_in_flight(this->in_flight() + 1);
        end_.flow->set_sent(sent_ + 1);
        this->departed(of_lane);
    }
    // A transfer of a sequence without its bytes.
    [[nodiscard]] link::Transfer transfer_of(std::uint64_t sequence, std::uint64_t content) const {
        link::Transfer transfer;
        transfer.key = {end_.channel, source_, destination_, sequence};
        transfer.tag = content;
        transfer.token = end_.token << kSequenceBits | (sequence & kSequenceMask);
        transfer.nics = end_.nics;
        transfer.by_host = end_.by_host;
        return transfer;
    }

    BasicFarEnd<A> const end_;
    std::vector<memory::Range> ranges_;

private:
    void look() override {
        MGI_ASSERT(arrived_ <= looked_ && looked_ <= sent_, arrived_, looked_, sent_);
        while (looked_ < sent_ && end_.flow->is_acknowledged(looked_ & kSequenceMask)) {
            this->complete(looked_++);
        }
    }
    void arrive(std::uint64_t /*content*/) override {
        end_.flow->set_in_flight(this->in_flight() - 1);
    }

    std::uint64_t looked_ = 0;  // all below are complete
};

template <class A>
bool BasicFarRoute<A>::start(std::uint64_t sequence) {
    std::uint64_t const content = this->content(sequence);
    memory::used_ranges(state_.layout, device::Content::rows(content),
                        device::Content::units(content), ranges_);
    link::Transfer transfer = transfer_of(sent_, content);
    transfer.pieces.reserve(ranges_.size());
    char* const segment = this->lane_.segment(sequence);
    for (memory::Range const& range : ranges_) {
        if (range.bytes != 0) transfer.pieces.push_back({segment + range.offset, range.bytes});
    }
    depart(sequence);
    end_.carrier->start(std::move(transfer));
    return true;
}

template <class A>
void BasicFarRoute<A>::announce_end() {
    MGI_ASSERT(sent_ == arrived_, sent_, arrived_, source_, destination_);
    end_.carrier->say(
        {end_.channel, std::uint32_t(ChannelWord::End), source_, destination_, arrived_ + 1, {}});
    end_.flow->set_ended();
}

// Those of production code.
using FarEnd = BasicFarEnd<device::LibcuAtomics>;
using FarRoute = BasicFarRoute<device::LibcuAtomics>;

}  // namespace mgi::mover
