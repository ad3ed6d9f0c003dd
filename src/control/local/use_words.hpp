// How an application says to its agent what it does with a channel (ClusterUse), and how that is read.
#pragma once

#include <mgi/cluster.hpp>

#include "control/local/cbor.hpp"

namespace mgi::control {

/// A message `use` names at most so many channels, so that it stays well below kMostRequestBytes.
inline constexpr std::size_t kMostUsesAtOnce = 16;

Json json_of(ClusterUse const& use);
/// What is not said is 0: older applications say rows and bytes alone. Throws Error(InvalidArgument), also
/// for more paths, waits or names than there may be.
ClusterUse use_in(Json const& message);

}  // namespace mgi::control
