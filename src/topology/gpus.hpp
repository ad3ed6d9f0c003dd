/// \file
/// The GPUs that this process sees: what NVIDIA's driver says of them, and NVML of their links.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <mgi/graph.hpp>

#include "gpu/driver.hpp"
#include "topology/nvml.hpp"

namespace mgi::topology {

struct Gpu {
    int ordinal = 0;      ///< N of "cuda:N"
    std::string model;    ///< "NVIDIA H200"
    std::string uuid;     ///< "GPU-0123...", as nvidia-smi prints it
    std::string bus_id;   ///< as parse_bus_id() has it
    int numa_node = -1;   ///< -1: not known
    std::int64_t sm = 0;  ///< compute capability, 90 is 9.0
    int multiprocessors = 0;
    std::uint64_t memory_bytes = 0;
    double memory_gbps = 0;       ///< what its memory reads and writes, both together
    double pcie_gbps = 0;         ///< to the host and back, each; what the link can do at its best
    std::vector<bool> reaches;    ///< by ordinal: whether its kernels may use that GPU's memory
    std::optional<NvmlGpu> nvml;  ///< its NVLinks; nothing: not known
};

struct GpuReport {
    std::vector<Gpu> gpus;  ///< by ordinal
    std::vector<std::string> problems;
};

/// A GPU that does not answer is left out, and a problem says so; what nobody says is assumed, with a
/// problem. Makes no context on any GPU. `sys` is where sysfs is mounted.
GpuReport discover_gpus(gpu::Driver const& driver, std::optional<Nvml> const& nvml,
                        std::filesystem::path const& sys = "/sys");
/// Of this machine. No GPU where there is no driver, at the price of looking for it once.
GpuReport discover_gpus();

/// The device "cuda:N" of a GPU. `index` is its place among the devices of the process.
Device device_of(Gpu const& gpu, std::uint32_t index);

}  // namespace mgi::topology
