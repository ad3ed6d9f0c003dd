/// \file
/// The status page's JSON.
#pragma once

#include <string>

#include "control/state/snapshot.hpp"

namespace mgi::control {

/// Who tells the status.
struct About {
    std::string controller;  ///< host:port that agents reach it by
    std::string leader;      ///< host:port of the leader, where that is another one; else empty
    std::string version;     ///< of MGI
};

/// As docs/control.md has it.
std::string status_json(Snapshot const& snapshot, About const& about);

}  // namespace mgi::control
