// A mover's loop over one channel (paper section 5.2): finds published segments of its device's
// sources, copies each to its destination when a credit allows, and puts it into the receive queue
// there. No I/O and no clock of its own: it drives a transport, one `step` at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mover/route.hpp"

namespace mgi::mover {

class ChannelMoves {
public:
    // Takes care of the sources listed, given by their indices in the channel.
    ChannelMoves(State& state, std::vector<std::uint32_t> const& sources,
                 std::unique_ptr<transport::Transport> transport);

    // One round over all lanes; true if anything moved. Never blocks.
    bool step();
    // Every source has closed and every segment has arrived, or the channel has failed.
    [[nodiscard]] bool done() const {
        return open_lanes_ == 0 || state_.failed.load(device::relaxed) != 0;
    }

private:
    struct LaneMoves {
        std::uint32_t source = 0;
        std::uint32_t lane = 0;
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
    bool start(std::uint32_t route, std::uint64_t sequence);
    bool step_lanes();
    bool step_in_turn();
    [[nodiscard]] device::Lane<device::LibcuAtomics>& lane_of(LaneMoves const& moves) const;
    [[nodiscard]] std::uint32_t pick(LaneMoves const& moves) const;

    State& state_;
    std::unique_ptr<transport::Transport> transport_;
    std::vector<Route> routes_;
    std::vector<LaneMoves> lanes_;
    std::size_t open_lanes_ = 0;
    std::size_t turn_ = 0;  // ordered broadcast: the lane whose segment is on its way
    bool turn_taken_ = false;
    std::vector<std::uint64_t> complete_;
};

}  // namespace mgi::mover
