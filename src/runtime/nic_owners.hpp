// Which NIC is which device's own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <mgi/graph.hpp>

#include "topology/sysfs.hpp"

namespace mgi {

// A NIC that a process is to use, as RuntimeOptions::addresses has it: "eth0", "10.0.0.1@cpu:0+cpu:1".
struct NicWish {
    std::string nic;                                   // name or address
    std::optional<std::vector<std::uint32_t>> owners;  // devices; nothing: the machine knows
};

// Throws Error(InvalidArgument) for a device that is none of `devices`.
std::vector<NicWish> nic_wishes(std::vector<std::string> const& words,
                                std::vector<Device> const& devices);

// For each device the NICs that are its own, bit n for NIC n of `wishes`; `nics` are their names. One of
// which neither the user nor the machine says whose it is is everybody's. A device with none may use all.
std::vector<std::uint64_t> own_nics(
    std::vector<NicWish> const& wishes, std::vector<std::string> const& nics,
    std::vector<Device> const& devices,
    std::vector<topology::NumaNode> const& nodes = topology::read_numa_nodes(),
    std::filesystem::path const& directory = "/sys/class/net");

}  // namespace mgi
