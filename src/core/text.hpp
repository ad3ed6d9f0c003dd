/// \file
/// Numbers as people read them, for errors and logs; words of lists; texts as numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mgi {

/// A text as all readers of files take it, whoever wrote it: without UTF-8's byte order mark, and with
/// every line's end (CR LF, CR) as a newline.
std::string plain_text(std::string text);

/// "512 bytes", "1.5 GiB": binary units, one digit behind the point where there is one.
std::string bytes_text(std::uint64_t bytes);

/// "1, 2, 5"
std::string list_text(std::vector<std::uint32_t> const& numbers);

/// What stands before the next `mark`, or all that is left; takes both away from `left`.
std::string_view take_word(std::string_view& left, char mark);

/// UTF-8 with a space for each character that moves a terminal or a log elsewhere: control characters of ASCII and beyond it (C1), line
/// and paragraph separators, and those that turn the direction of what follows.
std::string without_controls(std::string_view text);

/// With small letters for the large ones of ASCII, whatever the locale.
std::string lower_case(std::string_view text);

/// FNV-1a, the same in all processes: against damage and confusion, not against anybody.
std::uint64_t text_hash(std::string_view text);

/// Hexadecimal digits, without zeros ahead.
std::string hex_text(std::uint64_t number);

}  // namespace mgi
