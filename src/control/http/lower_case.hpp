/// \file
/// Names that have no case.
#pragma once

#include <string>
#include <string_view>

namespace mgi::control {

/// With small letters for the large ones of ASCII, whatever the locale.
inline std::string lower_case(std::string_view text) {
    std::string made(text);
    for (char& c : made) {
        if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
    }
    return made;
}

}  // namespace mgi::control
