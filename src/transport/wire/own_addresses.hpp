// The addresses of this machine's NICs.
#pragma once

#include <string>
#include <vector>

#include "transport/wire/socket.hpp"

namespace mgi::transport::wire {

struct OwnAddress {
    std::string nic;  // "eth0"
    Address address;  // with port 0
};

// `wanted` are addresses as numbers, or names of interfaces, whose first address is taken (IPv4 before
// IPv6). One for each. Throws Error(NotFound) that lists what the machine has.
std::vector<OwnAddress> own_addresses(std::vector<std::string> const& wanted);

// The interface that has this address. Throws Error(NotFound).
std::string interface_of(Address const& address);

}  // namespace mgi::transport::wire
