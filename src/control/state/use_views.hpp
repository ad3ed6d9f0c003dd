/// \file
/// What channels and NICs do, from servers' figures.
#pragma once

#include "control/state/snapshot.hpp"

namespace mgi::control {

/// Fills in flows, paths and waits of the channels that are not over, and the servers' NICs.
void add_uses(Snapshot& snapshot);

}  // namespace mgi::control
