#include "topology/nic_models.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

namespace mgi::topology {
namespace {

struct Model {
    std::string_view pci_id;
    double mbps;  ///< of a port, at its best
};

/// Sources: the PCI id list and, where that has no rate, the vendors' product pages. By id.
constexpr std::array<Model, 85> kModels{{
    {"10ec:8125", 2'500},    // RTL8125
    {"10ec:8168", 1'000},    // RTL8111
    {"14e4:1639", 1'000},    // BCM5709
    {"14e4:163a", 1'000},    // BCM5709S
    {"14e4:163b", 1'000},    // BCM5716
    {"14e4:164e", 10'000},   // BCM57711
    {"14e4:1656", 1'000},    // BCM5718
    {"14e4:1657", 1'000},    // BCM5719
    {"14e4:165f", 1'000},    // BCM5720
    {"14e4:168e", 10'000},   // BCM57810
    {"14e4:16d6", 10'000},   // BCM57412
    {"14e4:16d7", 25'000},   // BCM57414
    {"14e4:16d8", 10'000},   // BCM57416
    {"14e4:1750", 100'000},  // BCM57508
    {"14e4:1760", 400'000},  // BCM57608
    {"15b3:1003", 56'000},   // ConnectX-3
    {"15b3:1004", 56'000},   // ConnectX-3 VF
    {"15b3:1007", 56'000},   // ConnectX-3 Pro
    {"15b3:1011", 56'000},   // Connect-IB
    {"15b3:1013", 100'000},  // ConnectX-4
    {"15b3:1014", 100'000},  // ConnectX-4 VF
    {"15b3:1015", 25'000},   // ConnectX-4 Lx
    {"15b3:1016", 25'000},   // ConnectX-4 Lx VF
    {"15b3:1017", 100'000},  // ConnectX-5
    {"15b3:1018", 100'000},  // ConnectX-5 VF
    {"15b3:1019", 100'000},  // ConnectX-5 Ex
    {"15b3:101a", 100'000},  // ConnectX-5 Ex VF
    {"15b3:101b", 200'000},  // ConnectX-6
    {"15b3:101c", 200'000},  // ConnectX-6 VF
    {"15b3:101d", 100'000},  // ConnectX-6 Dx
    {"15b3:101e", 100'000},  // ConnectX-6 Dx VF and later
    {"15b3:101f", 25'000},   // ConnectX-6 Lx
    {"15b3:1021", 400'000},  // ConnectX-7
    {"15b3:1023", 800'000},  // ConnectX-8
    {"15b3:634a", 20'000},   // ConnectX DDR
    {"15b3:6732", 20'000},   // ConnectX DDR
    {"15b3:673c", 40'000},   // ConnectX QDR
    {"15b3:6746", 40'000},   // ConnectX QDR
    {"15b3:6750", 10'000},   // ConnectX EN
    {"15b3:6764", 10'000},   // ConnectX EN
    {"15b3:a2d2", 100'000},  // BlueField
    {"15b3:a2d6", 200'000},  // BlueField-2
    {"15b3:a2dc", 400'000},  // BlueField-3
    {"17db:0501", 200'000},  // Slingshot 11
    {"1d0f:ec20", 100'000},  // ENA
    {"1d0f:efa0", 100'000},  // EFA
    {"1d0f:efa1", 100'000},  // EFA
    {"1d0f:efa2", 200'000},  // EFA
    {"1d0f:efa3", 400'000},  // EFA
    {"8086:10a7", 1'000},    // 82575
    {"8086:10c9", 1'000},    // 82576
    {"8086:10d3", 1'000},    // 82574L
    {"8086:10e6", 1'000},    // 82576 fiber
    {"8086:10e7", 1'000},    // 82576 backplane
    {"8086:10fb", 10'000},   // 82599ES
    {"8086:125b", 2'500},    // I226-LM
    {"8086:125c", 2'500},    // I226-V
    {"8086:1521", 1'000},    // I350
    {"8086:1522", 1'000},    // I350 fiber
    {"8086:1523", 1'000},    // I350 backplane
    {"8086:1528", 10'000},   // X540
    {"8086:1533", 1'000},    // I210
    {"8086:1536", 1'000},    // I210 fiber
    {"8086:1537", 1'000},    // I210 backplane
    {"8086:1538", 1'000},    // I210 SGMII
    {"8086:1539", 1'000},    // I211
    {"8086:1557", 10'000},   // 82599
    {"8086:1563", 10'000},   // X550
    {"8086:1572", 10'000},   // X710
    {"8086:157b", 1'000},    // I210 without flash
    {"8086:157c", 1'000},    // I210 without flash
    {"8086:1583", 40'000},   // XL710
    {"8086:1584", 40'000},   // XL710
    {"8086:1589", 10'000},   // X710-T
    {"8086:158a", 25'000},   // XXV710
    {"8086:158b", 25'000},   // XXV710
    {"8086:1591", 100'000},  // E810-C backplane
    {"8086:1592", 100'000},  // E810-C
    {"8086:1593", 25'000},   // E810-C for SFP
    {"8086:159b", 25'000},   // E810-XXV
    {"8086:24f0", 100'000},  // Omni-Path
    {"8086:24f1", 100'000},  // Omni-Path
    {"8086:37d0", 10'000},   // X722
    {"8086:37d1", 1'000},    // X722
    {"8086:37d2", 10'000},   // X722
}};
static_assert(std::is_sorted(kModels.begin(), kModels.end(),
                             [](Model const& a, Model const& b) { return a.pci_id < b.pci_id; }));

/// Those that the PCI id list calls virtual functions.
constexpr std::array<std::string_view, 25> kVirtualFunctions{
    "14e4:1606", "14e4:1607", "14e4:1609", "14e4:16af", "14e4:16dc", "14e4:16e1", "14e4:1806",
    "15b3:1002", "15b3:1004", "15b3:1012", "15b3:1014", "15b3:1016", "15b3:1018", "15b3:101a",
    "15b3:101c", "15b3:101e", "8086:10ca", "8086:10ed", "8086:1515", "8086:1520", "8086:154c",
    "8086:1565", "8086:1571", "8086:1889", "8086:37cd"};

struct Word {
    std::string_view text;
    double mbps;
};

/// Generations of InfiniBand at four lanes, as the PCI id list has them: "IB QDR".
constexpr std::array<Word, 8> kGenerations{{{"SDR", 10'000},
                                            {"DDR", 20'000},
                                            {"QDR", 40'000},
                                            {"FDR", 56'000},
                                            {"EDR", 100'000},
                                            {"HDR", 200'000},
                                            {"NDR", 400'000},
                                            {"XDR", 800'000}}};
/// What stands behind a number of gigabits: "25Gb", "10GigE", "10-Gigabit", "2.5GBASE-T".
constexpr std::array<std::string_view, 3> kGigabits{"Gb", "Gig", "GBASE"};
/// Numbers of gigabits that ports have; "82576 Gigabit" is none.
constexpr std::array<double, 13> kRates{1, 2.5, 5, 10, 20, 25, 40, 50, 56, 100, 200, 400, 800};

bool is_letter(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool has_word(std::string_view name, std::string_view word) noexcept {
    for (std::size_t at = name.find(word); at != std::string_view::npos;
         at = name.find(word, at + 1)) {
        std::size_t const end = at + word.size();
        if ((at == 0 || !is_letter(name[at - 1])) && (end == name.size() || !is_letter(name[end])))
            return true;
    }
    return false;
}

/// The largest number of gigabits in a name, in megabits; 0 where there is none.
double mbps_in(std::string_view name) noexcept {
    double most = has_word(name, "Gigabit") ? 1000 : 0;
    for (Word const& generation : kGenerations) {
        if (has_word(name, generation.text)) most = std::max(most, generation.mbps);
    }
    for (std::size_t at = 0; at < name.size(); ++at) {
        double gigabits = 0;
        auto const [end, error] =
            std::from_chars(name.data() + at, name.data() + name.size(), gigabits);
        if (error != std::errc{}) continue;
        std::size_t const stop = std::size_t(end - name.data());
        std::string_view rest = name.substr(stop);
        if (rest.starts_with(' ') || rest.starts_with('-')) rest.remove_prefix(1);
        bool const is_rate =
            std::find(kRates.begin(), kRates.end(), gigabits) != kRates.end() &&
            std::any_of(kGigabits.begin(), kGigabits.end(),
                        [&](std::string_view unit) { return rest.starts_with(unit); });
        if (is_rate) most = std::max(most, gigabits * 1000);
        at = stop;
    }
    return most;
}

}  // namespace

std::optional<double> nic_mbps(std::string_view pci_id, std::string_view name) noexcept {
    for (Model const& known : kModels) {
        if (known.pci_id == pci_id) return known.mbps;
    }
    double const named = mbps_in(name);
    if (named > 0) return named;
    return std::nullopt;
}

bool is_virtual_function(std::string_view pci_id, std::string_view name) noexcept {
    return name.find("Virtual Function") != std::string_view::npos ||
           std::find(kVirtualFunctions.begin(), kVirtualFunctions.end(), pci_id) !=
               kVirtualFunctions.end();
}

}  // namespace mgi::topology
