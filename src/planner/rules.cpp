#include "planner/rules.hpp"

namespace mgi::planner {

std::string to_text(PathRules const& rules) {
    std::string text;
    auto const say = [&](char const* what) {
        text += (text.empty() ? " (with " : ", ") + std::string(what);
    };
    if (!rules.relay_gpus) say("no relay through other GPUs");
    if (!rules.relay_host) say("no relay through host memory");
    if (rules.max_nics != 0) say("a limit of NICs");
    return text.empty() ? text : text + ")";
}

}  // namespace mgi::planner
