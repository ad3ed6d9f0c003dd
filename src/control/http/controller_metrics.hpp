/// \file
/// The controller's metrics (docs/control.md has the list).
#pragma once

#include <string>

#include "control/state/snapshot.hpp"

namespace mgi::control {

/// `leads`: false for a controller that stands by, whose snapshot is empty.
std::string controller_metrics(Snapshot const& snapshot, bool leads);

}  // namespace mgi::control
