/// \file
/// What core/format.hpp is where there is no fmt: "{}" and nothing else.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

namespace mgi::plain {

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

template <class... Args>
using FormatText = std::type_identity_t<std::string_view>;

/// A value for each "{}".
template <class... Args>
std::string formatted(FormatText<Args...> words, Args const&... args) {
    std::string text;
    std::string_view rest = words;
    ((append_words(text, rest), append(text, args)), ...);
    text += rest;
    return text;
}

}  // namespace mgi::plain
