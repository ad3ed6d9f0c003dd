/// \file
/// NVIDIA's GPUs and their NVLinks, as NVML tells them. It comes with the driver and is opened at run
/// time; the declarations are our own, since the headers come with CUDA.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/shared_library.hpp"

namespace mgi::topology {

/// NVML's functions, by what they do. Those that older drivers lack may be null.
struct Nvml {
    using Device = void*;
    static constexpr int kSuccess = 0;
    static constexpr unsigned kMostLinks = 36;

    struct PciInfo {  // nvmlPciInfo_t
        char bus_id_legacy[16];
        unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
        char bus_id[32];
    };
    struct FabricInfo {  // nvmlGpuFabricInfo_t
        unsigned char cluster[16];
        int status;
        unsigned clique;
        unsigned char state;
    };
    static constexpr unsigned char kFabricComplete = 3;
    enum PeerType : int { Gpu = 0, PowerNpu = 1, Switch = 2 };

    int (*init)() = nullptr;
    int (*shutdown)() = nullptr;
    int (*count)(unsigned*) = nullptr;
    int (*device)(unsigned, Device*) = nullptr;
    int (*pci)(Device, PciInfo*) = nullptr;
    int (*name)(Device, char*, unsigned) = nullptr;
    int (*compute_capability)(Device, int*, int*) = nullptr;
    int (*pcie_generation)(Device, unsigned*) = nullptr;
    int (*pcie_width)(Device, unsigned*) = nullptr;
    int (*link_state)(Device, unsigned, unsigned*) = nullptr;
    int (*link_peer)(Device, unsigned, PciInfo*) = nullptr;
    int (*link_peer_type)(Device, unsigned, int*) = nullptr;  ///< since driver 460
    int (*fabric)(Device, FabricInfo*) = nullptr;             ///< since driver 525

    std::shared_ptr<SharedLibrary const> origin;  ///< the library that they are of; null for others

    /// Nothing where the library is not there, or too old. The environment variable MGI_NVML_LIBRARY has
    /// the name or path of another one in place of libnvidia-ml.so.1 (tests: NVLinks that are made up).
    static std::optional<Nvml> load();
    static std::optional<Nvml> load(std::string const& library);
};

struct NvmlGpu {
    std::string bus_id;  ///< as parse_bus_id() has it
    std::string name;
    std::optional<std::int64_t> sm;
    double pcie_gbps = 0;                          ///< that its link can do; 0: not known
    std::map<std::string, std::uint32_t> to_gpus;  ///< NVLinks by the peer's bus id
    std::uint32_t to_hidden = 0;                   ///< NVLinks to GPUs that NVML does not show here
    std::uint32_t to_switch = 0;
    std::uint32_t to_cpu = 0;
    std::uint32_t down = 0;  ///< NVLinks that the GPU has and that are not up
    std::string domain;      ///< the NVLink domain of several servers that it is in; empty: none
};

struct NvmlReport {
    std::vector<NvmlGpu> gpus;
    std::vector<std::string> problems;
};

/// All GPUs of this machine. One that does not answer is left out, and a problem says so.
NvmlReport ask_nvml(Nvml const& nvml);

}  // namespace mgi::topology
