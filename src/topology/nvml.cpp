#include "topology/nvml.hpp"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <utility>

#include "topology/bus_id.hpp"
#include "topology/rates.hpp"

namespace mgi::topology {
namespace {

constexpr unsigned kMostGpus = 1024;
constexpr unsigned kLinkUp = 1;

std::string bus_id_of(Nvml::PciInfo const& info) {
    char const* const end = std::find(std::begin(info.bus_id), std::end(info.bus_id), '\0');
    return parse_bus_id({std::begin(info.bus_id), end}).value_or("");
}

bool is_zero(unsigned char const (&bytes)[16]) {
    return std::all_of(std::begin(bytes), std::end(bytes), [](unsigned char b) { return b == 0; });
}

/// Empty for a GPU whose NVLinks end in its server: its cluster is all zeros.
std::string domain_of(Nvml const& nvml, Nvml::Device device) {
    Nvml::FabricInfo info{};
    if (nvml.fabric == nullptr || nvml.fabric(device, &info) != Nvml::kSuccess ||
        info.state != Nvml::kFabricComplete || info.status != Nvml::kSuccess ||
        is_zero(info.cluster)) {
        return {};
    }
    std::string text;
    for (unsigned char const byte : info.cluster) {
        char digits[3];
        std::snprintf(digits, sizeof(digits), "%02x", byte);
        text += digits;
    }
    return text + "." + std::to_string(info.clique);
}

/// NVLinks to peers of which NVML does not say what they are, by bus id.
using UnknownPeers = std::map<std::string, std::uint32_t>;

void read_links(Nvml const& nvml, Nvml::Device device, NvmlGpu& gpu, UnknownPeers& unknown) {
    for (unsigned link = 0; link < Nvml::kMostLinks; ++link) {
        unsigned state = 0;
        if (nvml.link_state(device, link, &state) != Nvml::kSuccess) continue;
        Nvml::PciInfo peer{};
        if (state != kLinkUp || nvml.link_peer(device, link, &peer) != Nvml::kSuccess) {
            ++gpu.down;
            continue;
        }
        int type = -1;
        if (nvml.link_peer_type == nullptr ||
            nvml.link_peer_type(device, link, &type) != Nvml::kSuccess) {
            type = -1;
        }
        if (type == Nvml::PowerNpu) {
            ++gpu.to_cpu;
        } else if (type == Nvml::Switch) {
            ++gpu.to_switch;
        } else if (type == Nvml::Gpu) {
            ++gpu.to_gpus[bus_id_of(peer)];
        } else {
            ++unknown[bus_id_of(peer)];
        }
    }
}

std::optional<NvmlGpu> read_gpu(Nvml const& nvml, unsigned index, UnknownPeers& unknown) {
    Nvml::Device device = nullptr;
    Nvml::PciInfo info{};
    if (nvml.device(index, &device) != Nvml::kSuccess ||
        nvml.pci(device, &info) != Nvml::kSuccess) {
        return std::nullopt;
    }
    NvmlGpu gpu;
    gpu.bus_id = bus_id_of(info);
    if (gpu.bus_id.empty()) return std::nullopt;
    char name[96] = "";
    if (nvml.name(device, name, sizeof(name)) == Nvml::kSuccess) {
        name[sizeof(name) - 1] = '\0';
        gpu.name = name;
    }
    int major = 0;
    int minor = 0;
    if (nvml.compute_capability(device, &major, &minor) == Nvml::kSuccess) {
        gpu.sm = 10 * major + minor;
    }
    unsigned generation = 0;
    unsigned width = 0;
    if (nvml.pcie_generation(device, &generation) == Nvml::kSuccess &&
        nvml.pcie_width(device, &width) == Nvml::kSuccess) {
        auto const transfers = pcie_transfers(generation);
        auto const lanes = known_lanes(width == UINT_MAX ? -1 : std::int64_t(width));
        if (transfers && lanes) gpu.pcie_gbps = pcie_encoded_gbps(*transfers, *lanes).value_or(0);
    }
    read_links(nvml, device, gpu, unknown);
    gpu.domain = domain_of(nvml, device);
    return gpu;
}

/// Tells peers apart, once all GPUs are known. A GPU that is none of them is one that this process may
/// not see, as in a container. A peer of which NVML does not say what it is, and that is none of the
/// GPUs, is an NVSwitch.
void settle_peers(std::vector<NvmlGpu>& gpus, std::vector<UnknownPeers> const& unknown) {
    auto const is_gpu = [&](std::string const& bus_id) {
        return std::any_of(gpus.begin(), gpus.end(),
                           [&](NvmlGpu const& gpu) { return gpu.bus_id == bus_id; });
    };
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        NvmlGpu& gpu = gpus[i];
        std::erase_if(gpu.to_gpus, [&](auto const& peer) {
            if (is_gpu(peer.first)) return false;
            gpu.to_hidden += peer.second;
            return true;
        });
        for (auto const& [bus_id, links] : unknown[i]) {
            (is_gpu(bus_id) ? gpu.to_gpus[bus_id] : gpu.to_switch) += links;
        }
    }
}

}  // namespace

