/// \file
/// hwloc's matrices of link bandwidths: <distances2> and <distances2hetero> named NVLinkBandwidth or
/// XGMIBandwidth, in MB/s, between GPUs, NVSwitches and CPUs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "topology/infrastructure.hpp"
#include "topology/readers/xml.hpp"

namespace mgi::topology {

class HwlocLinks {
public:
    /// An object that a matrix may name, and the vertex that it is or is a part of.
    void add_object(XmlElement const& object, std::uint32_t vertex);
    /// A PCI device that is neither GPU nor NIC: one that a matrix names is an NVSwitch.
    void add_other(XmlElement const& object);

    void connect(XmlElement const& topology, GraphBuilder& graph);
    /// Whether a matrix had a link.
    [[nodiscard]] bool any() const { return any_; }

private:
    void connect_matrix(XmlElement const& matrix, char const* kind, GraphBuilder& graph);
    [[nodiscard]] std::vector<std::uint32_t> vertices_of(XmlElement const& matrix,
                                                         std::size_t objects,
                                                         GraphBuilder& graph) const;

    std::map<std::string, std::uint32_t> vertex_of_;  ///< by gp_index
    bool any_ = false;
};

}  // namespace mgi::topology
