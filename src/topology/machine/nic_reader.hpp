/// \file
/// What the ports of this machine's NICs do now, from sysfs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "topology/machine/local_nics.hpp"

namespace mgi::topology {

/// Of all ports of a NIC together.
struct NicState {
    bool up = false;  ///< one of them is
    double mbps = 0;  ///< of those that are up; 0: not known of all of them
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    std::optional<std::uint64_t> falls;  ///< how often a link was lost, where the kernel counts it
};

/// Single-threaded. May wait: some drivers ask their device, under the kernel's lock of all interfaces.
class NicReader {
public:
    explicit NicReader(std::vector<LocalNic> nics, std::filesystem::path sys = "/sys");

    /// Of each NIC, in their order. Rates are costly: without `rates` they are as last read, but of a
    /// NIC that has gone down or come up since.
    std::vector<NicState> const& read(bool rates);

private:
    std::vector<LocalNic> nics_;
    std::filesystem::path sys_;
    std::vector<NicState> states_;
};

}  // namespace mgi::topology
