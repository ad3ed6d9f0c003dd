#include "mover/link/ways.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <mgi/device/assert.hpp>

namespace mgi::mover::link {

Hop Way::hop(std::uint32_t number) const {
    MGI_ASSERT(number <= count, number, count);
    Hop hop;
    if (number != 0) hop.from = by[number - 1];
    if (number != count) hop.to = by[number];
    hop.far_nic = number == count ? far_nic : number == 0 ? nic : between[number - 1];
    hop.nic = number == 0 ? nic : hop.far_nic;
    return hop;
}

Ways::Ways(std::uint32_t nic, std::uint32_t far_nics, std::uint32_t nics,
           std::vector<std::uint32_t> servers)
    : nic_(nic),
      far_nics_(far_nics),
      nics_(nics),
      servers_(std::move(servers)),
      straight_(far_nics - 1) {
    auto const apart = std::set<std::uint32_t>(servers_.begin(), servers_.end()).size();
    most_ = std::uint32_t(std::min<std::size_t>(apart, Way::kMostRelays));
    for (std::uint32_t count = 1; count <= most_; ++count) relayed_ += through(count);
}

Ways Ways::seen_from_there() const {
    Ways seen = *this;
    seen.from_there_ = !from_there_;
    return seen;
}

// How many lead through so many relays.
std::uint64_t Ways::through(std::uint32_t count) const {
    std::uint64_t ways = servers_.size() * far_nics_;
    for (std::uint32_t i = 1; i < count; ++i) ways *= servers_.size() * nics_;
    return ways;
}

Way Ways::at(std::uint64_t index) const {
    MGI_ASSERT(index < size(), index, size());
    Way way;
    way.nic = nic_;
    // The NIC of its own number, to which a direct wire leads, is the last one.
    auto const far = [&](std::uint64_t turn) {
        return std::uint32_t((nic_ + 1 + turn) % far_nics_);
    };
    std::uint64_t const by_turns = 2 * std::min(straight_, relayed_);
    bool const straight = index < by_turns ? index % 2 == 0 : straight_ > relayed_;
    std::uint64_t left = index < by_turns ? index / 2 : index - by_turns / 2;
    if (straight) {
        way.far_nic = far(left);
    } else {
        for (way.count = 1; left >= through(way.count); ++way.count) left -= through(way.count);
        auto const digit = [&left](std::uint64_t radix) {
            return std::exchange(left, left / radix) % radix;
        };
        way.far_nic = far(digit(far_nics_));
        for (std::uint32_t i = way.count; i-- > 0;) {
            // NICs begin with different relays.
            way.by[i] = std::uint32_t((digit(servers_.size()) + nic_) % servers_.size());
            if (i != 0) way.between[i - 1] = std::uint32_t(digit(nics_));
        }
    }
    if (from_there_) {
        std::swap(way.nic, way.far_nic);
        std::reverse(way.by.begin(), way.by.begin() + way.count);
        if (way.count > 1) {
            std::reverse(way.between.begin(), way.between.begin() + way.count - 1);
        }
    }
    return way;
}

std::uint64_t Ways::behind(std::uint64_t index, std::uint32_t hop) const {
    if (straight_ > relayed_ || index < 2 * straight_) return index + 1;
    std::uint64_t first = straight_;  // of those through as many relays
    std::uint32_t count = 1;
    for (; index - first >= through(count); ++count) first += through(count);
    if (hop >= count) return index + 1;
    std::uint64_t alike = far_nics_;
    for (std::uint32_t i = hop + 1; i < count; ++i) alike *= servers_.size() * nics_;
    return first + ((index - first) / alike + 1) * alike;
}

bool Ways::returns(Way const& way, std::uint32_t hop) const {
    if (hop >= way.count) return false;
    auto const before = way.relays().first(hop);
    return std::any_of(before.begin(), before.end(), [&](std::uint32_t relay) {
        return servers_[relay] == servers_[way.by[hop]];
    });
}

}  // namespace mgi::mover::link
