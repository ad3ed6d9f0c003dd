/// \file
/// Text with values in it: fmt's format strings, of which "{}" is all that is used. Built without fmt
/// (MGI_THIRD_PARTY=OFF) a few lines do the same.
#pragma once

#if MGI_WITH_SPDLOG

#include <fmt/format.h>

#include <string>
#include <utility>

namespace mgi {

template <class... Args>
using FormatText = fmt::format_string<Args...>;

/// A value for each "{}". Not "format", which std::string's namespace may have as well.
template <class... Args>
std::string formatted(FormatText<Args...> words, Args&&... args) {
    return fmt::format(words, std::forward<Args>(args)...);
}

}  // namespace mgi

#else

#include "core/plain_format.hpp"

namespace mgi {

using plain::formatted;
using plain::FormatText;

}  // namespace mgi

#endif
