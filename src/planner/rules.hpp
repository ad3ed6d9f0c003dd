/// \file
/// What a plan's paths may do.
#pragma once

#include <cstdint>
#include <string>

namespace mgi::planner {

struct PathRules {
    bool relay_gpus = true;      ///< other GPUs pass segments on (`--no-relay`: they do not)
    bool relay_host = true;      ///< so does host memory (`--no-host-relay`)
    std::uint32_t max_nics = 0;  ///< most NICs that one GPU uses, nearest first; 0: all
    auto operator<=>(PathRules const&) const = default;
};

/// For the end of an error's text: "" or " (with ...)".
std::string to_text(PathRules const& rules);

}  // namespace mgi::planner
