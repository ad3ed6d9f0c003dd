/// \file
/// Finds this server's devices and builds its infrastructure graph (paper section 4.1).
#pragma once

#include <cstdint>
#include <vector>

#include <mgi/graph.hpp>

#include "topology/gpus.hpp"
#include "topology/sysfs.hpp"

namespace mgi::topology {

inline constexpr std::uint32_t kMaxCpuDevices = 1024;

/// The CPU devices "cpu:0", "cpu:1", ... of this process. `wanted` 0: one for each NUMA node on which
/// it may run; n: the cores it may run on are dealt round robin over n devices, and where n is more
/// than the cores several devices share one. Throws Error(InvalidArgument) for n > kMaxCpuDevices.
std::vector<Device> discover_cpu_devices(std::uint32_t wanted);

/// The same from what was found: `cores` those allowed, ascending, at least one.
std::vector<Device> divide_cores(std::uint32_t wanted, std::vector<int> const& cores,
                                 std::vector<NumaNode> const& nodes, std::uint64_t memory_bytes);

/// A managed vertex for each device (its id is the device's index). From each CPU device to each, itself
/// included, a "memory" edge of the machine's `copy_gbps`. GPUs, whose devices have their ordinals, are
/// joined as connect_gpus() says.
Graph build_graph(std::vector<Device> const& devices, std::vector<Gpu> const& gpus = {});

/// Gigabytes a second that one core copies, 4 MiB at a time: what a last-level cache holds, since that
/// is where a channel's segments should stay. Measured at the first call, which takes about 5 ms;
/// thread-safe.
double copy_gbps();

}  // namespace mgi::topology
