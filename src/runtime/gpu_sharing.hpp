// What processes of one server tell each other so that kernels of one reach the memory of another one's GPU, or so that
// it copies segments straight there, where a link would bring them by the host's. The memory itself goes by
// gpu_handover.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <mgi/channel.hpp>
#include <mgi/graph.hpp>

#include "gpu/memory.hpp"
#include "runtime/channel_tables.hpp"
#include "runtime/part.hpp"

namespace mgi {

// Of one process, before it has memory for a channel.
// GPUs by their UUIDs.
struct GpuCard {
    std::string home;  // equal for processes that can hand memory to each other; empty: cannot
    std::vector<std::string> own;                       // that it has endpoints on
    std::vector<std::string> peers;                     // that all of these copy to
    std::map<std::uint32_t, std::string> destinations;  // its own on GPUs, by number
    std::set<std::uint32_t> without;  // members whose memory it has found that it cannot use
    bool maps = false;  // its GPUs have memory that is mapped, and reach each other; else not known
    std::string door;   // where memory is handed to it
};

// A GPU's memory of a channel, which others import.
struct SharedGpuPool {
    bool mapped = false;  // handed over as a descriptor, in the order of those; else by its handle
    // With that: DeviceMemory::number. 0: its owner does not keep it for other channels, nor may a process that imports it.
    std::uint64_t number = 0;
    gpu::IpcHandle handle{};
    std::uint64_t bytes = 0;
    // Where others read in place: its endpoints there, and how many of the bytes have their tables and segments.
    Here here;
    std::uint64_t used = 0;
};
// And where it has the segments that come from a source in another process: the first one's place.
struct SharedGpuRing {
    std::uint32_t pool = 0;
    std::uint32_t source = 0;
    std::uint32_t destination = 0;
    std::uint64_t offset = 0;
};
// Of one process, behind it.
struct SharedGpus {
    std::vector<SharedGpuPool> pools;
    std::vector<SharedGpuRing> rings;
};

// What a process has found that it cannot share; it stays so, and links do it. Thread-safe.
class GpuRefusals {
public:
    // Another process could not have its own memory.
    void note_own();
    [[nodiscard]] bool own() const;
    // It could not have that of a rank.
    void note(std::uint32_t rank);
    [[nodiscard]] bool of(std::uint32_t rank) const;

private:
    mutable std::mutex mutex_;
    bool own_ = false;
    std::set<std::uint32_t> ranks_;
};

// Another process' memory cannot be had here.
class NotSharedHere : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Whether that is of the driver's making, and links do without; else the GPU is lost, or its memory full.
bool is_refusal(Error const& error);

// How a GPU shares its memory: mapped where its driver has that, unless $MGI_GPU_IPC says plain.
gpu::Shared shared_kind(int gpu);

// Where this process is: equal for those that can hand memory to each other; empty: it cannot.
std::string home_on(std::string const& server);

// This process' card; an empty one where none of its GPUs takes part. `may_be`: see may_be_peers. $MGI_GPU_IPC: off makes
// it empty. Throws Error(InvalidArgument) for other words.
GpuCard gpu_card(ChannelSpec const& spec, std::vector<Device> const& devices,
                 std::string const& server, bool may_be);
// Says which members copy into which other ones' GPUs, whose cards these are, or that all read in place.
void note_cards(PartMembers& members, std::vector<GpuCard> const& cards, ChannelSpec const& spec);
// Whether each one's kernels may write into all others' memory. Of cards that say whether GPUs have mapped memory.
bool are_all_peers(std::vector<GpuCard> const& cards);
// Whether members read in place, should all of their GPUs be peers.
bool may_be_peers(ChannelSpec const& spec, PartMembers const& members);

}  // namespace mgi
