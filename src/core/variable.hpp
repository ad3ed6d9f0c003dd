// What the user says in a variable of the environment.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string_view>

namespace mgi {

// Its text; empty where it is not set.
[[nodiscard]] std::string_view variable(char const* name);

// Which of the words it says; the first where it is not set or empty. Throws Error(InvalidArgument) for any other.
[[nodiscard]] std::size_t word_in_variable(char const* name,
                                           std::initializer_list<std::string_view> words);

}  // namespace mgi
