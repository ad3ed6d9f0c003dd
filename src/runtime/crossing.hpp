// A channel's way to other servers: a link to each process there with which this one exchanges segments.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mgi/cluster.hpp>
#include <mgi/plan.hpp>

#include "gpu/nic_writes.hpp"
#include "mover/channel_links.hpp"
#include "mover/link/shared_link.hpp"
#include "runtime/network.hpp"
#include "runtime/relays.hpp"

namespace mgi {

class ChannelImpl;

// What the process that founds a channel lays down for those on other servers.
struct Terms {
    Plan plan;
    std::optional<Plan> for_peers;     // the plan should all GPUs be peers
    transport::wire::Secret secret{};  // of the channel's links
    std::uint64_t number = 0;          // random; names them
    bool relays = true;                // processes of third servers may pass on what goes over them

    static Terms of(Plan const& plan, bool relays = true);
};

// Thread-safe, but for `connect`, `begin`, `close` and its end, which are for who makes the channel and
// takes it apart.
class Crossing final : public mover::ChannelEvents {
public:
    // `network` outlives its links, and the channel owns this.
    Crossing(ChannelImpl& channel, ChannelNetwork& network, Terms const& terms,
             MemberAddresses const& addresses);
    ~Crossing() override;

    [[nodiscard]] mover::ChannelLinks& links() { return *links_; }

    // Makes the links; those who dial this process are awaited. Throws as SharedLink.
    void connect();
    // Lets NICs reach what of its memory on GPUs they read and write themselves, behind `connect`. Throws Error(Refused).
    void reach_gpus();
    // All processes have the channel: dials those that await it.
    void begin();

    // This process has done all it had to: tells the others, and waits until they know, as long as there
    // is time; a link that is over has failed the channel. False: some may not know.
    //
    // Then waits for those who could still need it as a relay to have found a wire, as long as a link may
    // look for one at most.
    bool bid_farewell(std::chrono::steady_clock::time_point until);
    // Lets those go who have said farewell, if all links have wires. Waits for nobody.
    void release_leavers();
    // Ends the links; nobody touches the channel's memory by them any more.
    void close() noexcept;
    // "\n  to rank 3: ..." for each link, for a stall's error.
    [[nodiscard]] std::string describe() const;
    // Adds what has gone over each wire, and by each NIC. Waits for nobody.
    void add_use(ClusterUse& use) const;

    void failed(ErrorCode code, std::string const& why) override;
    void attended(std::uint32_t destination, bool is_attended) override;
    void progressed(std::uint64_t count) override;
    void left() override { release_leavers(); }

private:
    struct Peer {
        std::uint32_t member = 0;
        std::string name;
        bool is_direct = false;             // NICs carry something of it from GPU to GPU
        std::vector<std::uint32_t> relays;  // members
        std::vector<mover::link::SlotOptions> slots;
        std::unique_ptr<mover::link::SharedLink> link;
        std::shared_ptr<mover::link::LinkCounts const> counts;  // of a link that may be over
    };
    [[nodiscard]] transport::wire::LinkName name_of(Peer const& peer) const;
    [[nodiscard]] std::vector<std::uint32_t> servers_of(
        std::vector<std::uint32_t> const& members) const;
    [[nodiscard]] std::string carrier_of(Peer const& peer, mover::link::Way const& way) const;

    ChannelImpl& channel_;
    ChannelNetwork& network_;
    Terms const terms_;
    std::vector<std::string> const own_addresses_;
    std::vector<std::string> const nics_;  // their names
    bool const encrypted_;
    std::shared_ptr<MemberAddresses const> const addresses_;
    std::shared_ptr<Reach> const reach_ = std::make_shared<Reach>();
    bool passes_on_ = false;
    std::map<std::uint32_t, gpu::NicWrites> nic_writes_;  // by destination
    std::vector<std::shared_ptr<void const>> reached_;    // memory of GPUs
    std::unique_ptr<mover::ChannelLinks> links_;
    std::vector<Peer> peers_;
};

}  // namespace mgi
