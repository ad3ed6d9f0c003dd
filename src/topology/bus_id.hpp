/// \file
/// PCI addresses: "domain:bus:device.function" in hexadecimal.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mgi::topology {

/// In lower case and with a domain of 4 digits, more where it needs them; nothing where it is none. NVML
/// writes domains of 8 digits, sysfs of 4, and files mix them.
std::optional<std::string> parse_bus_id(std::string_view text);

/// What the functions of one device share: the bus id without ".function".
std::string_view device_of(std::string_view bus_id) noexcept;

/// Whether this text is the address under which NVIDIA's driver hides NVSwitches from a virtual machine
/// or a server of an NVLink domain: "fffffff:ff:ff.0", cut short by older NCCL as "fffffff:ffff:ff".
bool is_hidden(std::string_view text) noexcept;

}  // namespace mgi::topology
