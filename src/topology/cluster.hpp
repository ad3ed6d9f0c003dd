/// \file
/// Servers' graphs as one (paper section 4.2): beside each other, and joined where they share a vertex.
#pragma once

#include <vector>

#include "topology/infrastructure.hpp"

namespace mgi::topology {

/// Server i of the cluster is *servers[i], a graph of one server; the same one may be there often. What
/// belongs to every server (the network, an NVLink domain) is one vertex for all that name it alike.
/// Throws Error(InvalidArgument) for no server, a graph of several, or one past the limits of
/// GraphBuilder.
Infrastructure join_servers(std::vector<Infrastructure const*> const& servers);

}  // namespace mgi::topology
