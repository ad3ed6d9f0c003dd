/// \file
/// One reader a format; read.hpp chooses among them.
#pragma once

#include "topology/facts.hpp"
#include "topology/infrastructure.hpp"
#include "topology/readers/source.hpp"
#include "topology/readers/xml.hpp"

namespace mgi::topology {

/// From the root element of an NCCL or RCCL topology, `<system>`.
Infrastructure read_nccl(XmlElement const& system, Facts const& facts);
/// From the root element of an hwloc export, `<topology>`.
Infrastructure read_hwloc(XmlElement const& topology, Facts const& facts);
/// From the text that `nvidia-smi topo -m` prints.
Infrastructure read_nvidia_smi(Source const& source, Facts const& facts);

}  // namespace mgi::topology
