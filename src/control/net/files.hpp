/// \file
/// How many descriptors this process may have, and how many of them connections may take.
#pragma once

#include <cstddef>

namespace mgi::control::net {

/// As many open files as the system lets this process have: the usual limit is 1024. Once, at the
/// program's start.
void allow_many_files();

/// How many connections this process may hold at a time: its limit of open files without a reserve for
/// everything else (files, the web side, etcd, the planner). At least 16.
std::size_t most_connections();

}  // namespace mgi::control::net
