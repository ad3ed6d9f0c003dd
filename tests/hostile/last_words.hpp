/// \file
/// What is printed when the program dies by a signal or by a sanitizer's report: the seed at hand.
#pragma once

#include <string>

namespace mgi::hostile {

void install_last_words(char const* program);
std::string const& program_name();
void set_last_words(std::string const& text);
void say_last_words();

}  // namespace mgi::hostile
