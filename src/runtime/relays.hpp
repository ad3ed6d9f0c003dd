// Who passes on what two members of a channel send each other where they have no wire between them.
//
// Each process knows by which NICs it has wires to others. It goes by no hop, and passes nothing on by one, of
// which it knows that it leads nowhere; who asks hears so at once, and need not wait for what never answers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mover/link/shared_link.hpp"
#include "mover/link/types.hpp"
#include "runtime/part.hpp"

namespace mgi {

// Where a channel's members are reached: of each its addresses, by member.
using MemberAddresses = std::vector<std::vector<std::string>>;

// By which NICs this process has wires to other members. Filled before anything is looked up.
class Reach {
public:
    void add(std::uint32_t member, std::vector<mover::link::SlotOptions> const& slots,
             std::shared_ptr<mover::link::LinkCounts const> counts);
    // Throws Error(NotFound) where there is a link to the member, which has no wire by NICs of this number. By
    // any thread.
    void check(std::uint32_t member, std::uint32_t nic) const;

private:
    struct Link {
        std::size_t direct = 0;  // slots, by NIC; they come first
        std::shared_ptr<mover::link::LinkCounts const> counts;
    };
    std::map<std::uint32_t, Link> links_;  // by member
};

// Members on third servers, the same ones in the same order for both; not all where there are many, and then
// others for other pairs.
std::vector<std::uint32_t> relays_between(PartMembers const& members, std::uint32_t one,
                                          std::uint32_t other);

// What all relays of a channel are greeted by; no link's name.
transport::wire::LinkName relays_name(std::uint64_t channel_number);

// The routes of a link's wires, of the end that dials: from its own addresses to a member, straight or through
// `relays`, of which a slot's ways speak.
mover::link::Routes routes_to(std::uint32_t member, std::vector<mover::link::SlotOptions> slots,
                              std::vector<std::string> own, std::vector<std::uint32_t> relays,
                              transport::wire::LinkName const& name,
                              std::shared_ptr<MemberAddresses const> all,
                              std::shared_ptr<Reach const> reach);

// Where a member passes others' connections on to: to any other member, from its NIC of the same number.
transport::wire::WireThread::WaysOn ways_on(std::uint32_t me, std::vector<std::string> own,
                                            std::shared_ptr<MemberAddresses const> all,
                                            std::shared_ptr<Reach const> reach);

}  // namespace mgi
