#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "fuzz/targets.hpp"
#include "topology/sysfs.hpp"

namespace mgi::fuzz {

void core_list(Input input) {
    auto const cores = topology::parse_core_list(input.all());
    require(std::adjacent_find(cores.begin(), cores.end(), std::greater_equal<>()) == cores.end(),
            "cores are ascending, each once");
    require(cores.empty() || (cores.front() >= 0 && cores.back() < 1 << 16),
            "cores are numbers that a machine can have");
    if (cores.size() > 100) return;
    std::string again;
    for (int const core : cores) again += std::to_string(core) + ",";
    require(topology::parse_core_list(again) == cores, "a list of cores is read as it was written");
}

}  // namespace mgi::fuzz
