/// \file
/// Systems by name: the paper's ten connectivities (Figure 2), its testbeds (Table 5) and topologies
/// (section 6.4), and machines that many have. Rates are topology/rates.hpp's, as for a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/infrastructure.hpp"

namespace mgi::topology {

struct PresetInfo {
    std::string_view name;
    std::string_view about;
    std::uint32_t servers = 1;  ///< that the system has
};

std::vector<PresetInfo> presets();

/// One server of the system, as a graph of its own. Throws Error(NotFound) that lists all names.
Infrastructure preset_server(std::string_view name);

/// `servers` of them joined at the network (and in NVLink domains of as many as one domain holds);
/// nothing: as many as the system has. Throws as above, and Error(InvalidArgument) for 0 servers or
/// more than a graph may hold (kMostVertices).
Infrastructure preset(std::string_view name, std::optional<std::uint32_t> servers = std::nullopt);

}  // namespace mgi::topology
