#include "runtime/gpu_sharing.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <mgi/error.hpp>

#include "core/log.hpp"
#include "core/variable.hpp"
#include "gpu/memory.hpp"
#include "gpu/peers.hpp"

namespace mgi {

namespace {

enum class Wanted : std::uint8_t { Any, Plain, None };

Wanted wanted() {
    return Wanted(word_in_variable("MGI_GPU_IPC", {"on", "plain", "off"}));
}

// Memory is handed over within one kernel and its namespaces: of processes and of IPC for handles, of the network
// for sockets. Empty where these are not to be seen.
std::string home_on(std::string const& server) {
    std::string home;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> home;
    if (home.empty()) return home;
    for (char const* space : {"/proc/self/ns/pid", "/proc/self/ns/ipc", "/proc/self/ns/net"}) {
        std::error_code failed;
        home += ' ' + std::filesystem::read_symlink(space, failed).string();
        if (failed) return {};
    }
    return home + ' ' + server;
}

bool contains(std::vector<std::string> const& gpus, std::string const& uuid) {
    return std::find(gpus.begin(), gpus.end(), uuid) != gpus.end();
}

}  // namespace

void GpuRefusals::note_own() {
    std::lock_guard const lock(mutex_);
    own_ = true;
}

bool GpuRefusals::own() const {
    std::lock_guard const lock(mutex_);
    return own_;
}

void GpuRefusals::note(std::uint32_t rank) {
    std::lock_guard const lock(mutex_);
    ranks_.insert(rank);
}

bool GpuRefusals::of(std::uint32_t rank) const {
    std::lock_guard const lock(mutex_);
    return ranks_.contains(rank);
}

bool is_refusal(Error const& error) {
    return error.code() != ErrorCode::GroupFailed && error.code() != ErrorCode::OutOfMemory;
}

gpu::Shared shared_kind(int gpu) {
    if (wanted() == Wanted::Plain) return gpu::Shared::Plainly;
    std::string const why = gpu::why_not_mapped(gpu);
    if (why.empty()) return gpu::Shared::Mapped;
    log::info("cuda:{} shares plain memory, since it has none that is mapped: {}", gpu, why);
    return gpu::Shared::Plainly;
}

GpuCard gpu_card(ChannelSpec const& spec, std::vector<Device> const& devices,
                 std::string const& server) {
    GpuCard card;
    if (wanted() == Wanted::None) return card;
    std::vector<Device const*> own;
    auto const gpu_of = [&](Endpoint endpoint) -> Device const* {
        bool const is_here = endpoint.device < devices.size();
        if (!is_here || devices[endpoint.device].kind != VertexKind::Gpu) return nullptr;
        return own.emplace_back(&devices[endpoint.device]);
    };
    for (Endpoint const source : spec.sources) (void)gpu_of(source);
    for (std::uint32_t d = 0; d < spec.destinations.size(); ++d) {
        Device const* const gpu = gpu_of(spec.destinations[d]);
        if (gpu != nullptr) card.destinations[d] = gpu->uuid;
    }
    if (own.empty()) return card;
    card.home = home_on(server);
    for (Device const* gpu : own) {
        if (!contains(card.own, gpu->uuid)) card.own.push_back(gpu->uuid);
    }
    for (Device const& device : devices) {
        bool const is_peer = device.kind == VertexKind::Gpu &&
                             std::all_of(own.begin(), own.end(), [&](Device const* gpu) {
                                 return gpu::reaches(gpu->ordinal, device.ordinal);
                             });
        if (is_peer) card.peers.push_back(device.uuid);
    }
    return card;
}

void note_cards(PartMembers& members, std::vector<GpuCard> const& cards) {
    std::size_t const destinations = members.destination_member.size();
    members.writes.assign(cards.size(), std::vector<bool>(destinations));
    members.writes_own_gpus = false;
    for (std::uint32_t d = 0; d < destinations; ++d) {
        std::uint32_t const to = members.destination_member[d];
        auto const at = cards[to].destinations.find(d);
        if (cards[to].home.empty() || at == cards[to].destinations.end()) continue;
        for (std::uint32_t from = 0; from < cards.size(); ++from) {
            if (from == to || cards[from].home != cards[to].home) continue;
            if (cards[from].without.contains(to)) continue;
            bool const writes = contains(cards[from].peers, at->second);
            members.writes[from][d] = writes;
            members.writes_own_gpus |=
                writes && from == members.me && contains(cards[from].own, at->second);
        }
    }
}

}  // namespace mgi
