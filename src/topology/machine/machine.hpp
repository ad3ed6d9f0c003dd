/// \file
/// The infrastructure graph of this machine (paper section 4.2): hwloc for CPUs and the PCI tree, NVML
/// for NVLinks, sysfs for the rates of NICs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "topology/facts.hpp"
#include "topology/gpus.hpp"
#include "topology/infrastructure.hpp"
#include "topology/machine/hwloc.hpp"
#include "topology/nvml.hpp"

namespace mgi::topology {

/// Where the machine is asked.
struct MachineSources {
    HwlocExport hwloc;
    std::optional<Nvml> nvml;  ///< nothing: no NVIDIA driver, or one without
    std::filesystem::path sys = "/sys";
    std::vector<Gpu> gpus = {};  ///< the driver's word, which counts where there is no NVML

    static MachineSources of_this_machine();
};

/// Facts go before what the machine says. What one source does not know and another does is there all
/// the same: without hwloc GPUs and NICs hang from the CPU of their NUMA node. Throws as read_topology()
/// does.
Infrastructure discover_machine(MachineSources const& sources, Facts const& facts);

}  // namespace mgi::topology
