/// \file
/// What the planner decides about a channel over a cluster.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "planner/batching.hpp"
#include "planner/cluster.hpp"
#include "planner/rules.hpp"
#include "planner/shape_paths.hpp"

namespace mgi::planner {

/// Most sources, and most destinations, of a channel.
inline constexpr std::uint64_t kMostEndpoints = std::uint64_t(1) << 20;

/// What a server does in a channel: together with its shape and the rules, all that its table needs.
struct Role {
    VertexSet sources;
    VertexSet destinations;
    bool network_out = false;  ///< destinations are on other servers
    bool network_in = false;   ///< sources are
    bool domain_out = false;   ///< some of them share this one's NVLink domain
    bool domain_in = false;
    /// Whether segments leave by this gateway, or come in by it.
    [[nodiscard]] bool crosses(Gateway gateway, bool goes_out) const {
        if (gateway == Gateway::Network) return goes_out ? network_out : network_in;
        return goes_out ? domain_out : domain_in;
    }
    bool operator==(Role const&) const = default;
};

/// Gateways by which an endpoint and other servers reach each other: a bit for each.
using Ways = std::uint8_t;
constexpr Ways way_by(Gateway gateway) {
    return Ways(1u << unsigned(gateway));
}
inline constexpr std::size_t kWays = 4;

/// Of some endpoints: which ways there are among them.
using WaySets = std::array<bool, kWays>;

/// A table as it travels; servers of equal shape and role share one.
struct EncodedTable {
    std::string bytes;    ///< planner/table_codec.hpp reads them
    Capacity widest = 0;  ///< the fastest of its hops
    WaySets out{};        ///< by which sources get out, of those that the role asks for
    WaySets in{};         ///< by which destinations are reached
};

struct ServerPlan {
    ServerId server = 0;
    std::shared_ptr<Role const> role;
    std::shared_ptr<EncodedTable const> table;
};

struct ChannelPlan {
    PathRules rules;
    std::vector<ServerPlan> servers;               ///< that take part, ascending
    std::shared_ptr<std::string const> directory;  ///< planner/directory.hpp reads it
    std::uint64_t sources = 0;
    std::uint64_t destinations = 0;
    Lanes lanes;
    Batching batching;

    /// Bytes of all distinct tables and of the directory: what the plan holds.
    [[nodiscard]] std::uint64_t distinct_bytes() const;
    /// About the memory that the plan keeps alive, whoever else does, too.
    [[nodiscard]] std::size_t kept_bytes() const;
    /// Bytes of every server's table and directory: what the servers are sent.
    [[nodiscard]] std::uint64_t sent_bytes() const;
};

}  // namespace mgi::planner
