#include "runtime/gpu_sharing.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>

#include <mgi/error.hpp>

#include "gpu/memory.hpp"

namespace mgi {

namespace {

bool is_wanted() {
    char const* const set = std::getenv("MGI_GPU_IPC");
    std::string const said = set == nullptr ? "" : set;
    if (said.empty() || said == "on") return true;
    if (said == "off") return false;
    throw Error(ErrorCode::InvalidArgument, "MGI_GPU_IPC is '" + said + "'; expected on or off");
}

// Memory is handed over within one kernel and its namespaces of processes and of IPC.
std::string home_on(std::string const& server) {
    std::string home = server;
    std::string boot;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    home += ' ' + boot;
    for (char const* space : {"/proc/self/ns/pid", "/proc/self/ns/ipc"}) {
        std::error_code none;
        home += ' ' + std::filesystem::read_symlink(space, none).string();
    }
    return home;
}

}  // namespace

GpuCard gpu_card(ChannelSpec const& spec, std::vector<Device> const& devices,
                 std::string const& server) {
    GpuCard card;
    if (!is_wanted()) return card;
    std::set<int> own;
    auto const gpu_of = [&](Endpoint endpoint) -> Device const* {
        if (endpoint.device >= devices.size()) return nullptr;
        Device const& device = devices[endpoint.device];
        if (device.kind != VertexKind::Gpu) return nullptr;
        own.insert(device.ordinal);
        return &device;
    };
    for (Endpoint const source : spec.sources) (void)gpu_of(source);
    for (std::uint32_t d = 0; d < spec.destinations.size(); ++d) {
        Device const* const gpu = gpu_of(spec.destinations[d]);
        if (gpu != nullptr) card.destinations[d] = gpu->bus_id;
    }
    if (own.empty()) return card;
    card.home = home_on(server);
    for (Device const& device : devices) {
        bool const is_peer =
            device.kind == VertexKind::Gpu && std::all_of(own.begin(), own.end(), [&](int gpu) {
                return gpu::reaches(gpu, device.ordinal);
            });
        if (is_peer) card.peers.push_back(device.bus_id);
    }
    return card;
}

std::vector<std::vector<bool>> who_writes(std::vector<GpuCard> const& cards,
                                          std::size_t destinations) {
    std::vector<std::vector<bool>> writes(cards.size(), std::vector<bool>(destinations));
    for (std::size_t from = 0; from < cards.size(); ++from) {
        auto const& peers = cards[from].peers;
        for (std::size_t to = 0; to < cards.size(); ++to) {
            if (from == to || cards[from].home != cards[to].home) continue;
            for (auto const& [destination, bus_id] : cards[to].destinations) {
                writes[from].at(destination) =
                    std::find(peers.begin(), peers.end(), bus_id) != peers.end();
            }
        }
    }
    return writes;
}

}  // namespace mgi
