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

constexpr std::size_t kMostRelays = 8;  // of a pair
// There are others to be tried, and no more than ten seconds for all of them. More than what a relay has for
// its way on, so that it can say why there is none.
constexpr transport::wire::Time kSpareLimit = 600 * transport::wire::kMillisecond;

// As for direct wires: NICs beyond what the other one has begin anew.
Address address_of(std::vector<std::string> const& addresses, std::size_t nic) {
    if (addresses.empty()) {
        throw Error(ErrorCode::NotFound, "a member has not said where it is reached");
    }
    return Address(addresses[nic % addresses.size()]);
}

}  // namespace

std::vector<std::uint32_t> relays_between(PartMembers const& members, std::uint32_t one,
                                          std::uint32_t other) {
    std::vector<std::uint32_t> found;
    for (std::uint32_t m = 0; m < members.count; ++m) {
        std::uint32_t const server = members.server[m];
        if (server != members.server[one] && server != members.server[other]) found.push_back(m);
    }
    if (found.empty()) return found;
    auto const first = std::ptrdiff_t((one + other) % found.size());
    std::rotate(found.begin(), found.begin() + first, found.end());
    // One of each server, and then another one: those of one server have the same NICs.
    std::map<std::uint32_t, std::size_t> of_server;
    std::map<std::uint32_t, std::size_t> turn;
    for (std::uint32_t const m : found) turn[m] = of_server[members.server[m]]++;
    std::stable_sort(found.begin(), found.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return turn[a] < turn[b]; });
    found.resize(std::min(found.size(), kMostRelays));
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
                              std::shared_ptr<MemberAddresses const> all) {
    return [=, slots = std::move(slots), own = std::move(own), relays = std::move(relays),
            all = std::move(all)](std::uint32_t slot, std::uint64_t generation) -> Route {
        Way const way = mover::link::way_of(slots.at(slot), generation);
        Route route;
        route.local = address_of(own, way.nic).without_port();
        route.remote = address_of(all->at(member), way.far_nic);
        if (slots[slot].is_spare()) route.limit = kSpareLimit;
        if (way.relay == Way::kDirect) return route;
        route.remote = address_of(all->at(relays.at(way.relay)), way.nic);
        route.relays = name;
        route.onward = {Onward{member, way.far_nic}};
        return route;
    };
}

transport::wire::WireThread::WaysOn ways_on(std::uint32_t me, std::vector<std::string> own,
                                            std::shared_ptr<MemberAddresses const> all) {
    return [me, own = std::move(own),
            all = std::move(all)](Onward const& to) -> std::optional<Route> {
        if (to.member == me || to.member >= all->size() || (*all)[to.member].empty()) {
            return std::nullopt;
        }
        return Route{address_of(own, to.nic).without_port(), address_of((*all)[to.member], to.nic)};
    };
}

}  // namespace mgi
