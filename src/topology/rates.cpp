#include "topology/rates.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace mgi::topology {
namespace {

struct PcieRate {
    double transfers;  ///< GT/s
    double rate;       ///< eightieths of a GB/s a lane
};
constexpr std::array<PcieRate, 6> kPcie{
    {{2.5, 15}, {5, 30}, {8, 60}, {16, 120}, {32, 240}, {64, 480}}};

constexpr std::array<std::pair<std::string_view, double>, 19> kCpus{{{"amd", 16},
                                                                     {"arm", 6},
                                                                     {"arm64", 6},
                                                                     {"aarch64", 6},
                                                                     {"intel_hsw", 6},
                                                                     {"intel_bdw", 6},
                                                                     {"intel_skl", 10},
                                                                     {"intel_clx", 10},
                                                                     {"intel_icx", 10},
                                                                     {"intel_spr", 22},
                                                                     {"intel_srp", 22},
                                                                     {"intel_gnr", 22},
                                                                     {"intel_emr", 40},
                                                                     {"intel_erp", 40},
                                                                     {"ppc", 32},
                                                                     {"ppc64", 32},
                                                                     {"power", 32},
                                                                     {"zhaoxin", 6},
                                                                     {"zhaoxin_kh40000", 9}}};

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> heads) {
    return std::any_of(heads.begin(), heads.end(),
                       [&](std::string_view head) { return text.starts_with(head); });
}

template <std::size_t N>
std::optional<double> look_up(std::array<std::pair<std::string_view, double>, N> const& table,
                              std::string_view key) {
    for (auto const& [known, value] : table) {
        if (known == key) return value;
    }
    return std::nullopt;
}

}  // namespace

std::optional<double> pcie_gbps(double transfers, std::int64_t width) noexcept {
    for (PcieRate const& known : kPcie) {
        if (known.transfers == transfers) return double(width) * known.rate / 80;
    }
    return std::nullopt;
}

std::optional<double> pcie_encoded_gbps(double transfers, std::int64_t width) noexcept {
    if (!pcie_gbps(transfers, width)) return std::nullopt;
    // 8 bits of 10 until Gen2, 128 of 130 from Gen3 on.
    double const payload = transfers < 8 ? 0.8 : 128.0 / 130;
    return double(width) * transfers * payload / 8;
}

std::optional<double> pcie_transfers(std::int64_t generation) noexcept {
    if (generation < 1 || generation > std::int64_t(kPcie.size())) return std::nullopt;
    return kPcie[std::size_t(generation - 1)].transfers;
}

std::optional<std::int64_t> known_lanes(std::int64_t written) noexcept {
    if (written <= 0 || written == 255) return std::nullopt;
    return written;
}

std::optional<double> known_mbps(double written) noexcept {
    if (written <= 0 || written == UINT16_MAX || written == UINT32_MAX) return std::nullopt;
    return written;
}

double nvlink_gbps(std::optional<std::int64_t> sm) noexcept {
    if (!sm) return 20;
    if (*sm >= 100) return 40.1;
    if (*sm >= 90) return 20.6;
    if (*sm == 86) return 12;
    if (*sm >= 70) return 20;
    if (*sm >= 60) return 18;
    return 20;
}

std::int64_t nvlinks_of(std::optional<std::int64_t> sm) noexcept {
    if (!sm || *sm >= 90) return 18;
    if (*sm == 86) return 4;
    if (*sm >= 80) return 12;
    if (*sm >= 70) return 6;
    return 4;
}

double xgmi_gbps(std::string_view gcn) noexcept {
    // RCCL's older files have a number: "908" is gfx908, and "910" is gfx90a.
    if (gcn == "910" || gcn.starts_with("gfx90a")) return 36;
    if (starts_with_any(gcn, {"gfx94", "gfx95", "94", "95"})) return 48;
    return 24;
}

std::optional<double> cpu_gbps(CpuModel const& cpu) noexcept {
    if (starts_with_any(cpu.architecture, {"arm64", "aarch64"})) return 6;
    if (cpu.architecture.starts_with("ppc64")) return 32;
    if (cpu.vendor == "AuthenticAMD") return 16;
    if (cpu.vendor == "GenuineIntel" && cpu.model) {
        if (*cpu.model >= 207) return 40;  // Emerald Rapids
        if (*cpu.model >= 143) return 22;  // Sapphire Rapids
        if (*cpu.model >= 85) return 10;   // Skylake
        return 6;
    }
    if (cpu.vendor == "CentaurHauls" || cpu.vendor.find("Shanghai") != std::string::npos) {
        return cpu.family == 7 && cpu.model == 91 ? 9 : 6;  // KH-40000
    }
    return std::nullopt;
}

std::optional<double> cpu_gbps_named(std::string_view name) noexcept {
    return look_up(kCpus, name);
}

std::string cpu_names() {
    std::string names;
    for (auto const& known : kCpus) {
        if (!names.empty()) names += ", ";
        names += known.first;
    }
    return names;
}

}  // namespace mgi::topology
