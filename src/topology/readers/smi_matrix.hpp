/// \file
/// The table of `nvidia-smi topo -m` as it is printed: devices, cells, affinity columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "topology/readers/source.hpp"

namespace mgi::topology {

/// How a pair of devices is connected, the nearest first. NvLink says nothing of PCIe.
enum class SmiRelation : std::uint8_t { Self, Pix, Pxb, Phb, Node, Sys, NvLink };

struct SmiCell {
    SmiRelation relation = SmiRelation::Self;
    std::int64_t nvlinks = 0;  ///< the # of NV#
};

struct SmiDevice {
    std::string name;   ///< of a GPU "gpu0", of a NIC as its legend says, "mlx5_0"
    std::string label;  ///< as the table says, "NIC0"
    bool is_gpu = false;
    std::string cpu_affinity;   ///< "0-19,40-59"; empty where the table has none
    std::string numa_affinity;  ///< "0"
};

struct SmiMatrix {
    std::size_t line = 0;  ///< of its header
    std::vector<SmiDevice> devices;
    std::vector<SmiCell> cells;  ///< a row a device

    [[nodiscard]] SmiCell const& at(std::size_t row, std::size_t column) const {
        return cells[row * devices.size() + column];
    }
};

/// The tables of a text, one for each server. Throws Error(InvalidArgument) that names file and line where
/// there is none, a row is short or missing, a cell is unknown, or two cells of a pair disagree.
std::vector<SmiMatrix> read_smi_matrices(Source const& source);

}  // namespace mgi::topology
