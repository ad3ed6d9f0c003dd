/// \file
/// What a NIC's model says of it: its port's nominal rate, and whether it is a part of another NIC.
#pragma once

#include <optional>
#include <string_view>

namespace mgi::topology {

/// A NIC whose rate nobody knows, in megabits a second.
inline constexpr double kDefaultNicMbps = 10'000;

/// Megabits a second of one port. `pci_id` is vendor and device in lower case ("15b3:1021"), `name` what
/// the PCI id list calls it ("I210 Gigabit Network Connection"; may be empty). Nothing for a model that is
/// not known and whose name has no rate.
std::optional<double> nic_mbps(std::string_view pci_id, std::string_view name = {}) noexcept;

/// Whether it is a virtual function, which shares the ports of a NIC.
bool is_virtual_function(std::string_view pci_id, std::string_view name = {}) noexcept;

}  // namespace mgi::topology