std::optional<Nvml> Nvml::load() {
    char const* const told = std::getenv("MGI_NVML_LIBRARY");
    return load(told != nullptr && *told != '\0' ? told : "libnvidia-ml.so.1");
}

std::optional<Nvml> Nvml::load(std::string const& library_name) {
    auto const made = std::make_shared<SharedLibrary const>(library_name);
    SharedLibrary const& library = *made;
    Nvml nvml;
    if (!library.get("nvmlInit_v2", nvml.init) || !library.get("nvmlShutdown", nvml.shutdown) ||
        !library.get("nvmlDeviceGetCount_v2", nvml.count) ||
        !library.get("nvmlDeviceGetHandleByIndex_v2", nvml.device) ||
        !library.get("nvmlDeviceGetPciInfo_v3", nvml.pci) ||
        !library.get("nvmlDeviceGetName", nvml.name) ||
        !library.get("nvmlDeviceGetCudaComputeCapability", nvml.compute_capability) ||
        !library.get("nvmlDeviceGetMaxPcieLinkGeneration", nvml.pcie_generation) ||
        !library.get("nvmlDeviceGetMaxPcieLinkWidth", nvml.pcie_width) ||
        !library.get("nvmlDeviceGetNvLinkState", nvml.link_state) ||
        !library.get("nvmlDeviceGetNvLinkRemotePciInfo_v2", nvml.link_peer)) {
        return std::nullopt;
    }
    library.get("nvmlDeviceGetNvLinkRemoteDeviceType", nvml.link_peer_type);
    library.get("nvmlDeviceGetGpuFabricInfo", nvml.fabric);
    nvml.origin = made;
    return nvml;
}

NvmlReport ask_nvml(Nvml const& nvml) {
    NvmlReport report;
    if (nvml.init() != Nvml::kSuccess) {
        report.problems.emplace_back("NVML does not start: is the NVIDIA driver loaded?");
        return report;
    }
    unsigned count = 0;
    if (nvml.count(&count) != Nvml::kSuccess) {
        report.problems.emplace_back("NVML does not say how many GPUs there are");
        count = 0;
    }
    std::vector<UnknownPeers> unknown;  // of each GPU
    for (unsigned i = 0; i < std::min(count, kMostGpus); ++i) {
        UnknownPeers peers;
        if (auto gpu = read_gpu(nvml, i, peers)) {
            report.gpus.push_back(std::move(*gpu));
            unknown.push_back(std::move(peers));
        } else {
            report.problems.push_back("NVML: GPU " + std::to_string(i) +
                                      " does not answer; left out");
        }
    }
    nvml.shutdown();
    settle_peers(report.gpus, unknown);
    return report;
}

}  // namespace mgi::topology
