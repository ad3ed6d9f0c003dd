/// \file
/// What Linux says about NUMA nodes and NICs. Files that are missing or not understood are
/// no error: the answer then says less.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace mgi::topology {

/// A NUMA node with its cores (the operating system's numbers, ascending).
struct NumaNode {
    int number = 0;
    std::vector<int> cores;
    std::uint64_t memory_bytes = 0;  ///< 0: not known
};

/// "0-3,8,10-11" as numbers, ascending; what is not understood is left out.
std::vector<int> parse_core_list(std::string_view text);

/// NUMA nodes, by number; none where the directory does not exist.
std::vector<NumaNode> read_numa_nodes(
    std::filesystem::path const& directory = "/sys/devices/system/node");

/// The NUMA node that a NIC ("eth0") is attached to; -1: none, or not known.
int nic_numa_node(std::string const& nic,
                  std::filesystem::path const& directory = "/sys/class/net");

/// Whether a NIC ("eth0") is an RDMA device, too.
bool nic_has_rdma(std::string const& nic,
                  std::filesystem::path const& directory = "/sys/class/net");

}  // namespace mgi::topology
