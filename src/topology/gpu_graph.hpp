/// \file
/// How the GPUs of a process are joined to each other and to its CPU devices, in the graph of its devices.
#pragma once

#include <vector>

#include <mgi/graph.hpp>

#include "topology/gpus.hpp"

namespace mgi::topology {

/// Adds the edges of the devices that are GPUs (found in `gpus` by their ordinals) to a graph that has a
/// vertex for each device, and behind those a vertex "nvswitch", or one for each NVLink domain, where
/// there is one:
///
/// - "memory" to itself: half of what its memory reads and writes, since a copy does both.
/// - "pcie" to and from each CPU device of its NUMA node; to and from all of them where that is not
///   known, or none is on it. Several CPU devices of one node share the one link.
/// - "nvlink" to each GPU that NVLinks lead to and that it reaches, and to and from the switch if it
///   reaches any GPU on it.
/// - "pcie" to each GPU that it reaches and no NVLink, not through a switch either, leads to: of the
///   slower of the two links.
///
/// Where it does not reach a GPU there is no edge between the two: the way leads through a CPU device.
void connect_gpus(std::vector<Device> const& devices, std::vector<Gpu> const& gpus, Graph& graph);

}  // namespace mgi::topology
