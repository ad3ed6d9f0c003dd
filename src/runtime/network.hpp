// What a process has to reach processes on other servers: addresses, and one thread for all of its wires.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mover/link/nic_board.hpp"
#include "transport/wire/wire_thread.hpp"

namespace mgi {

// Thread-safe. Opens no port before it is asked for its addresses.
class ChannelNetwork {
public:
    // `wanted`: as RuntimeOptions::addresses; empty: $MGI_ADDRESSES, separated by commas.
    explicit ChannelNetwork(std::vector<std::string> wanted);

    // Where this process awaits wires, "10.0.0.1:40123", one for each NIC. Throws Error(InvalidArgument)
    // where no addresses are configured, Error(NotFound, Refused) for one that cannot be had.
    std::vector<std::string> addresses();

    // Behind a call of `addresses`: the names of these NICs, in the same order.
    [[nodiscard]] std::vector<std::string> const& nics() const { return nics_; }
    [[nodiscard]] transport::wire::WireThread& wires() { return *wires_; }
    [[nodiscard]] mover::link::NicBoard& board() { return board_; }

private:
    std::vector<std::string> const wanted_;
    std::mutex mutex_;
    std::vector<std::string> addresses_;
    std::vector<std::string> nics_;
    mover::link::NicBoard board_;
    std::unique_ptr<transport::wire::WireThread> wires_;
};

}  // namespace mgi
