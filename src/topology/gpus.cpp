#include "topology/gpus.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <locale>
#include <utility>

#include <mgi/error.hpp>

#include "topology/bus_id.hpp"
#include "topology/rates.hpp"

namespace mgi::topology {
namespace {

std::string uuid_text(gpu::Uuid const& uuid) {
    std::string text = "GPU";
    for (std::size_t i = 0; i < sizeof(uuid.bytes); ++i) {
        if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        std::array<char, 3> digits{};
        std::snprintf(digits.data(), digits.size(), "%02x", unsigned(uuid.bytes[i]) & 0xff);
        text += digits.data();
    }
    return text;
}

/// The number that a file of sysfs begins with: "32.0 GT/s PCIe".
std::optional<double> number_of(std::filesystem::path const& file) {
    std::ifstream stream(file);
    stream.imbue(std::locale::classic());
    double value = 0;
    if (!(stream >> value)) return std::nullopt;
    return value;
}

class Reader {
public:
    Reader(gpu::Driver const& driver, std::filesystem::path const& sys)
        : driver_(driver), devices_(sys / "bus/pci/devices") {}

    GpuReport read(NvmlReport const* nvml) {
        if (nvml != nullptr) report_.problems = nvml->problems;
        for (int ordinal = 0; ordinal < driver_.gpus(); ++ordinal) {
            try {
                report_.gpus.push_back(gpu_of(ordinal, nvml));
            } catch (Error const& error) {
                report_.problems.push_back(std::string(error.what()) + "; left out");
            }
        }
        return std::move(report_);
    }

private:
    Gpu gpu_of(int ordinal, NvmlReport const* nvml) {
        gpu::Ordinal device = 0;
        check(driver_.cuDeviceGet(&device, ordinal), "its handle", ordinal);
        Gpu gpu;
        gpu.ordinal = ordinal;
        std::array<char, 256> text{};
        check(driver_.cuDeviceGetName(text.data(), int(text.size()), device), "its name", ordinal);
        gpu.model = text.data();
        check(driver_.cuDeviceGetPCIBusId(text.data(), int(text.size()), device), "its bus id",
              ordinal);
        gpu.bus_id = parse_bus_id(text.data()).value_or(text.data());
        gpu::Uuid uuid{};
        check(driver_.cuDeviceGetUuid(&uuid, device), "its UUID", ordinal);
        gpu.uuid = uuid_text(uuid);
        std::size_t bytes = 0;
        check(driver_.cuDeviceTotalMem(&bytes, device), "its memory", ordinal);
        gpu.memory_bytes = bytes;
        auto const number = [&](gpu::Attribute attribute, char const* what) {
            int value = 0;
            check(driver_.cuDeviceGetAttribute(&value, attribute, device), what, ordinal);
            return value;
        };
        gpu.sm = 10 * number(gpu::kComputeCapabilityMajor, "its compute capability") +
                 number(gpu::kComputeCapabilityMinor, "its compute capability");
        gpu.multiprocessors = number(gpu::kMultiprocessorCount, "its multiprocessors");
        gpu.numa_node = int(number_of(devices_ / gpu.bus_id / "numa_node").value_or(-1));
        // Two transfers a clock, in kHz; bits.
        gpu.memory_gbps = 2e3 * number(gpu::kMemoryClockKhz, "its memory's clock") *
                          number(gpu::kMemoryBusBits, "its memory's width") / 8 / 1e9;
        if (gpu.memory_gbps <= 0) {
            gpu.memory_gbps = kDefaultGpuMemoryGbps;
            assume(ordinal, "its memory's rate is not known; 1000 GB/s assumed");
        }
        find_links(gpu, nvml);
        find_pcie(gpu);
        find_peers(gpu, device);
        return gpu;
    }

    static void find_links(Gpu& gpu, NvmlReport const* nvml) {
        if (nvml == nullptr) return;
        auto const at = std::find_if(nvml->gpus.begin(), nvml->gpus.end(),
                                     [&](NvmlGpu const& one) { return one.bus_id == gpu.bus_id; });
        if (at != nvml->gpus.end()) gpu.nvml = *at;
    }

    void find_pcie(Gpu& gpu) {
        if (gpu.nvml && gpu.nvml->pcie_gbps > 0) {
            gpu.pcie_gbps = gpu.nvml->pcie_gbps;
            return;
        }
        auto const transfers = number_of(devices_ / gpu.bus_id / "max_link_speed");
        auto const width = number_of(devices_ / gpu.bus_id / "max_link_width");
        auto const lanes = known_lanes(std::int64_t(width.value_or(0)));
        if (transfers && lanes) gpu.pcie_gbps = pcie_encoded_gbps(*transfers, *lanes).value_or(0);
        if (gpu.pcie_gbps > 0) return;
        gpu.pcie_gbps = kDefaultDeviceGbps;
        assume(gpu.ordinal, "its PCIe link's rate is not known; 15.75 GB/s assumed");
    }

    void find_peers(Gpu& gpu, gpu::Ordinal device) {
        gpu.reaches.assign(std::size_t(driver_.gpus()), false);
        for (int other = 0; other < driver_.gpus(); ++other) {
            if (other == gpu.ordinal) {
                gpu.reaches[std::size_t(other)] = true;
                continue;
            }
            // A peer that does not answer is left out by itself.
            gpu::Ordinal peer = 0;
            int reaches = 0;
            gpu.reaches[std::size_t(other)] =
                driver_.cuDeviceGet(&peer, other) == gpu::kSuccess &&
                driver_.cuDeviceCanAccessPeer(&reaches, device, peer) == gpu::kSuccess &&
                reaches != 0;
        }
    }

    void check(gpu::Result result, std::string_view what, int ordinal) const {
        driver_.check(result, what, ordinal);
    }

    void assume(int ordinal, std::string const& what) {
        report_.problems.push_back("cuda:" + std::to_string(ordinal) + ": " + what);
    }

    gpu::Driver const& driver_;
    std::filesystem::path devices_;
    GpuReport report_;
};

}  // namespace

GpuReport discover_gpus(gpu::Driver const& driver, std::optional<Nvml> const& nvml,
                        std::filesystem::path const& sys) {
    if (!nvml) return Reader(driver, sys).read(nullptr);
    NvmlReport const links = ask_nvml(*nvml);
    return Reader(driver, sys).read(&links);
}

GpuReport discover_gpus() {
    auto const* const driver = gpu::Driver::find();
    if (driver == nullptr) return {};
    return discover_gpus(*driver, Nvml::load());
}

Device device_of(Gpu const& gpu, std::uint32_t index) {
    Device device;
    device.index = index;
    device.name = "cuda:" + std::to_string(gpu.ordinal);
    device.kind = VertexKind::Gpu;
    device.ordinal = gpu.ordinal;
    device.memory_bytes = gpu.memory_bytes;
    device.numa_node = gpu.numa_node;
    device.bus_id = gpu.bus_id;
    device.uuid = gpu.uuid;
    return device;
}

}  // namespace mgi::topology
