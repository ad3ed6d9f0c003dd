/// \file
/// PCI addresses: "domain:bus:device.function" in hexadecimal.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mgi::topology {

/// In lower case; nothing where it is none. A domain has 4 to 8 digits (virtual ones have more than
/// the usual 4).
std::optional<std::string> parse_bus_id(std::string_view text);

/// What the functions of one device share: the bus id without ".function".
std::string_view device_of(std::string_view bus_id) noexcept;

/// Whether this is the address under which NVIDIA's driver hides NVSwitches from a virtual machine or
/// a server of an NVLink domain ("fffffff:ff:ff.0").
bool is_hidden(std::string_view bus_id) noexcept;

}  // namespace mgi::topology
