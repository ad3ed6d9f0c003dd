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

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

namespace mgi {

namespace formatting {

template <class Value>
void append(std::string& text, Value const& value) {
    if constexpr (std::is_same_v<Value, bool>) {
        text += value ? "true" : "false";
    } else if constexpr (std::is_same_v<Value, char>) {
        text += value;
    } else if constexpr (std::is_arithmetic_v<Value>) {
        text += std::to_string(value);
    } else {
        text += std::string_view(value);
    }
}

/// What stands before the next "{}", which it takes away from `rest`.
inline void append_words(std::string& text, std::string_view& rest) {
    auto const at = rest.find("{}");
    text += rest.substr(0, at);
    rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 2);
}

}  // namespace formatting

template <class... Args>
using FormatText = std::type_identity_t<std::string_view>;

/// A value for each "{}".
template <class... Args>
std::string formatted(FormatText<Args...> words, Args const&... args) {
    std::string text;
    std::string_view rest = words;
    ((formatting::append_words(text, rest), formatting::append(text, args)), ...);
    text += rest;
    return text;
}

}  // namespace mgi

#endif
