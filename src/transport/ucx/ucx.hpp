// Wires over UCX: RDMA where the NIC has it, TCP elsewhere. UCX is opened at run time; a build without its
// headers has none.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "transport/wire/medium.hpp"
#include "transport/wire/socket.hpp"

namespace mgi::transport::ucx {

// Opens UCX, which sets what of its environment the user has not: not in the wires' thread. Returns what makes a medium of the NIC that has an address: a context and a worker of its own. Both throw
// Error(NotFound) that says what is missing: UCX, or a NIC that it can use.
std::function<std::unique_ptr<wire::Medium>(wire::Address const&)> open();

// What UCX calls an interface: its RDMA devices first, "mlx5_0:1,eth0". `net` is /sys/class/net.
std::string devices_of(std::string const& interface, std::filesystem::path const& net);

}  // namespace mgi::transport::ucx
