/// \file
/// Numbers as text.
#pragma once

#include <charconv>
#include <string_view>
#include <system_error>

namespace mgi::topology {

/// Whether all of the text is a number of this type; `value` is it then.
template <class T>
bool read_whole(std::string_view text, T& value) {
    auto const [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && stop == text.data() + text.size();
}

/// The same for a number at the text's start, whatever comes behind it.
template <class T>
bool read_leading(std::string_view text, T& value) {
    return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc{};
}

}  // namespace mgi::topology
