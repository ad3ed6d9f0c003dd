// The receive ring of a (source, destination) as the mover sees it that fills it: by the destination's own
// words, or by what it tells and is told where those are a GPU's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <mgi/device/delivery.hpp>

namespace mgi::mover {

template <class A>
class RingEnd {
public:
    RingEnd(device::ChannelState<A> const& state, std::uint32_t source, std::uint32_t destination)
        : state_(state),
          source_(source),
          at_(state.destinations[destination]),
          arrivals_(at_.arrivals),
          ring_(at_.rings[source]) {
        MGI_ASSERT(ring_.size != 0 && !ring_.in_place, ring_.size, ring_.in_place, source,
                   destination);
        if (arrivals_ == nullptr) return;
        for (std::uint32_t i = 0; i < ring_.size; ++i) offsets_.push_back(ring_.slots[i].offset);
    }

    [[nodiscard]] std::uint32_t size() const { return ring_.size; }
    // Whether segments stay what and where they are until others are brought here. Consumers on CPUs may take them away.
    [[nodiscard]] bool keeps_segments() const { return arrivals_ != nullptr; }
    // The sequence that comes here next.
    [[nodiscard]] std::uint64_t first() const {
        std::uint64_t first = UINT64_MAX;
        for (std::uint32_t i = 0; i < ring_.size; ++i) {
            first = std::min<std::uint64_t>(first, free_for(i).load(device::relaxed));
        }
        return first;
    }
    // Whether the segment of a sequence is free.
    [[nodiscard]] bool is_free(std::uint64_t sequence) const {
        // acquire: the consumer is done with the segment that we are going to overwrite.
        return free_for(index_of(sequence)).load(device::acquire) == sequence;
    }
    [[nodiscard]] char* segment(std::uint64_t sequence) const {
        std::uint32_t const i = index_of(sequence);
        return at_.pool + (arrivals_ != nullptr ? offsets_[i] : ring_.slots[i].offset);
    }
    // The segment of a sequence is complete, and all before it have been said to be.
    void arrive(std::uint64_t sequence, std::uint64_t content) {
        std::uint32_t const i = index_of(sequence);
        if (arrivals_ == nullptr) return push_arrived(state_, at_, source_, i, content);
        arrivals_->push(source_, i, device::Content::rows(content));
    }
    // All have come, `count` - 1 of them.
    void end(std::uint64_t count) {
        MGI_ASSERT(count != 0, source_);
        if (arrivals_ == nullptr) return at_.counts[source_].store(count, device::relaxed);
        arrivals_->push_end(source_, count);
    }
    // Segments at the destination that its consumers have not taken; of those a GPU has, and of this source
    // alone, those that they have not given back. `arrived` sequences of the source have come.
    [[nodiscard]] std::uint64_t backlog(std::uint64_t arrived) const {
        if (arrivals_ == nullptr) {
            std::uint64_t const taken = at_.queue->taken();  // ahead of what is pushed, which grows
            return at_.queue->pushed() - taken;
        }
        std::uint64_t count = 0;
        for (std::uint32_t i = 0; i < ring_.size; ++i) {
            count += free_for(i).load(device::relaxed) < arrived ? 1 : 0;
        }
        return count;
    }

private:
    [[nodiscard]] std::uint32_t index_of(std::uint64_t sequence) const {
        return std::uint32_t(sequence % ring_.size);
    }
    // The sequence that a slot is free for, once it is.
    [[nodiscard]] auto const& free_for(std::uint32_t slot) const {
        return arrivals_ != nullptr ? ring_.freed[slot] : ring_.slots[slot].sequence;
    }

    device::ChannelState<A> const& state_;
    std::uint32_t const source_;
    device::Destination<A> at_;
    device::Arrivals<A>* const arrivals_;
    device::ReadRing<A> const ring_;
    std::vector<std::uint64_t> offsets_;  // by slot; a GPU's never change
};

}  // namespace mgi::mover
