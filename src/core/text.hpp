/// \file
/// Numbers as people read them, for errors and logs; words of lists.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mgi {

/// "512 bytes", "1.5 GiB": binary units, one digit behind the point where there is one.
std::string bytes_text(std::uint64_t bytes);

/// "1, 2, 5"
std::string list_text(std::vector<std::uint32_t> const& numbers);

/// What stands before the next `mark`, or all that is left; takes both away from `left`.
std::string_view take_word(std::string_view& left, char mark);

}  // namespace mgi
