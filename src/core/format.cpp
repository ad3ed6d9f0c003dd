#include "core/format.hpp"

#if MGI_WITH_SPDLOG

#include <fmt/format.h>

namespace mgi {

std::string formatted_values(fmt::string_view words, fmt::format_args values) {
    return fmt::vformat(words, values);
}

}  // namespace mgi

#endif
