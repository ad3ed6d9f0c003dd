/// \file
/// NICs as Linux lists them: network interfaces and RDMA devices, by their PCI device.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace mgi::topology {

/// By what Linux calls the ports of one device: both lists are the same ports.
struct PortNames {
    std::vector<std::string> rdma_devices;
    std::vector<std::string> interfaces;
};

struct LinuxNic {
    std::string names;  ///< "mlx5_0 eth0"
    double mbps = 0;    ///< of all its ports that are up; 0: nobody says
    bool rdma = false;
    int numa_node = -1;  ///< -1: not known
    PortNames ports;
};

/// By bus id. What is no PCI device (loopback, bridges, bonds, tunnels) is left out, so that nothing
/// counts twice; so are virtual functions whose NIC is there, and rates of what shares a
/// NIC's ports. `sys` is where sysfs is mounted; what is missing or not understood is left out.
std::map<std::string, LinuxNic> read_nics(std::filesystem::path const& sys = "/sys");

/// Whether something in /sys/class speaks for others of its PCI device, whose ports it shares: a
/// subfunction's (".../mlx5_core.sf.2/..."), a bond's RDMA device (which has both functions' rate), or the
/// representor of a virtual function ("pf0vf3").
bool is_of_others(std::filesystem::path const& entry);

/// The NUMA node of a PCI device; -1 where it is not known.
int numa_node_of(std::filesystem::path const& sys, std::string const& bus_id);

}  // namespace mgi::topology
