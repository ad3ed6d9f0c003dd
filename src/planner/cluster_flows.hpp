/// \file
/// Maximum flows between GPUs of different servers.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/server_flows.hpp"
#include "topology/infrastructure.hpp"

namespace mgi::planner {

/// Across servers the network has no limit of its own: what leaves the source and what enters the
/// destination decide (paper section 4.4). Where NVLink spans servers, there is a way beside it. Not
/// thread-safe.
class ClusterFlows {
public:
    explicit ClusterFlows(topology::Infrastructure const& infrastructure);

    /// The lesser of what gets from `source` to the network and from there to `destination`. Throws
    /// Error(InvalidArgument) for a vertex that is no GPU.
    [[nodiscard]] Capacity by_network(std::uint32_t source, std::uint32_t destination);
    /// What gets there without any NIC; 0 where no links span their servers.
    [[nodiscard]] Capacity by_links(std::uint32_t source, std::uint32_t destination);

private:
    [[nodiscard]] std::uint32_t server_of(std::uint32_t gpu) const;

    topology::Infrastructure const& infrastructure_;
    std::vector<ServerFlows> servers_;
    FlowNetwork links_;
};

}  // namespace mgi::planner
