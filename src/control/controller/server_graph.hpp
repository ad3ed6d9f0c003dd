/// \file
/// A server's graph as agents register it, and as the planner takes it.
#pragma once

#include <string>

#include "control/proto/control.pb.h"
#include "topology/infrastructure.hpp"

namespace mgi::control {

/// The way back from what the agent's `message_of` makes. Links of 0 GB/s are down, and left out.
topology::Infrastructure infrastructure_of(ServerGraph const& graph);

/// The NVLink domain that the server shares with others; empty: none.
std::string domain_of(ServerGraph const& graph);

}  // namespace mgi::control
