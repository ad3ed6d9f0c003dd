// A mover's loop over one channel (paper section 5.2): finds published segments of its device's
// sources, and sends each by its route when a credit allows: a copy puts it into the receive queue on
// this server, a link brings it to another one. What destinations read in place is none of its business.
// No I/O and no clock of its own, one `step` at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "mover/copy_route.hpp"
#include "mover/work.hpp"

namespace mgi::mover {

template <class A>
class BasicChannelMoves final : public Work {
public:
    using State = device::ChannelState<A>;
    // The route of a lane to a destination on another server; null for one on this server. Its own copies' tokens
    // begin with `index`.
    using FarRoutes = std::function<std::unique_ptr<Route<A>>(
        std::uint32_t source, std::uint32_t lane, std::uint32_t destination,
        transport::Transport& transport, std::uint64_t index)>;

    // Makes the moves that the lanes of the sources listed, given by their indices in the channel, need.
    BasicChannelMoves(State& state, std::vector<std::uint32_t> const& sources,
                      std::unique_ptr<transport::Transport> transport,
                      FarRoutes const& far_routes = {});

    // One round over all lanes; true if anything moved. Never blocks.
    bool step() override;
    // Every source has closed and every segment has arrived, or the channel has failed.
    [[nodiscard]] bool done() const override {
        return open_lanes_ == 0 || state_.failed.load(device::relaxed) != 0;
    }

private:
    struct LaneMoves {
        LaneEnd<A> end;
        std::vector<std::uint32_t> routes;   // indices into routes_
        std::uint64_t next = 0;              // Partition, Direct, Balance: sequence to start next
        std::vector<std::uint64_t> next_of;  // Broadcast: by route
        bool open = true;
    };
    bool start_one(LaneMoves& moves);
    bool start_broadcast(LaneMoves& moves, std::uint64_t until);
    bool finish(LaneMoves& moves);
    [[nodiscard]] std::uint64_t delivered_below(LaneMoves const& moves) const;
    void close(LaneMoves& moves);
    bool step_lanes();
    bool step_in_turn();
    [[nodiscard]] std::uint32_t pick(LaneMoves const& moves) const;

