/// \file
/// What kind of device an hwloc PCI object is.
#pragma once

#include <string>

#include "topology/readers/xml.hpp"

namespace mgi::topology {

/// From "0302 [10de:2330] [10de:16c1] a1".
struct PciType {
    std::string device_class;  ///< "0302"
    std::string vendor;        ///< "10de"
    std::string device;        ///< "10de:2330"

    [[nodiscard]] bool is_gpu() const;
    [[nodiscard]] bool is_nic() const;
};

/// Throws Error(InvalidArgument) where the object's `pci_type` is missing or something else.
PciType pci_type_of(XmlElement const& object);

/// Whether a GPU library (CUDA, NVML, ROCm) found the device, whatever its PCI class says.
bool is_computing(XmlElement const& object);

}  // namespace mgi::topology
