#include "core/variable.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>

#include <mgi/error.hpp>

namespace mgi {

std::string_view variable(char const* name) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): whoever changes the environment meanwhile is on his own
    char const* const text = std::getenv(name);
    return text == nullptr ? std::string_view() : std::string_view(text);
}

std::size_t word_in_variable(char const* name, std::initializer_list<std::string_view> words) {
    std::string_view const said = variable(name);
    if (said.empty()) return 0;
    auto const at = std::find(words.begin(), words.end(), said);
    if (at != words.end()) return std::size_t(std::distance(words.begin(), at));
    std::string expected;
    for (auto word = words.begin(); word != words.end(); ++word) {
        if (!expected.empty()) expected += std::next(word) == words.end() ? " or " : ", ";
        expected += *word;
    }
    throw Error(ErrorCode::InvalidArgument,
                std::string(name) + " is '" + std::string(said) + "'; expected " + expected);
}

}  // namespace mgi
