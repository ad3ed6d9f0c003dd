#include "topology/machine/local_nics.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "topology/bus_id.hpp"

namespace mgi::topology {
namespace {

using std::filesystem::path;

constexpr std::string_view kDiscovered = "nic ";  // and the bus id

bool told_by_facts(Facts const& facts, std::string const& id, LinuxNic const& nic) {
    if (nic_mbps_of(facts, {id})) return true;
    auto const told = [&](std::string const& name) { return facts.nic_gbps_of.contains(name); };
    PortNames const& ports = nic.ports;
    return std::any_of(ports.interfaces.begin(), ports.interfaces.end(), told) ||
           std::any_of(ports.rdma_devices.begin(), ports.rdma_devices.end(), told);
}

bool told_by_links(Infrastructure const& graph, Corrections const& corrections,
                   std::string const& name) {
    auto const is_network = [&](std::string const& other) {
        return std::any_of(graph.graph.vertices.begin(), graph.graph.vertices.end(),
                           [&](Vertex const& vertex) {
                               return vertex.kind == VertexKind::Network && vertex.name == other;
                           });
    };
    return std::any_of(corrections.links.begin(), corrections.links.end(),
                       [&](Corrections::NewLink const& link) {
                           return (link.from == name && is_network(link.to)) ||
                                  (link.to == name && is_network(link.from));
                       });
}

/// What Linux has by this very name.
PortNames ports_named(path const& sys, std::string const& name) {
    PortNames found;
    std::error_code error;
    if (name.find('/') != std::string::npos) return found;
    if (std::filesystem::exists(sys / "class/infiniband" / name, error)) {
        found.rdma_devices.push_back(name);
    }
    if (std::filesystem::exists(sys / "class/net" / name, error)) found.interfaces.push_back(name);
    return found;
}

}  // namespace

std::vector<LocalNic> local_nics(Infrastructure const& corrected, Corrections const& corrections,
                                 bool discovered, path const& sys) {
    std::map<std::string, LinuxNic> const known =
        discovered ? read_nics(sys) : std::map<std::string, LinuxNic>();
    std::vector<LocalNic> found;
    for (Vertex const& vertex : corrected.graph.vertices) {
        if (vertex.kind != VertexKind::Nic) continue;
        LocalNic nic{vertex.id, vertex.name, {}, false};
        bool const added =
            std::any_of(corrections.add.begin(), corrections.add.end(),
                        [&](auto const& given) { return given.name == vertex.name; });
        if (added) {
            PortNames ports = ports_named(sys, vertex.name);
            if (!ports.interfaces.empty() || !ports.rdma_devices.empty()) {
                nic.ports.push_back(std::move(ports));
            }
            nic.told_rate = true;
        } else if (vertex.name.starts_with(kDiscovered)) {
            std::string_view const device =
                device_of(std::string_view(vertex.name).substr(kDiscovered.size()));
            nic.told_rate = told_by_links(corrected, corrections, vertex.name);
            for (auto const& [id, linux_nic] : known) {
                if (device_of(id) != device) continue;
                nic.ports.push_back(linux_nic.ports);
                nic.told_rate |= told_by_facts(corrections.facts, id, linux_nic);
            }
        }
        if (!nic.ports.empty()) found.push_back(std::move(nic));
    }
    return found;
}

}  // namespace mgi::topology
