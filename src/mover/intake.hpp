// What comes from other servers for the destinations of a process: a link reads each segment straight
// into the receive ring, here it is put into the receive queue in its turn, and what consumers give back
// becomes credits. What breaks the protocol ends the link.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <mgi/device/state.hpp>

#include "memory/segment_layout.hpp"
#include "mover/channel_words.hpp"
#include "mover/link/carrier.hpp"
#include "mover/ring_end.hpp"

namespace mgi::mover {

// Flows that NICs carry from one GPU's memory to another's, and what makes visible to a destination what they have
// written there.
struct DirectFlows {
    std::set<std::pair<std::uint32_t, std::uint32_t>> flows;
    std::function<void(std::uint32_t destination)> settle;
};

// Throws Error(Internal): the other end has sent what nobody may send.
[[noreturn]] void refuse(link::Key const& key, std::string const& what);

// Of one link. `say_credits` and `done` are for a mover's thread, `target`, `arrived` and `end` for the
// link's.
template <class A>
class BasicIntake {
public:
    using State = device::ChannelState<A>;
    using SourceAndDestination = std::pair<std::uint32_t, std::uint32_t>;

    // `placed`: those of the flows whose segments the other end puts in place itself; they come without bytes.
    BasicIntake(State& state, std::uint32_t channel, std::vector<SourceAndDestination> const& flows,
                std::set<SourceAndDestination> const& placed = {}, DirectFlows direct = {});

    // As LinkOwner's. Throw Error(Internal) for what nobody may send.
    void target(link::Key const& key, std::uint64_t tag, std::uint64_t bytes,
                std::vector<iovec>& pieces);
    void arrived(link::Key const& key, std::uint64_t tag);
    // The source has sent `count` - 1 segments to the destination. Throws as they do.
    void end(SourceAndDestination const& flow, std::uint64_t count);

    // Says which segments are free again; true if any word was said.
    bool say_credits(link::Carrier& carrier);
    // All that will come is here.
    [[nodiscard]] bool done() const;

private:
    struct Flow {
        Flow(State const& state, SourceAndDestination const& name, bool is_placed)
            : ring(state, name.first, name.second),
              placed(is_placed),
              ahead(ring.size()),
              // The other end knows of the whole ring.
              free(ring.size()),
              said(ring.size()) {}

        RingEnd<A> ring;
        bool placed;
        // By place in the ring: came ahead of its turn, with this tag.
        std::vector<std::pair<bool, std::uint64_t>> ahead;
        std::uint64_t ended = 0;                             // as `end` was told
        typename A::template System<std::uint64_t> next{0};  // all below can be received
        typename A::template System<bool> over{false};       // and nothing follows
        std::uint64_t free;  // all below have, or had, a free segment
        std::uint64_t said;
    };
    [[nodiscard]] Flow& flow_of(SourceAndDestination const& name);

