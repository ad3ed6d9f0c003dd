#include "topology/machine/nics.hpp"

#include <optional>
#include <set>
#include <system_error>

#include "topology/bus_id.hpp"
#include "topology/machine/sys_files.hpp"
#include "topology/rates.hpp"
#include "topology/readers/numbers.hpp"

namespace mgi::topology {
namespace {

using std::filesystem::path;

/// The PCI device that something in /sys/class belongs to. Between the two may be others, as a virtio
/// device: /sys/devices/pci0000:00/0000:00:03.0/virtio2.
std::optional<std::string> pci_device_of(path const& entry) {
    std::error_code error;
    path const device = std::filesystem::canonical(entry / "device", error);
    if (error) return std::nullopt;
    std::optional<std::string> found;
    for (path const& part : device) {
        if (auto id = parse_bus_id(part.string())) found = std::move(id);
    }
    return found;
}

/// The PCI device of which this one is a virtual function.
std::optional<std::string> physical_of(path const& sys, std::string const& id) {
    std::error_code error;
    path const physical =
        std::filesystem::canonical(sys / "bus/pci/devices" / id / "physfn", error);
    if (error) return std::nullopt;
    return parse_bus_id(physical.filename().string());
}

/// Virtual functions share their NIC's ports: of a NIC and those that are seen one counts.
void drop_virtual(std::map<std::string, LinuxNic>& nics, path const& sys) {
    std::set<std::string> counted;
    for (auto const& [id, nic] : nics) {
        if (!physical_of(sys, id)) counted.insert(id);
    }
    std::erase_if(nics, [&](auto const& entry) {
        auto const physical = physical_of(sys, entry.first);
        return physical && !counted.insert(*physical).second;
    });
}

/// "200 Gb/sec (4X HDR)" of the ports that are up ("4: ACTIVE"), in megabits a second.
double rdma_mbps(path const& device) {
    double mbps = 0;
    for (std::string const& port : names_in(device / "ports")) {
        path const at = device / "ports" / port;
        if (!line_of(at / "state").starts_with('4')) continue;
        mbps += known_mbps(number_in<double>(at / "rate").value_or(0) * 1000).value_or(0);
    }
    return mbps;
}

LinuxNic& nic_of(std::map<std::string, LinuxNic>& nics, path const& sys, std::string const& id,
                 std::string const& name) {
    LinuxNic& nic = nics[id];
    nic.names += (nic.names.empty() ? "" : " ") + name;
    nic.numa_node = numa_node_of(sys, id);
    return nic;
}

}  // namespace

bool is_of_others(path const& entry) {
    std::error_code error;
    path const device = std::filesystem::canonical(entry / "device", error);
    if (!error && device.string().find(".sf.") != std::string::npos) return true;
    if (entry.filename().string().find("_bond_") != std::string::npos) return true;
    std::string const port = line_of(entry / "phys_port_name");
    return port.find("vf") != std::string::npos || port.find("sf") != std::string::npos;
}

std::map<std::string, LinuxNic> read_nics(path const& sys) {
    std::map<std::string, LinuxNic> nics;
    path const rdma = sys / "class/infiniband";
    for (std::string const& name : names_in(rdma)) {
        auto const id = pci_device_of(rdma / name);
        if (!id) continue;
        LinuxNic& nic = nic_of(nics, sys, *id, name);
        nic.rdma = true;
        nic.ports.rdma_devices.push_back(name);
        if (!is_of_others(rdma / name)) nic.mbps += rdma_mbps(rdma / name);
    }
    path const net = sys / "class/net";
    std::map<std::string, double> interfaces;
    for (std::string const& name : names_in(net)) {
        auto const id = pci_device_of(net / name);
        if (!id) continue;
        nic_of(nics, sys, *id, name).ports.interfaces.push_back(name);
        if (is_of_others(net / name)) continue;
        interfaces[*id] +=
            known_mbps(number_in<double>(net / name / "speed").value_or(0)).value_or(0);
    }
    // An RDMA device and an interface of one PCI device are the same ports.
    for (auto const& [id, mbps] : interfaces) {
        if (nics[id].mbps == 0) nics[id].mbps = mbps;
    }
    drop_virtual(nics, sys);
    return nics;
}

int numa_node_of(path const& sys, std::string const& bus_id) {
    int node = -1;
    std::string const line = line_of(sys / "bus/pci/devices" / bus_id / "numa_node");
    return read_whole(line, node) ? node : -1;
}

}  // namespace mgi::topology
