#include "mover/route.hpp"

#include <cstring>

namespace mgi::mover {

using device::acquire;
using device::relaxed;

Route::Route(State& state, std::uint32_t source, std::uint32_t lane, std::uint32_t destination)
    : state_(state), source_(source), lane_(lane), destination_(destination) {}

device::ReadRing<device::LibcuAtomics>& Route::ring() const {
    return state_.destinations[destination_].rings[source_];
}

bool Route::has_credit() const {
    auto& ring = this->ring();
    // acquire: the consumer is done with the segment that we are going to overwrite.
    return ring.slots[sent_ % ring.size].sequence.load(acquire) == sent_;
}

bool Route::start(transport::Transport& transport, std::uint64_t index, std::uint64_t sequence) {
    auto& lane = state_.sources[source_].lanes[lane_];
    auto const& from = lane.slots[sequence & lane.mask];
    auto const& to = ring().slots[sent_ % ring().size];
    std::uint64_t const content = from.content.load(relaxed);
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

void Route::complete(std::uint64_t token) {
    std::uint64_t const mask = (std::uint64_t{1} << kSequenceBits) - 1;
    flights_[(token - arrived_) & mask].complete = true;
}

std::uint32_t Route::finish() {
    auto& lane = state_.sources[source_].lanes[lane_];
    std::uint32_t count = 0;
    while (!flights_.empty() && flights_.front().complete) {
        auto& from = lane.slots[flights_.front().sequence & lane.mask];
        std::uint32_t const index = std::uint32_t(arrived_ % ring().size);
        auto& to = ring().slots[index];
        std::uint64_t const content = from.content.load(relaxed);
        std::uint32_t const chunks = state_.chunks_of(std::uint32_t(content));
        to.content.store(content, relaxed);
        to.readers.store(chunks, relaxed);
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

void Route::announce_end() {
    state_.destinations[destination_].counts[source_].store(arrived_ + 1, device::release);
}

std::optional<std::uint64_t> Route::oldest() const {
    if (flights_.empty()) return std::nullopt;
    return flights_.front().sequence;
}

std::uint64_t Route::backlog() const {
    auto const& queue = *state_.destinations[destination_].queue;
    return queue.pushed() - queue.taken();
}

}  // namespace mgi::mover
