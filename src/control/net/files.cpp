#include "control/net/files.hpp"

#include <sys/resource.h>

#include <algorithm>

#include "core/process_limits.hpp"

namespace mgi::control::net {

namespace {

constexpr std::size_t kReserve = 128;
constexpr std::size_t kFewest = 16;
constexpr std::size_t kMost = std::size_t{1} << 20;

}  // namespace

void allow_many_files() {
    allow_most_files();
}

std::size_t most_connections() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kFewest;
    std::size_t const files = std::min<rlim_t>(limit.rlim_cur, kMost);
    return files > kReserve + kFewest ? files - kReserve : kFewest;
}

}  // namespace mgi::control::net
