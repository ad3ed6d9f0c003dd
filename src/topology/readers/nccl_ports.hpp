/// \file
/// The ports (<net>) of an NCCL file's NICs, of which one may be there in several forms: by itself, as a
/// part of a NIC that NCCL has merged ("mlx5_0+mlx5_1"), by a second PCI function ("mlx5_0_dma").
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "topology/infrastructure.hpp"
#include "topology/readers/xml.hpp"

namespace mgi::topology {

class NcclPorts {
public:
    /// A port, and which share of its rate no other port of the file has.
    using List = std::vector<std::pair<XmlElement, double>>;

    /// Takes note of all ports below a CPU. To be called for each CPU before `own`.
    void add_names(XmlElement const& cpu, std::uint32_t server);

    /// Those of a NIC that count; `bus_id` is empty for one that is no PCI device. Warns of the others.
    List own(XmlElement const& nic, std::uint32_t server, std::string const& bus_id,
             GraphBuilder& graph);

private:
    /// Of a port whose parts the file has on their own, those that it has not, divided by all.
    [[nodiscard]] double share_of(std::string const& name, std::uint32_t server) const;
    [[nodiscard]] bool has(std::string const& name, std::uint32_t server) const {
        return names_.contains({server, name});
    }

    std::set<std::pair<std::uint32_t, std::string>> names_;
    /// By server, name, GUID and port: the bus id where it was first.
    std::map<std::tuple<std::uint32_t, std::string, std::string, std::string>, std::string> places_;
};

}  // namespace mgi::topology
