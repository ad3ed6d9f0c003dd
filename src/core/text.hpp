/// \file
/// Numbers as people read them, for errors and logs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mgi {

/// "512 bytes", "1.5 GiB": binary units, one digit behind the point where there is one.
std::string bytes_text(std::uint64_t bytes);

/// "1, 2, 5"
std::string list_text(std::vector<std::uint32_t> const& numbers);

}  // namespace mgi
