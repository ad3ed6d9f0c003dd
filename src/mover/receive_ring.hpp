// What stands in a receive ring becomes its destination's to read.
#pragma once

#include <cstdint>

#include <mgi/device/state.hpp>

namespace mgi::mover {

// The segment with this sequence of (source, destination) is complete in its ring, and all before it were
// pushed: puts it into the receive queue. `content`: its rows and units of text, as in Slot.
template <class A>
void push_segment(device::ChannelState<A>& state, std::uint32_t source, std::uint32_t destination,
                  std::uint64_t sequence, std::uint64_t content) {
    auto& at = state.destinations[destination];
    auto const& ring = at.rings[source];
    std::uint32_t const index = std::uint32_t(sequence % ring.size);
    auto& to = ring.slots[index];
    std::uint32_t const chunks = state.chunks_of(std::uint32_t(content));
    to.content.store(content, device::relaxed);
    to.readers.store(chunks, device::relaxed);
    at.queue->push(device::ChannelState<A>::describe(source, index), chunks);
}

}  // namespace mgi::mover
