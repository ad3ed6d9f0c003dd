#include "runtime/gpu_channels.hpp"

#include <algorithm>
#include <string>

#include <mgi/device/tile.hpp>

#include "runtime/checks.hpp"

namespace mgi {

namespace {

// Measured on an H100 (docs/performance.md): a block claims once a tile, so tiles fill half of what two
// blocks of a multiprocessor have of shared memory; chunks are few enough not to be queued for.
constexpr std::uint64_t kTileBytes = 64 << 10;
constexpr std::uint64_t kChunkBytes = 256 << 10;
constexpr std::uint64_t kPoolBytes = 32 << 20;  // open segments of all lanes
constexpr std::uint64_t kLeastSegment = 128 << 10;
constexpr std::uint64_t kMostSegment = 2 << 20;
constexpr std::uint32_t kSlots = 4;
constexpr std::uint32_t kGroups = 1024;

// Of shared memory a block has up to 227 KiB, on an A100 163; the rest is for what kernels take themselves.
constexpr std::uint64_t kMostScratch = 144 << 10;

[[noreturn]] void cannot_have(ChannelSpec const& spec, std::string const& why) {
    throw Error(ErrorCode::InvalidArgument, name_of(spec) + ": " + why);
}

}  // namespace

std::optional<int> gpu_of(ChannelSpec const& spec, std::vector<Device> const& devices) {
    Device const* first = nullptr;
    Device const* other = nullptr;
    bool any = false;
    for (auto const* endpoints : {&spec.sources, &spec.destinations}) {
        for (Endpoint const endpoint : *endpoints) {
            if (endpoint.device >= devices.size()) continue;
            Device const& device = devices[endpoint.device];
            any = any || device.kind == VertexKind::Gpu;
            if (first == nullptr) first = &device;
            if (device.index != first->index) other = &device;
        }
    }
    if (!any) return {};
    if (other != nullptr) {
        cannot_have(spec, "its endpoints are on " + first->name + " and " + other->name +
                              "; a channel on a GPU has all of its endpoints there, so far");
    }
    ChannelOptions const& options = spec.options;
    if (options.sorters != 0) cannot_have(spec, "sorters on a GPU are not there yet; use send");
    if (!options.by_reference) {
        cannot_have(spec,
                    "endpoints of one GPU read segments in place; leave by_reference as it is");
    }
    if (options.receive_limit != 0) {
        cannot_have(spec, "batches cannot be kept on a GPU; leave receive_limit at 0");
    }
    return first->ordinal;
}

ChannelOptions options_on_gpu(ChannelSpec const& spec, Schema const& schema) {
    ChannelOptions options = spec.options;
    std::uint64_t const row = std::max<std::uint64_t>(schema.row_bytes(), 1);
    bool const own_lanes = device::has_own_lanes(spec.routing.kind);
    std::uint64_t const lanes = spec.sources.size() * (own_lanes ? spec.destinations.size() : 1);
    if (options.tile_rows == 0) {
        options.tile_rows = std::uint32_t(std::clamp<std::uint64_t>(kTileBytes / row, 32, 4096));
    }
    if (options.segment_rows == 0 && options.segment_bytes == 0) {
        options.segment_bytes =
            std::uint32_t(std::clamp(kPoolBytes / lanes, kLeastSegment, kMostSegment));
    }
    if (options.chunk_rows == 0) {
        options.chunk_rows =
            std::uint32_t(std::max<std::uint64_t>(kChunkBytes / row / 64 * 64, 64));
    }
    if (options.slots == 0) options.slots = kSlots;
    if (options.max_groups == 0) options.max_groups = kGroups;
    return options;
}

void stage_tiles(device::ChannelState<device::LibcuAtomics>& state) {
    // Their sizes are counted in 32 bits.
    if (std::uint64_t{state.tile_rows} * state.layout.row_bytes > kMostScratch) return;
    state.staged_bytes = device::staged_tile_bytes(state.layout, state.tile_rows);
    if (device::tile_shape(state).scratch_bytes() > kMostScratch) state.staged_bytes = 0;
}

}  // namespace mgi
