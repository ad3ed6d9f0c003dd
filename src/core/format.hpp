/// \file
/// Text with values in it: fmt's format strings, of which "{}" is all that is used. Built without fmt
/// (MGI_THIRD_PARTY=OFF) a few lines do the same.
#pragma once

#if MGI_WITH_SPDLOG

#include <fmt/core.h>

#include <string>

namespace mgi {

template <class... Args>
using FormatText = fmt::format_string<Args...>;

/// What `formatted` does, compiled once (format.cpp), and with it fmt, which is slow to compile.
std::string formatted_values(fmt::string_view words, fmt::format_args values);

/// A value for each "{}". Not "format", which std::string's namespace may have as well.
template <class... Args>
std::string formatted(FormatText<Args...> words, Args&&... args) {
    return formatted_values(words, fmt::make_format_args(args...));
}

}  // namespace mgi

#else

#include "core/plain_format.hpp"

namespace mgi {

using plain::formatted;
using plain::FormatText;

}  // namespace mgi

#endif