    State& state_;
    std::uint32_t const channel_;
    DirectFlows const direct_;
    std::map<SourceAndDestination, std::unique_ptr<Flow>> flows_;
    std::vector<memory::Range> ranges_;
};

template <class A>
BasicIntake<A>::BasicIntake(State& state, std::uint32_t channel,
                            std::vector<SourceAndDestination> const& flows,
                            std::set<SourceAndDestination> const& placed, DirectFlows direct)
    : state_(state), channel_(channel), direct_(std::move(direct)) {
    for (SourceAndDestination const& name : flows) {
        flows_.emplace(name, std::make_unique<Flow>(state, name, placed.contains(name)));
    }
}

template <class A>
typename BasicIntake<A>::Flow& BasicIntake<A>::flow_of(SourceAndDestination const& name) {
    auto const at = flows_.find(name);
    if (at == flows_.end()) refuse({channel_, name.first, name.second, 0}, "is not for this link");
    return *at->second;
}

template <class A>
void BasicIntake<A>::target(link::Key const& key, std::uint64_t tag, std::uint64_t bytes,
                            std::vector<iovec>& pieces) {
    Flow const& flow = flow_of({key.source, key.destination});
    if (!flow.ring.is_free(key.sequence)) refuse(key, "came without a credit");
    std::uint64_t const next = flow.next.load(device::relaxed);
    if (key.sequence < next || key.sequence - next >= flow.ring.size()) refuse(key, "came twice");
    if (flow.ended != 0 && key.sequence >= flow.ended - 1) refuse(key, "comes behind the end");
    auto const rows = std::uint32_t(tag);
    auto const units = std::uint32_t(tag >> 32);
    auto const& layout = state_.layout;
    // Of a broadcast the rows may be for another destination.
    bool const none = tag == 0 && state_.routing == device::RoutingKind::Broadcast;
    if (!none && (rows == 0 || rows > layout.rows || units > layout.units)) {
        refuse(key, "has " + std::to_string(rows) + " rows and " + std::to_string(units) +
                        " units of text, which no segment has");
    }
    ranges_.clear();
    if (!flow.placed) memory::used_ranges(layout, rows, units, ranges_);
    char* const segment = flow.ring.segment(key.sequence);
    std::uint64_t wanted = 0;
    for (memory::Range const& range : ranges_) {
        wanted += range.bytes;
        if (range.bytes != 0) {
            pieces.push_back({segment + range.offset, range.bytes});
        }
    }
    if (wanted != bytes) {
        refuse(key, "has " + std::to_string(bytes) + " bytes, and its rows need " +
                        std::to_string(wanted));
    }
}

template <class A>
void BasicIntake<A>::arrived(link::Key const& key, std::uint64_t tag) {
    Flow& flow = flow_of({key.source, key.destination});
    // Ahead of its publication, now or when its turn comes.
    if (direct_.flows.contains({key.source, key.destination})) direct_.settle(key.destination);
    std::uint64_t next = flow.next.load(device::relaxed);
    // The link has asked for its target, and each segment arrives once.
    MGI_ASSERT(key.sequence >= next && key.sequence - next < flow.ring.size() &&
                   !flow.ahead[key.sequence % flow.ring.size()].first,
               key.sequence, next, flow.ring.size(), key.source, key.destination);
    flow.ahead[key.sequence % flow.ring.size()] = {true, tag};
    while (true) {
        auto& [is_here, with] = flow.ahead[next % flow.ring.size()];
        if (!is_here) break;
        flow.ring.arrive(next, with);
        is_here = false;
        ++next;
    }
    flow.next.store(next, device::relaxed);
    if (flow.ended != 0 && next == flow.ended - 1) flow.over.store(true, device::relaxed);
}

template <class A>
void BasicIntake<A>::end(SourceAndDestination const& name, std::uint64_t count) {
    Flow& flow = flow_of(name);
    std::uint64_t const next = flow.next.load(device::relaxed);
    bool const known = flow.ended != 0;
    if (count == 0 || count - 1 < next || (known && flow.ended != count)) {
        refuse({channel_, name.first, name.second, next},
               "follows an end after " + std::to_string(count) + " - 1");
    }
    if (known) return;
    for (std::uint64_t ahead = next; ahead < next + flow.ring.size(); ++ahead) {
        if (ahead < count - 1 || !flow.ahead[ahead % flow.ring.size()].first) continue;
        refuse({channel_, name.first, name.second, ahead}, "has come from behind the end");
    }
    flow.ended = count;
    if (next == count - 1) flow.over.store(true, device::relaxed);
    flow.ring.end(count);
}

template <class A>
bool BasicIntake<A>::say_credits(link::Carrier& carrier) {
    bool any = false;
    for (auto& [name, flow] : flows_) {
        if (flow->over.load(device::relaxed)) continue;
        // acquire: what stood there is read. `target` asks again, who puts segments in place himself does not.
        while (flow->ring.is_free(flow->free)) ++flow->free;
        MGI_ASSERT(flow->said <= flow->free, flow->said, flow->free, name.first, name.second);
        if (flow->free == flow->said) continue;
        // Several at once, unless the other end may have none left.
        bool const starves = flow->next.load(device::relaxed) == flow->said;
        if (!starves && flow->free - flow->said < std::max(1U, flow->ring.size() / 4)) continue;
        flow->said = flow->free;
        carrier.say({channel_,
                     std::uint32_t(ChannelWord::Credit),
                     name.first,
                     name.second,
                     flow->said,
                     {}});
        any = true;
    }
    return any;
}

template <class A>
bool BasicIntake<A>::done() const {
    return std::all_of(flows_.begin(), flows_.end(),
                       [](auto const& entry) { return entry.second->over.load(device::relaxed); });
}

// The intake of production code.
using Intake = BasicIntake<device::LibcuAtomics>;

}  // namespace mgi::mover
