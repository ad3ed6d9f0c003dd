// What a process has to reach processes on other servers: addresses, and one thread for all of its wires.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <mgi/graph.hpp>

#include "mover/link/nic_board.hpp"
#include "transport/wire/wire_thread.hpp"

namespace mgi {

// Thread-safe. Opens no port before it is asked for its addresses.
class ChannelNetwork {
public:
    // `wanted`: as RuntimeOptions::addresses; empty: $MGI_ADDRESSES, separated by commas. `devices`: this
    // process'. `encrypts`: as RuntimeOptions::encrypt_wires.
    ChannelNetwork(std::vector<std::string> wanted, std::vector<Device> devices = {},
                   std::optional<bool> encrypts = std::nullopt);
    // Whose rows go through this process is given time to end that: as long as they move, and a minute at most.
    ~ChannelNetwork();
    ChannelNetwork(ChannelNetwork const&) = delete;
    ChannelNetwork& operator=(ChannelNetwork const&) = delete;

    // How other processes of this server are found, which share its NICs: as ClusterClient::share_board.
    // Before anything else.
    void share_board_by(std::function<int(int)> share) { share_ = std::move(share); }

    // Where this process awaits wires, "10.0.0.1:40123", one for each NIC. Throws Error(InvalidArgument)
    // where no addresses are configured and some of these processes are not `within_server`; Error(NotFound,
    // Refused) for one that cannot be had.
    std::vector<std::string> addresses(bool within_server = false);

    // Behind a call of `addresses`: what it has found, and the names of these NICs, in the same order.
    [[nodiscard]] std::vector<std::string> const& own_addresses() const { return addresses_; }
    [[nodiscard]] std::vector<std::string> const& nics() const { return nics_; }
    // The NICs that are a device's own, as Transfer::nics; 0 for a device of another process.
    [[nodiscard]] std::uint64_t nics_of(std::uint32_t device) const {
        return device < own_nics_.size() ? own_nics_[device] : 0;
    }
    // Why its NICs do not all reach GPUs' memory, as the graph has it of each: those that are RDMA devices do. Empty:
    // they do.
    [[nodiscard]] std::string why_no_nic_is_direct() const;
    // For tests: where the machine says what its NICs are.
    void look_in(std::filesystem::path net) { net_ = std::move(net); }
    [[nodiscard]] transport::wire::WireThread& wires() { return *wires_; }
    [[nodiscard]] mover::link::NicBoard& board() { return board_; }
    // $MGI_RELAY_SERVERS: whether third servers may pass on what goes between two; on if nothing is said. Of the
    // process with a channel's first source: whether the channel's may; of any: whether it does so for
    // others. Throws Error(InvalidArgument) for other words.
    [[nodiscard]] static bool relays();
    // $MGI_WIRES: what moves the bytes between servers, tcp or ucx; tcp if nothing is said. Both ends say ucx, or
    // it is TCP. Throws Error(InvalidArgument) for other words.
    [[nodiscard]] transport::wire::WireThreadOptions wire_options() const;
    // Whether wires are encrypted. Throws Error(InvalidArgument) where $MGI_WIRE_ENCRYPTION is asked and says another word.
    [[nodiscard]] bool encrypts() const;

private:
    void share_board();

    std::vector<std::string> const wanted_;
    std::vector<Device> const devices_;
    std::optional<bool> const encrypts_;
    mutable std::once_flag asked_;
    mutable transport::wire::EncryptionOptions encryption_;
    std::function<int(int)> share_;
    std::vector<std::uint64_t> own_nics_;  // by device
    std::filesystem::path net_ = "/sys/class/net";
    std::mutex mutex_;
    std::vector<std::string> addresses_;
    std::vector<std::string> nics_;
    mover::link::NicBoard board_;
    std::unique_ptr<transport::wire::WireThread> wires_;
};

}  // namespace mgi
