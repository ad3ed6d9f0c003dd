#include "runtime/gpu_channels.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <utility>

#include <mgi/device/tile.hpp>

#include "gpu/memory.hpp"
#include "gpu/peers.hpp"
#include "runtime/checks.hpp"

namespace mgi {

namespace {

// Measured on an H200 (docs/performance.md): a block claims once a tile, so tiles fill half of what two
// blocks of a multiprocessor have of shared memory.
constexpr std::uint64_t kTileBytes = 64 << 10;
constexpr std::uint64_t kLeastSegment = 128 << 10;
constexpr std::uint64_t kLeastChunk = 256 << 10;

// Blocks fill several segments of a lane at once and read others: where all is on one GPU, many small ones, which
// come back soon. Copies between GPUs want large ones. Where CPU devices or other processes take part, some are pinned
// memory.
struct Segments {
    std::uint64_t pool;  // of all lanes
    std::uint64_t most;
    std::uint32_t slots;  // of a lane, at most
    std::uint64_t chunk;  // of a segment that has several, at most
};
constexpr std::uint32_t kSlots = 4;  // at least
constexpr Segments kOnOneGpu{512 << 20, 1 << 20, 128, 256 << 10};
// All blocks of a GPU fill some 40 MB of a lane at once; a ring of less than three times that is full now and then.
constexpr Segments kOnPeers{256 << 20, 256 << 10, 512, 256 << 10};  // a GPU
// A lane for all destinations is delivered by one thread at a time, and what is taken from a queue (Balance) by one block: 3 to 4 us a segment
// or chunk. Each copy takes some us to begin and to be seen, so there are several on their way.
constexpr Segments kOnGpus{512 << 20, 16 << 20, 16, 1 << 20};
constexpr Segments kWithCpus{128 << 20, 2 << 20, kSlots, 256 << 10};
constexpr std::uint32_t kGroups = 1024;
// Where a CPU device sends as well, whose groups' carry buffers are pinned.
constexpr std::uint32_t kGroupsBeside = 320;

// Of shared memory a block has up to 227 KiB, on an A100 163; the rest is for what kernels take themselves.
constexpr std::uint64_t kMostScratch = 144 << 10;

}  // namespace

std::vector<GpuMembers> gpu_members(ChannelSpec const& spec, std::vector<Device> const& devices) {
    std::map<int, Here> found;
    bool keeps = false;  // whether some destination can keep batches
    auto const add = [&](std::vector<Endpoint> const& endpoints, auto member) {
        for (std::uint32_t i = 0; i < endpoints.size(); ++i) {
            std::uint32_t const at = endpoints[i].device;
            bool const on_gpu = at < devices.size() && devices[at].kind == VertexKind::Gpu;
            if (on_gpu) (found[devices[at].ordinal].*member).push_back(i);
            keeps = keeps || (!on_gpu && member == &Here::destinations);
        }
    };
    add(spec.sources, &Here::sources);
    add(spec.destinations, &Here::destinations);
    std::vector<GpuMembers> gpus;
    for (auto& [gpu, here] : found) gpus.push_back({gpu, std::move(here)});
    if (gpus.empty()) return gpus;
    check_kept(spec, keeps);
    return gpus;
}

void check_kept(ChannelSpec const& spec, bool keeps) {
    if (spec.options.receive_limit == 0 || keeps) return;
    throw Error(ErrorCode::InvalidArgument,
                name_of(spec) + ": batches cannot be kept on a GPU; leave receive_limit at 0");
}

Transfer transfer_on_gpus(ChannelSpec const& spec, Transfer planned) {
    bool const one_hand =
        spec.routing.kind == device::RoutingKind::Balance ||
        (spec.options.ordered && spec.routing.kind == device::RoutingKind::Broadcast &&
         spec.sources.size() > 1);
    bool const in_place = spec.options.by_reference && !one_hand;
    return planned == Transfer::ByCopy && in_place ? Transfer::Mixed : planned;
}

namespace {

// Whether endpoints on these GPUs, which are all of a channel's, read in place what all have for them.
bool are_peers(ChannelSpec const& spec, std::vector<GpuMembers> const& gpus) {
    if (!spec.options.by_reference || !device::has_own_lanes(spec.routing.kind)) return false;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            if (!gpu::connect_peers(gpus[i].gpu, gpus[j].gpu)) return false;
        }
    }
    return true;
}

}  // namespace

