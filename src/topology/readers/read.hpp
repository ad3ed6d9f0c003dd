/// \file
/// Topology files of others as our infrastructure graph.
#pragma once

#include <string>

#include "topology/facts.hpp"
#include "topology/infrastructure.hpp"
#include "topology/readers/source.hpp"

namespace mgi::topology {

enum class FileFormat { Nccl, Hwloc, NvidiaSmi };
char const* to_string(FileFormat format) noexcept;

struct ReadTopology {
    FileFormat format = FileFormat::Nccl;
    Infrastructure infrastructure;
};

/// Reads an NCCL or RCCL topology, an hwloc export (1.x, 2.x, 3.x) or the output of
/// `nvidia-smi topo -m`; which of them, its content says. Throws Error(InvalidArgument) whose text
/// names file, line or element, and what was expected; NotFound for a file that cannot be opened.
ReadTopology read_topology(Source const& source, Facts const& facts);
ReadTopology read_topology_file(std::string const& path, Facts const& facts);

}  // namespace mgi::topology
