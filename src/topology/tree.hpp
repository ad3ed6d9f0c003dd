/// \file
/// An infrastructure graph as text for people.
#pragma once

#include <string>

#include "topology/infrastructure.hpp"

namespace mgi::topology {

/// A line a vertex, indented below its parent, with the GB/s of its link upward and (behind "->") of
/// its links elsewhere:
///
///     server 0
///       cpu0 (AuthenticAMD)  -> cpu1 16
///         pci 0000:01:00.0  24
///           gpu 0000:02:00.0 (sm 80)  24  -> nvswitch 240
///           nic 0000:03:00.0  24  -> network 25
std::string tree_text(Infrastructure const& infrastructure);

}  // namespace mgi::topology
