// NVML of the fake driver's machine, in the same library, which MGI_NVML_LIBRARY names too. It shows all
// GPUs, whatever CUDA_VISIBLE_DEVICES says, on PCIe 5.0 x16. MGI_FAKE_CUDA_LINKS has their NVLinks: "switch:18"
// (of each), or pairs "0-1:4,1-2:2" (both ways).
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "gpu_driver/fake_cuda.hpp"
#include "topology/nvml.hpp"

using mgi::topology::Nvml;

namespace {

struct FakeGpu {
    std::string bus_id;
    std::vector<std::string> links;  // the other end's bus id; empty: a switch's
};

std::vector<FakeGpu>& all() {
    static auto* const made = new std::vector<FakeGpu>;
    return *made;
}

FakeGpu& of(Nvml::Device device) {
    return *static_cast<FakeGpu*>(device);
}

// "0000:0a:00.0" with a domain of 8 digits, as NVML writes it.
void write(Nvml::PciInfo* info, std::string const& bus_id) {
    std::memset(info, 0, sizeof(*info));
    std::string const text = bus_id.empty() ? "FFFFFFFF:FF:FF.0" : "0000" + bus_id;
    std::snprintf(info->bus_id, sizeof(info->bus_id), "%s", text.c_str());
}

void add_links(std::vector<FakeGpu>& gpus, std::string const& text) {
    unsigned a = 0;
    unsigned b = 0;
    int count = 0;
    for (char const* at = text.c_str(); *at != '\0'; at += *at == ',') {
        int read = 0;
        if (std::sscanf(at, "switch:%d%n", &count, &read) == 1) {
            for (FakeGpu& gpu : gpus) gpu.links.insert(gpu.links.end(), std::size_t(count), "");
        } else if (std::sscanf(at, "%u-%u:%d%n", &a, &b, &count, &read) == 3 && a < gpus.size() &&
                   b < gpus.size()) {
            gpus[a].links.insert(gpus[a].links.end(), std::size_t(count), gpus[b].bus_id);
            gpus[b].links.insert(gpus[b].links.end(), std::size_t(count), gpus[a].bus_id);
        } else {
            std::abort();  // a test's mistake
        }
        at += read;
    }
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int nvmlInit_v2() {
    mgi::fake::Machine& machine = mgi::fake::Machine::one();
    std::lock_guard const lock(machine.mutex);
    machine.read_environment();
    all().clear();
    for (std::string const& bus_id : machine.bus) all().push_back({bus_id, {}});
    char const* const links = std::getenv("MGI_FAKE_CUDA_LINKS");
    if (links != nullptr) add_links(all(), links);
    return 0;
}

int nvmlShutdown() {
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
    *count = unsigned(all().size());
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Nvml::Device* device) {
    *device = &all()[index];
    return 0;
}

int nvmlDeviceGetPciInfo_v3(Nvml::Device device, Nvml::PciInfo* info) {
    write(info, of(device).bus_id);
    return 0;
}

int nvmlDeviceGetName(Nvml::Device, char* name, unsigned bytes) {
    std::snprintf(name, bytes, "%s", mgi::fake::Machine::one().name.c_str());
    return 0;
}

int nvmlDeviceGetCudaComputeCapability(Nvml::Device, int* major, int* minor) {
    *major = mgi::fake::Machine::one().sm / 10;
    *minor = mgi::fake::Machine::one().sm % 10;
    return 0;
}

int nvmlDeviceGetMaxPcieLinkGeneration(Nvml::Device, unsigned* generation) {
    *generation = 5;
    return 0;
}

int nvmlDeviceGetMaxPcieLinkWidth(Nvml::Device, unsigned* width) {
    *width = 16;
    return 0;
}

int nvmlDeviceGetNvLinkState(Nvml::Device device, unsigned link, unsigned* state) {
    if (link >= of(device).links.size()) return 2;
    *state = 1;
    return 0;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(Nvml::Device device, unsigned link, Nvml::PciInfo* peer) {
    write(peer, of(device).links[link]);
    return 0;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(Nvml::Device device, unsigned link, int* type) {
    *type = of(device).links[link].empty() ? Nvml::Switch : Nvml::Gpu;
    return 0;
}

}  // extern "C"
#pragma GCC visibility pop
