/// \file
/// What Python holds as mgi._mgi.Topology: an infrastructure graph, whatever made it.
#pragma once

#include <string>

#include "topology/infrastructure.hpp"

namespace mgi::python {

struct Topology {
    std::string format;  ///< "nccl", "hwloc", "nvidia-smi", "preset", "machine"
    topology::Infrastructure infrastructure;
};

}  // namespace mgi::python
