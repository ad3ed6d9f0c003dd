/// \file
/// What holds for every graph, whatever it was made from.
#pragma once

#include "topology/infrastructure.hpp"

namespace mgi::fuzz {

void check_graph(topology::Infrastructure const& made);

}  // namespace mgi::fuzz
