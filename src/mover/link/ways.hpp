// The ways that a spare slot's wires may go, through no relay or a few. They are far too many to be kept, so they
// are numbered: both ends know the number, which follows from a wire's generation, and the way from that.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mgi::mover::link {

// From one process of a way to the next.
struct Hop {
    static constexpr std::uint32_t kEnd = UINT32_MAX;  // no relay: where the way begins, or ends
    std::uint32_t from = kEnd;
    std::uint32_t to = kEnd;
    std::uint32_t nic = 0;  // of whom it is from
    std::uint32_t far_nic = 0;
    friend auto operator<=>(Hop const&, Hop const&) = default;
};

// Where a wire runs. A relay is reached by its NIC of the number that the NIC before it has.
struct Way {
    static constexpr std::uint32_t kMostRelays = 3;

    std::uint32_t nic = 0;                             // of this end's, below 64
    std::uint32_t far_nic = 0;                         // of the other end's
    std::uint32_t count = 0;                           // of relays; 0: it is direct
    std::array<std::uint32_t, kMostRelays> by{};       // who they are, of LinkOptions::relays
    std::array<std::uint32_t, kMostRelays> between{};  // the NICs from each to the next

    [[nodiscard]] std::span<std::uint32_t const> relays() const { return {by.data(), count}; }
    // Below count + 1.
    [[nodiscard]] Hop hop(std::uint32_t number) const;
};

// Of one NIC of the end that dials, straight to each other NIC than that of its number, and by turns with these
// through relays: first through one, then through two, and so on. No way is left out, so there are some that
// pass a server twice; who looks for one skips what begins alike at once.
class Ways {
public:
    Ways() = default;
    // `servers`: of each relay. `nics`: how many numbers NICs between relays have.
    Ways(std::uint32_t nic, std::uint32_t far_nics, std::uint32_t nics,
         std::vector<std::uint32_t> servers);
    // The same ones as the other end sees them.
    [[nodiscard]] Ways seen_from_there() const;

    [[nodiscard]] std::uint64_t size() const { return straight_ + relayed_; }
    [[nodiscard]] Way at(std::uint64_t index) const;
    // The next one, or `size`, that does not begin with the same hops up to this one.
    [[nodiscard]] std::uint64_t behind(std::uint64_t index, std::uint32_t hop) const;
    // A hop leads to a server where the way has been.
    [[nodiscard]] bool returns(Way const& way, std::uint32_t hop) const;
    // Of the end that dials, and how many the other one has.
    [[nodiscard]] std::uint32_t nic() const { return nic_; }
    [[nodiscard]] std::uint32_t far_nics() const { return far_nics_; }

private:
    [[nodiscard]] std::uint64_t through(std::uint32_t count) const;

    std::uint32_t nic_ = 0;
    std::uint32_t far_nics_ = 0;
    std::uint32_t nics_ = 0;
    std::vector<std::uint32_t> servers_;
    std::uint32_t most_ = 0;  // relays of a way
    std::uint64_t straight_ = 0;
    std::uint64_t relayed_ = 0;
    bool from_there_ = false;
};

}  // namespace mgi::mover::link
