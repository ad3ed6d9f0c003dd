/// \file
/// How much memory the process really holds (Linux: /proc/self).
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace mgi::perf {

/// Bytes of a line of /proc/self/status that is given in kB; 0 where there is none.
inline std::uint64_t status_bytes(std::string const& name) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.rfind(name + ":", 0) == 0) return std::stoull(line.substr(name.size() + 1)) * 1024;
    }
    return 0;
}

/// Resident memory's growth from construction to its peak since then.
class ResidentGrowth {
public:
    ResidentGrowth() {
        std::ofstream("/proc/self/clear_refs") << "5";  // starts the peak anew
        before_ = status_bytes("VmRSS");
    }
    [[nodiscard]] std::uint64_t peak_bytes() const {
        std::uint64_t const peak = status_bytes("VmHWM");
        return peak > before_ ? peak - before_ : 0;
    }

private:
    std::uint64_t before_;
};

}  // namespace mgi::perf