OnlyGpus only_gpus(ChannelSpec const& spec, std::vector<GpuMembers> const& gpus) {
    std::size_t sources = 0;
    std::size_t destinations = 0;
    for (GpuMembers const& members : gpus) {
        sources += members.here.sources.size();
        destinations += members.here.destinations.size();
    }
    bool const send = sources == spec.sources.size();
    bool const take_part = send && destinations == spec.destinations.size();
    return {send, take_part, take_part && gpus.size() == 1,
            take_part && gpus.size() > 1 && are_peers(spec, gpus)};
}

ChannelOptions options_on_gpus(ChannelSpec const& spec, Schema const& schema, OnlyGpus only,
                               std::uint64_t memory_left, std::size_t gpus) {
    ChannelOptions options = spec.options;
    std::uint64_t const row = std::max<std::uint64_t>(schema.row_bytes(), 1);
    bool const own_lanes = device::has_own_lanes(spec.routing.kind);
    std::uint64_t const lanes = spec.sources.size() * (own_lanes ? spec.destinations.size() : 1);
    if (options.tile_rows == 0) {
        options.tile_rows = std::uint32_t(std::clamp<std::uint64_t>(kTileBytes / row, 32, 4096));
    }
    Segments sizes = only.one && own_lanes ? kOnOneGpu
                     : only.peers          ? kOnPeers
                     : only.take_part      ? kOnGpus
                                           : kWithCpus;
    if (options.segment_rows == 0 && options.segment_bytes == 0) {
        if (only.peers) sizes.pool *= gpus;
        std::uint64_t const slots = options.slots == 0 ? kSlots : options.slots;
        // By copy there is a receive pool of as many segments beside the lanes.
        std::uint64_t pool = std::min(sizes.pool / kSlots * slots, memory_left / 4 / 2);
        // What is allocated and never used takes time all the same.
        if (options.expected_bytes != 0) pool = std::min(pool, 2 * slots * options.expected_bytes);
        std::uint64_t const lane = pool / lanes;
        std::uint64_t const segment = std::clamp(lane / slots, kLeastSegment, sizes.most);
        options.segment_bytes = std::uint32_t(segment);
        if (options.slots == 0) {
            options.slots = std::uint32_t(
                std::clamp<std::uint64_t>(std::bit_floor(lane / segment), kSlots, sizes.slots));
        }
    }
    if (options.chunk_rows == 0) {
        // A segment of which less than two chunks fit is one.
        std::uint64_t const segment = options.segment_rows != 0
                                          ? options.segment_rows * row
                                          : std::uint64_t{options.segment_bytes};
        std::uint64_t const quarter = std::max(segment / 4, kLeastChunk);
        std::uint64_t const chunk = std::min(sizes.chunk, quarter) / row / 64 * 64;
        bool const exact = std::none_of(schema.fields().begin(), schema.fields().end(),
                                        [](Field const& of) { return of.type.is_variable(); });
        if (exact && options.receive_limit == 0 && chunk != 0 && segment >= 2 * kLeastChunk)
            options.chunk_rows = std::uint32_t(chunk);
    }
    if (options.slots == 0) options.slots = kSlots;
    if (options.max_groups == 0) options.max_groups = only.send ? kGroups : kGroupsBeside;
    return options;
}

std::uint32_t stage_rows_on_gpu(Schema const& schema, std::uint32_t segment_rows) {
    std::uint64_t const row = std::max<std::uint64_t>(schema.row_bytes(), 1);
    std::uint64_t const rows = std::clamp<std::uint64_t>(kTileBytes / row, 64, 4096);
    return std::uint32_t(std::min<std::uint64_t>(rows, segment_rows));
}

void stage_tiles(device::ChannelState<device::LibcuAtomics>& state) {
    // Their sizes are counted in 32 bits.
    if (std::uint64_t{state.tile_rows} * state.layout.row_bytes > kMostScratch) return;
    state.staged_bytes = device::staged_tile_bytes(state);
    if (device::tile_shape(state).scratch_bytes() > kMostScratch) state.staged_bytes = 0;
}

}  // namespace mgi
