/// \file
/// The controller's status as text tables.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>

namespace mgi::control {

/// Of a list longer than `most` the first are shown, what failed before what runs.
std::string status_text(nlohmann::json const& status, std::size_t most);

}  // namespace mgi::control
