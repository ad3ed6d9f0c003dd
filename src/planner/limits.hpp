/// \file
/// How large a server can be, so that planning a channel over it takes about a second at most, even
/// from all its GPUs to all. Cost grows with pairs, paths of a pair and links: GPUs below an
/// NVSwitch take 0.2 s if there are 64, 1 s if 128 and 5 s if 256; GPUs that have 4 neighbours each
/// 0.6 s and 3 s.
#pragma once

#include <cstddef>
#include <string>

namespace mgi::planner {

/// GPUs and CPUs that MGI manages.
inline constexpr std::size_t kMostManaged = 72;

/// Links of a server with more vertices than `SmallGraph` holds, which are searched more slowly.
inline constexpr std::size_t kMostLinks = 1024;
inline constexpr std::size_t kFewVertices = 64;

/// Why a server is too large, and what to do; empty where it is not.
std::string too_large(std::size_t managed, std::size_t vertices, std::size_t links);

}  // namespace mgi::planner
