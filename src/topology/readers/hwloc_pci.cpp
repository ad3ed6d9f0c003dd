#include "topology/readers/hwloc_pci.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace mgi::topology {
namespace {

constexpr std::string_view kAmd = "1002";
constexpr std::string_view kIntel = "8086";
constexpr std::string_view kNvidia = "10de";
constexpr std::array<std::string_view, 3> kGpuLibraries{"cuda", "nvml", "rsmi"};

/// AMD's small display chips on servers' mainboards, which compute nothing.
constexpr std::array<std::string_view, 4> kDisplayChips{"1002:4752", "1002:515e", "1002:515f",
                                                        "1002:5159"};

bool is_hex(std::string_view text, std::size_t digits) {
    return text.size() == digits &&
           text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

std::string lower(std::string_view text) {
    std::string made(text);
    std::transform(made.begin(), made.end(), made.begin(),
                   [](char c) { return c >= 'A' && c <= 'F' ? char(c - 'A' + 'a') : c; });
    return made;
}

}  // namespace

bool PciType::is_gpu() const {
    // Processing accelerators, and 3D controllers without a display.
    if (device_class == "1200" || device_class == "0302") return true;
    if (!device_class.starts_with("03")) return false;
    // Servers have display adapters, too: mainboards' (ASPEED, Matrox) and virtual machines'.
    if (vendor == kNvidia) return true;
    if (vendor == kAmd) {
        return std::find(kDisplayChips.begin(), kDisplayChips.end(), device) == kDisplayChips.end();
    }
    return vendor == kIntel && device_class != "0300";
}

bool PciType::is_nic() const {
    return device_class.starts_with("02") || device_class == "0c06";  // 0c06: older InfiniBand
}

PciType pci_type_of(XmlElement const& object) {
    std::string_view const text = object.required("pci_type");
    // "0302 [10de:2330] ..."
    if (text.size() < 16 || !is_hex(text.substr(0, 4), 4) || text.substr(4, 2) != " [" ||
        !is_hex(text.substr(6, 4), 4) || text[10] != ':' || !is_hex(text.substr(11, 4), 4) ||
        text[15] != ']') {
        object.fail("pci_type is " + in_quotes(text) +
                    "; expected class [vendor:device] such as 0302 [10de:2330]");
    }
    return {lower(text.substr(0, 4)), lower(text.substr(6, 4)), lower(text.substr(6, 9))};
}

bool is_computing(XmlElement const& object) {
    for (XmlElement const& os_device : object.children("object")) {
        std::string_view const name = os_device.text("name");
        if (std::any_of(kGpuLibraries.begin(), kGpuLibraries.end(),
                        [&](std::string_view library) { return name.starts_with(library); })) {
            return true;
        }
    }
    return false;
}

}  // namespace mgi::topology