    State& state_;
    std::unique_ptr<transport::Transport> transport_;
    std::vector<std::unique_ptr<Route<A>>> routes_;  // by the transport's tokens
    std::vector<LaneMoves> lanes_;
    std::size_t open_lanes_ = 0;
    std::size_t turn_ = 0;  // ordered broadcast: the lane whose segment is on its way
    bool turn_taken_ = false;
    std::vector<std::uint64_t> complete_;
};

template <class A>
BasicChannelMoves<A>::BasicChannelMoves(State& state, std::vector<std::uint32_t> const& sources,
                                        std::unique_ptr<transport::Transport> transport,
                                        FarRoutes const& far_routes)
    : state_(state), transport_(std::move(transport)) {
    for (std::uint32_t const source : sources) {
        for (std::uint32_t l = 0; l < state.lane_count; ++l) {
            if (state.sources[source].lanes[l].moves == 0) continue;
            LaneMoves moves{.end = LaneEnd<A>(state, source, l), .routes = {}, .next_of = {}};
            moves.next = moves.end.delivered();
            auto const [first, last] = state.destinations_of(l);
            CopyRoute<A>* before = nullptr;  // of a broadcast
            for (std::uint32_t i = first; i < last; ++i) {
                // Sources begin with different destinations, or all would bring on along the same links.
                std::uint32_t const d =
                    state.routing == device::RoutingKind::Broadcast ? (source + 1 + i) % last : i;
                if (state.reads_in_place(source, d)) continue;
                moves.routes.push_back(std::uint32_t(routes_.size()));
                moves.next_of.push_back(moves.next);
                std::size_t const index = routes_.size();
                auto route = far_routes ? far_routes(source, l, d, *transport_, index) : nullptr;
                if (route == nullptr) {
                    auto copies =
                        std::make_unique<CopyRoute<A>>(state_, source, l, d, *transport_, index);
                    // In one order one segment is under way: then copies side by side are as soon.
                    bool const follows = state.routing == device::RoutingKind::Broadcast &&
                                         !state.one_order() && copies->follow(before);
                    if (follows) before = copies.get();
                    route = std::move(copies);
                }
                routes_.push_back(std::move(route));
            }
            lanes_.push_back(std::move(moves));
        }
    }
    open_lanes_ = lanes_.size();
}

template <class A>
bool BasicChannelMoves<A>::step() {
    if (state_.failed.load(device::relaxed) != 0) return false;
    complete_.clear();
    bool const moved = transport_->poll(complete_);
    for (std::uint64_t const token : complete_) {
        std::uint64_t const route = token >> Route<A>::kSequenceBits;
        MGI_ASSERT(route < routes_.size(), route, routes_.size());
        routes_[route]->complete_copy(token);
    }
    return (state_.one_order() ? step_in_turn() : step_lanes()) || moved;
}

template <class A>
bool BasicChannelMoves<A>::step_lanes() {
    bool moved = false;
    for (LaneMoves& moves : lanes_) {
        if (!moves.open) continue;
        if (state_.routing == device::RoutingKind::Broadcast) {
            moved |= start_broadcast(moves, moves.end.published());
        } else {
            moved |= start_one(moves);
        }
        moved |= finish(moves);
    }
    return moved;
}

// Starts the lane's next segment. Balance: to the destination that has the shortest queue.
template <class A>
bool BasicChannelMoves<A>::start_one(LaneMoves& moves) {
    std::uint64_t const published = moves.end.published();
    MGI_ASSERT(moves.next <= published, moves.next, published);
    if (published == moves.next) return false;
    std::uint32_t const route = pick(moves);
    if (route == UINT32_MAX || !routes_[route]->start(moves.next)) return false;
    ++moves.next;
    return true;
}

template <class A>
std::uint32_t BasicChannelMoves<A>::pick(LaneMoves const& moves) const {
    std::uint32_t best = UINT32_MAX;
    std::uint64_t least = UINT64_MAX;
    for (std::uint32_t const route : moves.routes) {
        if (!routes_[route]->has_credit()) continue;
        std::uint64_t const load = routes_[route]->backlog() + routes_[route]->in_flight();
        if (load < least) {
            least = load;
            best = route;
        }
    }
    return best;
}

// Starts the next segment below `until` on every route that has a credit.
template <class A>
bool BasicChannelMoves<A>::start_broadcast(LaneMoves& moves, std::uint64_t until) {
    bool moved = false;
    for (std::size_t i = 0; i < moves.routes.size(); ++i) {
        MGI_ASSERT(moves.next_of[i] <= until, moves.next_of[i], until, i);
        if (moves.next_of[i] == until || !routes_[moves.routes[i]]->has_credit()) continue;
        if (!routes_[moves.routes[i]]->start(moves.next_of[i])) continue;
        ++moves.next_of[i];
        moved = true;
    }
    return moved;
}

// Ordered broadcast: one segment at a time reaches all destinations before the next one starts, of
// whichever source; so all of them see one order.
template <class A>
bool BasicChannelMoves<A>::step_in_turn() {
    for (std::size_t tried = 0; !turn_taken_ && tried < lanes_.size(); ++tried) {
        turn_ = (turn_ + 1) % lanes_.size();
        LaneMoves& moves = lanes_[turn_];
        if (!moves.open) continue;
        if (moves.end.published() == moves.next) {
            close(moves);
            continue;
        }
        turn_taken_ = true;
    }
    if (!turn_taken_) return false;
    LaneMoves& moves = lanes_[turn_];
    bool moved = start_broadcast(moves, moves.next + 1);
    moved |= finish(moves);
    if (moves.end.delivered() == moves.next + 1) {
        ++moves.next;
        turn_taken_ = false;
    }
    return moved;
}

// Takes in completions, passes on what arrived in sequence, and closes the lane behind its last one.
template <class A>
bool BasicChannelMoves<A>::finish(LaneMoves& moves) {
    std::uint32_t count = 0;
    for (std::uint32_t const route : moves.routes) count += routes_[route]->finish();
    if (count != 0) moves.end.set_delivered(delivered_below(moves));
    close(moves);
    return count != 0;
}

template <class A>
std::uint64_t BasicChannelMoves<A>::delivered_below(LaneMoves const& moves) const {
    std::uint64_t delivered = UINT64_MAX;
    if (state_.routing != device::RoutingKind::Balance) {
        for (std::uint32_t const route : moves.routes) {
            delivered = std::min(delivered, routes_[route]->finished());
        }
        return delivered;
    }
    // Routes share the lane's sequences: delivered is what none of them still has on its way.
    delivered = moves.next;
    for (std::uint32_t const route : moves.routes) {
        if (auto const oldest = routes_[route]->oldest()) delivered = std::min(delivered, *oldest);
    }
    return delivered;
}

template <class A>
void BasicChannelMoves<A>::close(LaneMoves& moves) {
    std::uint64_t const closed = moves.end.closed();
    if (closed == 0) return;
    std::uint64_t const delivered = moves.end.delivered();
    MGI_ASSERT(delivered < closed && moves.open, delivered, closed, moves.open);
    if (delivered != closed - 1) return;
    for (std::uint32_t const route : moves.routes) {
        MGI_ASSERT(routes_[route]->in_flight() == 0, route, routes_[route]->in_flight(), closed);
        routes_[route]->announce_end();
    }
    moves.open = false;
    --open_lanes_;
}

// The mover of production code.
using ChannelMoves = BasicChannelMoves<device::LibcuAtomics>;

}  // namespace mgi::mover
