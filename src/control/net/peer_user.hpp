/// \file
/// Whose process has the other end of a connection within this machine: the kernel knows it, so that neither side must prove it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mgi::control::net {

struct OtherEnd {
    std::optional<std::uint32_t>
        user;  ///< whose process holds it, or listens there until it is accepted
    bool closed = false;
    std::string
        why;  ///< there is no user: it is closed, not on this machine, or the kernel does not tell
};

/// Of a TCP connection over the loopback interface. Thread-safe.
OtherEnd other_end(int socket);

/// Why the other end is not this process' user's or root's, or nothing. Users who have no number in this process' user namespace are
/// never this one.
std::string wrong_user(OtherEnd const& end);

}  // namespace mgi::control::net
