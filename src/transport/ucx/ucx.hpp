// Wires over UCX: RDMA where the NIC has it, TCP elsewhere. UCX is opened at run time; a build without its
// headers has none.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "transport/wire/medium.hpp"
#include "transport/wire/socket.hpp"

namespace mgi::transport::ucx {

// The NIC that has this address, a context and a worker of its own. Throws Error(NotFound) that says what is
// missing: UCX, or a NIC that it can use.
std::unique_ptr<wire::Medium> open_nic(wire::Address const& address);

// What UCX calls an interface: its RDMA devices first, "mlx5_0:1,eth0". `net` is /sys/class/net.
std::string devices_of(std::string const& interface, std::filesystem::path const& net);

}  // namespace mgi::transport::ucx
