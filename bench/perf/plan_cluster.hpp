/// \file
/// The clusters on which planning is measured and tested.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/cluster.hpp"
#include "topology/infrastructure.hpp"

namespace mgi::perf {

/// A server like a DGX H100: 2 CPUs, under each 2 PCIe switches, on each switch GPUs and as many NICs
/// (8 GPUs: 2 on each), and an NVSwitch that joins the GPUs. `variant` changes capacities, not
/// connections: servers of different variants have different shapes.
topology::Infrastructure dgx_server(std::uint32_t gpus, std::uint32_t variant);

/// `gpus` GPUs in servers of `per_server` (the last one has the rest, in a full server), of `shapes`
/// variants in turn; 0: all different.
planner::Cluster dgx_cluster(std::uint64_t gpus, std::uint32_t per_server, std::uint64_t shapes);

/// The first `gpus` GPUs of a cluster, server by server.
std::vector<planner::Place> gpu_places(planner::Cluster const& cluster, std::uint64_t gpus);

}  // namespace mgi::perf
