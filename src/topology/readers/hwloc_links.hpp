/// \file
/// hwloc's matrices of link bandwidths: <distances2> and <distances2hetero> named NVLinkBandwidth or
/// XGMIBandwidth, in MB/s, between GPUs, NVSwitches and CPUs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "topology/infrastructure.hpp"
#include "topology/readers/xml.hpp"

namespace mgi::topology {

class HwlocLinks {
public:
    /// An object that a matrix may name, and the vertex that it is or is a part of; the first one counts.
    void add_object(XmlElement const& object, std::uint32_t vertex);
    /// A PCI device that is neither GPU nor NIC: one that a matrix names is an NVSwitch.
    void add_other(XmlElement const& object);

    /// Of entries for the same two devices (logical GPUs of one, or two matrices of one kind) the largest
    /// counts. NVSwitches, which are one vertex, count each.
    void connect(XmlElement const& topology, GraphBuilder& graph);
    /// Whether a matrix had a link.
    [[nodiscard]] bool any() const { return any_; }

private:
    /// From, to, and the NVSwitch among them by its index (empty: none).
    using Pair = std::tuple<std::uint32_t, std::uint32_t, std::string>;
    using Rates = std::map<Pair, std::uint64_t>;  ///< in MB/s

    struct End {
        std::uint32_t vertex;
        std::string index;  ///< of an NVSwitch
    };

    void read_matrix(XmlElement const& matrix, GraphBuilder& graph, Rates& rates) const;
    [[nodiscard]] std::vector<End> ends_of(XmlElement const& matrix, std::size_t objects,
                                           GraphBuilder& graph) const;

    std::map<std::string, std::uint32_t> vertex_of_;  ///< by gp_index
    bool any_ = false;
};

}  // namespace mgi::topology
