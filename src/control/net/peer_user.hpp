/// \file
/// Whose process has the other end of a connection within this machine: the kernel knows it, so that neither side must prove it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mgi::control::net {

/// The user whose process holds the other end of a TCP connection over the loopback interface. None where the other end is closed
/// already, is not on this machine, or the kernel does not tell (`why`). Thread-safe.
std::optional<std::uint32_t> user_at_other_end(int socket, std::string& why);

/// Whether a connection goes over the loopback interface: its other end has a loopback address, or this end's own.
bool is_this_machine(int socket);

/// Why the other end is not this process' user's or root's, or nothing.
std::string wrong_user_at_other_end(int socket);

}  // namespace mgi::control::net
