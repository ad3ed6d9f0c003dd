/// \file
/// How fast links of a known kind are, in gigabytes a second and one direction: the capacity model
/// that all readers share. The figures are what NCCL and RCCL reckon with, so that a plan and NCCL
/// agree on a machine's bottleneck.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mgi::topology {

/// No limit of its own: a NIC that the file puts straight under a CPU, `<pcilink>`, a bridge of
/// unknown speed.
inline constexpr double kUnlimitedGbps = 5000;
/// Between CPUs of an unknown model.
inline constexpr double kDefaultCpuGbps = 10;
/// hwloc: a GPU or NIC whose link speed the file does not have; Gen3 x16 after encoding.
inline constexpr double kDefaultDeviceGbps = 15.753846;
/// The memory of a GPU that does not say how fast it is.
inline constexpr double kDefaultGpuMemoryGbps = 1000;

/// Of one PCIe lane times `width`, from the transfer rate in GT/s (2.5, 5, 8, 16, 32, 64); nothing
/// for another rate.
std::optional<double> pcie_gbps(double transfers, std::int64_t width) noexcept;
/// The same after the line's encoding, which is what hwloc counts: Gen3 x16 is 15.753846, not 12.
std::optional<double> pcie_encoded_gbps(double transfers, std::int64_t width) noexcept;
/// GT/s of PCIe generation 1 to 6; nothing for another one.
std::optional<double> pcie_transfers(std::int64_t generation) noexcept;
/// Gen3, which an unknown rate is taken for.
inline constexpr double kDefaultTransfers = 8;

/// Of one NVLink of a GPU whose compute capability is `sm` (90 is 9.0); nothing is an unknown GPU.
double nvlink_gbps(std::optional<std::int64_t> sm) noexcept;
/// NVLinks that a GPU of this compute capability has; more can only be seen through a switch.
std::int64_t nvlinks_of(std::optional<std::int64_t> sm) noexcept;
/// Of one xGMI link of a GPU whose architecture is `gcn` ("gfx90a", or RCCL's number for it, "910").
double xgmi_gbps(std::string_view gcn) noexcept;

/// A CPU as topology files describe it; empty or nothing where they do not.
struct CpuModel {
    std::string architecture;  ///< "x86_64", "arm64" or "aarch64", "ppc64" or "ppc64le"
    std::string vendor;        ///< as CPUID spells it, "GenuineIntel"
    std::optional<std::int64_t> family;
    std::optional<std::int64_t> model;
};

/// Out of a CPU toward each other CPU of its server; nothing for a CPU that is not known.
std::optional<double> cpu_gbps(CpuModel const& cpu) noexcept;
/// The same by the names that people use: "intel_skl", "amd", ... (cpu_names() lists them).
std::optional<double> cpu_gbps_named(std::string_view name) noexcept;
std::string cpu_names();

/// Lanes of a link as Linux and NCCL write them; nothing for 0, -1 and 255, which mean "not known".
std::optional<std::int64_t> known_lanes(std::int64_t written) noexcept;
/// Megabits a second as Linux and NCCL write them; nothing for 0, -1, and -1 as an unsigned number of
/// 16 or 32 bits, which mean "not known".
std::optional<double> known_mbps(double written) noexcept;

}  // namespace mgi::topology
