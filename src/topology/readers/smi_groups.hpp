/// \file
/// Which devices of an nvidia-smi table are behind one PCIe switch, and at which CPU.
#pragma once

#include <cstddef>
#include <vector>

#include "topology/readers/smi_matrix.hpp"

namespace mgi::topology {

inline constexpr std::size_t kNoGroup = std::size_t(-1);

struct SmiGroups {
    std::size_t cpus = 0;
    std::vector<std::size_t> cpu_of;    ///< of each device
    std::vector<std::size_t> inner_of;  ///< its switch: devices that are PIX to each other
    std::vector<std::size_t> outer_of;  ///< the switch above: PXB; kNoGroup where there is none
};

/// PIX joins devices (and what they are PIX to) behind one switch, PXB such switches behind another.
/// A GPU is at the CPU of its NUMA affinity, or (in a table without that column) its CPU affinity; a
/// NIC at that of the nearest GPU, or of the nearest NIC that has one.
SmiGroups group_devices(SmiMatrix const& matrix);

}  // namespace mgi::topology
