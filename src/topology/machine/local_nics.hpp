/// \file
/// Which NICs of a server's graph are NICs of this machine, that can be watched here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "topology/infrastructure.hpp"
#include "topology/machine/nics.hpp"
#include "topology/readers/corrections.hpp"

namespace mgi::topology {

struct LocalNic {
    std::uint32_t vertex = 0;      ///< of the graph
    std::string name;              ///< the vertex'
    std::vector<PortNames> ports;  ///< of each function of the device
    bool told_rate = false;        ///< a user says what it carries, whatever its ports say
};

/// Those of a graph that was discovered, and those that the corrections add by the name that Linux has
/// for them. The graph of a file or of a preset has no others: it may be another machine's. A NIC whose
/// ports are not seen here (as in a container, or under a driver of its own) is none.
std::vector<LocalNic> local_nics(Infrastructure const& corrected, Corrections const& corrections,
                                 bool discovered, std::filesystem::path const& sys = "/sys");

}  // namespace mgi::topology
