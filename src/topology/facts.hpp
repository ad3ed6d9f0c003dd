/// \file
/// What a topology file lacks and a user knows: model of the GPUs, NVLinks to a switch, PCIe
/// generation, rates of NICs, model of the CPUs. A file's own word goes first.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "topology/infrastructure.hpp"

namespace mgi::topology {

struct Facts {
    std::optional<std::int64_t> sm;             ///< compute capability of the GPUs, 90 for 9.0
    std::optional<std::int64_t> nvs_links;      ///< NVLinks of each GPU to the NVSwitches
    std::optional<std::int64_t> pcie_gen;       ///< 1 to 6
    std::optional<double> nic_gbps;             ///< of each NIC, gigabits a second
    std::map<std::string, double> nic_gbps_of;  ///< of a NIC by its name or bus id
    std::optional<std::string> cpu;             ///< a name of cpu_names()
};

/// Throws Error(InvalidArgument) that names the fact that cannot be.
void check_facts(Facts const& facts);

/// Megabits a second of a NIC that goes by these names; nothing where no fact says so.
std::optional<double> nic_mbps_of(Facts const& facts,
                                  std::initializer_list<std::string> const& names);

/// GB/s out of a CPU: what the file says of it, else the fact, else the default with a warning.
double cpu_gbps_of(Facts const& facts, std::optional<double> known, std::string const& cpu,
                   GraphBuilder& graph);

/// Connects every GPU of the graph to its server's NVSwitches as `nvs_links` says; warns and does
/// nothing where the file itself has NVLinks (`file_has_links`). Nothing without that fact.
void add_switch_links(Facts const& facts, bool file_has_links, GraphBuilder& graph);

}  // namespace mgi::topology
