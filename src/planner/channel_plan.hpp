/// \file
/// What the planner decides about a channel over a cluster.
#pragma once

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
    bool operator==(Role const&) const = default;
};

/// A table as it travels; servers of equal shape and role share one.
struct EncodedTable {
    std::string bytes;    ///< planner/table_codec.hpp reads them
    Capacity widest = 0;  ///< the fastest of its hops
    /// Every source gets out that way as far as the role asks for it, and every destination is reached.
    bool network_whole = true;
    bool domain_whole = true;
};

struct ServerPlan {
    ServerId server = 0;
    bool needs_network = false;  ///< for servers that share no NVLink domain with it
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
    /// Bytes of every server's table and directory: what the servers are sent.
    [[nodiscard]] std::uint64_t sent_bytes() const;
};

}  // namespace mgi::planner
