/// \file
/// Which text is UTF-8: names from files end up in JSON, SVG and Python, which take nothing else.
#pragma once

#include <cstddef>
#include <string_view>

namespace mgi::topology {

/// Where the first byte is that is part of no character of UTF-8; npos where there is none.
std::size_t first_non_utf8(std::string_view text) noexcept;

}  // namespace mgi::topology
