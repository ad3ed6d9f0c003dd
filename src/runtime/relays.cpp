#include "runtime/relays.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include <mgi/error.hpp>

#include "mover/link/slots.hpp"

namespace mgi {

namespace {

using mover::link::Route;
using mover::link::Way;
using transport::wire::Address;
using transport::wire::Onward;

constexpr std::size_t kMostRelaysOfPair = 32;
// For each hop: there are others to be tried, and no more than ten seconds for all of them. More than what a
// relay has for its way on, so that it can say that there is none.
constexpr transport::wire::Time kSpareLimit = 600 * transport::wire::kMillisecond;

// As for direct wires: NICs beyond what the other one has begin anew.
Address address_of(std::vector<std::string> const& addresses, std::size_t nic) {
    if (addresses.empty()) {
        throw Error(ErrorCode::NotFound, "a member has not said where it is reached");
    }
    return Address(addresses[nic % addresses.size()]);
}

}  // namespace

void Reach::add(std::uint32_t member, std::vector<mover::link::SlotOptions> const& slots,
                std::shared_ptr<mover::link::LinkCounts const> counts) {
    auto const direct = std::count_if(slots.begin(), slots.end(),
                                      [](auto const& slot) { return !slot.is_spare(); });
    links_[member] = {std::size_t(direct), std::move(counts)};
}

void Reach::check(std::uint32_t member, std::uint32_t nic) const {
    auto const at = links_.find(member);
    if (at == links_.end()) return;  // nothing is known
    Link const& link = at->second;
    if (nic < link.direct && (*link.counts)[nic].open.value() == 0) {
        throw Error(ErrorCode::NotFound, "NIC " + std::to_string(nic) + " has no wire to member " +
                                             std::to_string(member) + " now");
    }
}

std::vector<std::uint32_t> relays_between(PartMembers const& members, std::uint32_t one,
                                          std::uint32_t other) {
    std::vector<std::uint32_t> found;
    for (std::uint32_t m = 0; m < members.count; ++m) {
        std::uint32_t const on = members.machine_of(m);
        if (on != members.machine_of(one) && on != members.machine_of(other)) found.push_back(m);
    }
    if (found.empty()) return found;
    auto const first = std::ptrdiff_t((one + other) % found.size());
    std::rotate(found.begin(), found.begin() + first, found.end());
    // One of each server, and then another one: those of one server have the same NICs.
    std::map<std::uint32_t, std::size_t> of_server;
    std::map<std::uint32_t, std::size_t> turn;
    for (std::uint32_t const m : found) turn[m] = of_server[members.machine_of(m)]++;
    std::stable_sort(found.begin(), found.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return turn[a] < turn[b]; });
    found.resize(std::min(found.size(), kMostRelaysOfPair));
    return found;
}

transport::wire::LinkName relays_name(std::uint64_t channel_number) {
    transport::wire::LinkName name;
    name.fill(0xff);  // no member has these numbers
    std::memcpy(name.data(), &channel_number, sizeof(channel_number));
    return name;
}

mover::link::Routes routes_to(std::uint32_t member, std::vector<mover::link::SlotOptions> slots,
                              std::vector<std::string> own, std::vector<std::uint32_t> relays,
                              transport::wire::LinkName const& name,
                              std::shared_ptr<MemberAddresses const> all,
                              std::shared_ptr<Reach const> reach) {
    return [=, slots = std::move(slots), own = std::move(own), relays = std::move(relays),
            all = std::move(all),
            reach = std::move(reach)](std::uint32_t slot, std::uint64_t generation) -> Route {
        Way const way = mover::link::way_of(slots.at(slot), generation);
        Route route;
        route.local = address_of(own, way.nic).without_port();
        route.remote = address_of(all->at(member), way.far_nic);
        if (slots[slot].is_spare()) route.limit = kSpareLimit;
        if (way.count == 0) return route;
        std::uint32_t const first = relays.at(way.by[0]);
        reach->check(first, way.nic);
        route.remote = address_of(all->at(first), way.nic);
        route.relays = name;
        for (std::uint32_t i = 1; i <= way.count; ++i) {
            mover::link::Hop const hop = way.hop(i);
            route.onward.push_back({i == way.count ? member : relays.at(hop.to), hop.far_nic});
        }
        return route;
    };
}

transport::wire::WireThread::WaysOn ways_on(std::uint32_t me, std::vector<std::string> own,
                                            std::shared_ptr<MemberAddresses const> all,
                                            std::shared_ptr<Reach const> reach) {
    return [me, own = std::move(own), all = std::move(all),
            reach = std::move(reach)](Onward const& to) -> std::optional<Route> {
        if (to.member == me || to.member >= all->size() || (*all)[to.member].empty()) {
            return std::nullopt;
        }
        reach->check(to.member, to.nic);
        return Route{address_of(own, to.nic).without_port(), address_of((*all)[to.member], to.nic)};
    };
}

}  // namespace mgi
