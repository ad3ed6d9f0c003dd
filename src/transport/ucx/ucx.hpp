// Wires over UCX: RDMA where the NIC has it, TCP elsewhere. UCX is opened at run time; a build without its
// headers has none.
#pragma once

#include <filesystem>
#include <string>

#include "transport/wire/medium.hpp"

namespace mgi::transport::ucx {

// Opens UCX, which sets what of its environment the user has not: not in the wires' thread. The medium of a
// NIC has a context and a worker of its own. Throws Error(NotFound) where there is no UCX.
wire::OpenMedium open();

// What UCX calls an interface: its RDMA devices first, "mlx5_0:1,eth0". `net` is /sys/class/net.
std::string devices_of(std::string const& interface, std::filesystem::path const& net);

}  // namespace mgi::transport::ucx
