// The memory in which the processes of a server tell each other of its NICs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "mover/link/nic_words.hpp"

namespace mgi {

// Offers new memory through `share` (ClusterClient::share_board) and maps what it gives back, which may be
// another process'. Throws Error(OutOfMemory), InvalidArgument for memory that is no such words, and as
// `share` does.
std::shared_ptr<mover::link::NicWords> shared_nic_words(std::function<int(int)> const& share);

// What all processes that see this NIC ("eth0") call it; not 0. Throws Error(NotFound).
std::uint64_t name_on_server(std::string const& nic);

}  // namespace mgi
