/// \file
/// The cluster's status as one of several owners sees it.
#pragma once

#include <string>

namespace mgi::control {

/// The status JSON (docs/control.md) with the endpoints and channels of that owner alone, and without the list of failures, whose
/// texts name others'. Servers and their links stay: they are everybody's. Throws Error(Internal) for what is no status.
std::string own_status(std::string const& status, std::string const& owner);

}  // namespace mgi::control
