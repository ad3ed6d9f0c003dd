#include "control/net/files.hpp"

#include <sys/resource.h>

#include <algorithm>

namespace mgi::control::net {

namespace {

constexpr std::size_t kReserve = 128;
constexpr std::size_t kFewest = 16;
constexpr std::size_t kMost = std::size_t{1} << 20;

}  // namespace

void allow_many_files() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

std::size_t most_connections() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kFewest;
    std::size_t const files = std::min<rlim_t>(limit.rlim_cur, kMost);
    return files > kReserve + kFewest ? files - kReserve : kFewest;
}

}  // namespace mgi::control::net
