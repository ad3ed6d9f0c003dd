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

bool contains(std::vector<std::string> const& gpus, std::string const& uuid) {
    return std::find(gpus.begin(), gpus.end(), uuid) != gpus.end();
}

bool map_and_connect(std::set<int> const& gpus) {
    return std::all_of(gpus.begin(), gpus.end(), [&](int one) {
        return shared_kind(one) == gpu::Shared::Mapped &&
               std::all_of(gpus.begin(), gpus.end(), [one](int other) {
                   return other == one || gpu::connect_peers(one, other);
               });
    });
}

}  // namespace

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
                 std::string const& server, bool may_be) {
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
    std::set<int> numbers;
    for (Device const* gpu : own) {
        numbers.insert(gpu->ordinal);
        if (!contains(card.own, gpu->uuid)) card.own.push_back(gpu->uuid);
    }
    card.maps = may_be && map_and_connect(numbers);
    for (Device const& device : devices) {
        bool const is_peer = device.kind == VertexKind::Gpu &&
                             std::all_of(own.begin(), own.end(), [&](Device const* gpu) {
                                 return gpu::reaches(gpu->ordinal, device.ordinal);
                             });
        if (is_peer) card.peers.push_back(device.uuid);
    }
    return card;
}

bool may_be_peers(ChannelSpec const& spec, PartMembers const& members) {
    auto const all = [](std::vector<bool> const& of) {
        return std::find(of.begin(), of.end(), false) == of.end();
    };
    return spec.options.by_reference && device::has_own_lanes(spec.routing.kind) &&
           members.on_gpus() && all(members.source_on_gpu) && all(members.destination_on_gpu);
}

namespace {

// Of two members. They share no GPU: there kernels take turns, and would wait for each other.
bool are_peers(GpuCard const& one, GpuCard const& other) {
    return one.home == other.home &&
           std::all_of(other.own.begin(), other.own.end(), [&](std::string const& gpu) {
               return contains(one.peers, gpu) && !contains(one.own, gpu);
           });
}

}  // namespace

bool are_all_peers(std::vector<GpuCard> const& cards) {
    for (std::size_t i = 0; i < cards.size(); ++i) {
        if (cards[i].home.empty() || !cards[i].maps || !cards[i].without.empty()) return false;
        for (std::size_t j = 0; j < cards.size(); ++j) {
            if (i != j && !are_peers(cards[i], cards[j])) return false;
        }
    }
    return true;
}

void note_cards(PartMembers& members, std::vector<GpuCard> const& cards, ChannelSpec const& spec) {
    members.in_place = may_be_peers(spec, members) && are_all_peers(cards);
    if (members.in_place) {
        members.writes.clear();
        members.writes_own_gpus = false;
        return;
    }
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
