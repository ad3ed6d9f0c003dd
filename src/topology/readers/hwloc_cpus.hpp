/// \file
/// Which objects of an hwloc export are CPUs: those that have a NUMA node, and packages without one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/rates.hpp"
#include "topology/readers/xml.hpp"

namespace mgi::topology {

/// The value of an <info>; empty where the object has none of this name.
std::string hwloc_info(XmlElement const& object, std::string_view name);

struct HwlocCpu {
    XmlElement object;                   ///< what is in it is at this CPU
    std::optional<XmlElement> node;      ///< its NUMA node
    std::optional<XmlElement> package;   ///< that it is in or has in it
    std::optional<std::int64_t> number;  ///< the NUMA node's, or else the package's
};

/// The CPUs in an object, in the file's order. A CPU is a NUMA node with cores (paper section 4.2): the
/// innermost object that has one, which is a package, a part of one or, where several share the node,
/// more. A node around others' is memory alone. A package in which and around which there is no node is a
/// CPU, too. `package`: the one around the object.
std::vector<HwlocCpu> hwloc_cpus(XmlElement const& object,
                                 std::optional<XmlElement> const& package = std::nullopt);

/// What is known of its model; `architecture` is the machine's.
CpuModel hwloc_model(HwlocCpu const& cpu, std::string const& architecture);

}  // namespace mgi::topology
