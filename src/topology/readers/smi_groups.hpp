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
    std::vector<std::size_t> guessed;   ///< devices whose CPU the table does not tell
};

/// PIX joins devices (and what they are PIX to) behind one switch, PXB such switches behind another.
/// A device is at the CPU of its NUMA affinity, or (in a table without that column) its CPU affinity; one
/// without (NICs) at that of the nearest device that has one. Those that are near to none are shared out
/// to the CPUs of the columns, neighbours to the same one; where there is one such CPU, and they are far
/// from what is at it, they have one of their own.
SmiGroups group_devices(SmiMatrix const& matrix);

}  // namespace mgi::topology
