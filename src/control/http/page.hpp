/// \file
/// The controller's status page: one file of HTML, style and script (page.html), built in.
#pragma once

#include <string_view>

namespace mgi::control {

[[nodiscard]] std::string_view status_page();

}  // namespace mgi::control
