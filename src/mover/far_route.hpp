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
#include "mover/route.hpp"

namespace mgi::mover {

// Where a far route sends to. All of it outlives the route.
template <class A>
struct BasicFarEnd {
    std::uint32_t channel = 0;
    link::Carrier* carrier = nullptr;
    BasicFarFlow<A>* flow = nullptr;
    std::uint64_t token = 0;  // the flow's number; comes back with each acknowledgement
    std::uint64_t nics = 0;   // the source's device's own, as Transfer::nics
};

template <class A>
class BasicFarRoute final : public Route<A> {
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

private:
    using Route<A>::state_;
    using Route<A>::source_;
    using Route<A>::destination_;
    using Route<A>::sent_;
    using Route<A>::arrived_;

    void look() override {
        while (looked_ < sent_ && end_.flow->is_acknowledged(looked_ & kSequenceMask)) {
            this->complete(looked_++);
        }
    }
    void arrive(std::uint64_t /*content*/) override {
        end_.flow->set_in_flight(this->in_flight() - 1);
    }

    BasicFarEnd<A> const end_;
    std::uint64_t looked_ = 0;  // all below are complete
    std::vector<memory::Range> ranges_;
};

template <class A>
bool BasicFarRoute<A>::start(std::uint64_t sequence) {
    std::uint64_t const content = this->lane_.content(sequence);
    memory::used_ranges(state_.layout, std::uint32_t(content), std::uint32_t(content >> 32),
                        ranges_);
    link::Transfer transfer;
    transfer.key = {end_.channel, source_, destination_, sent_};
    transfer.tag = content;
    transfer.pieces.reserve(ranges_.size());
    char* const segment = this->lane_.segment(sequence);
    for (memory::Range const& range : ranges_) {
        if (range.bytes != 0) transfer.pieces.push_back({segment + range.offset, range.bytes});
    }
    transfer.token = end_.token << kSequenceBits | (sent_ & kSequenceMask);
    transfer.nics = end_.nics;
    // Ahead of the link's answer, which another thread hears.
    end_.flow->set_in_flight(this->in_flight() + 1);
    end_.flow->set_sent(sent_ + 1);
    end_.carrier->start(std::move(transfer));
    this->departed(sequence);
    return true;
}

template <class A>
void BasicFarRoute<A>::announce_end() {
    end_.carrier->say(
        {end_.channel, std::uint32_t(ChannelWord::End), source_, destination_, arrived_ + 1, {}});
    end_.flow->set_ended();
}

// Those of production code.
using FarEnd = BasicFarEnd<device::LibcuAtomics>;
using FarRoute = BasicFarRoute<device::LibcuAtomics>;

}  // namespace mgi::mover
