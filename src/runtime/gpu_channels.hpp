// What is different about a channel with endpoints on GPUs before it is planned.
#pragma once

#include <vector>

#include <mgi/channel.hpp>
#include <mgi/device/state.hpp>
#include <mgi/graph.hpp>

#include "runtime/channel_tables.hpp"

namespace mgi {

// Those of a channel's endpoints that are on GPUs, by GPU. Throws Error(InvalidArgument) for what no GPU can
// have: a growing pool where no destination is on a CPU device.
std::vector<GpuMembers> gpu_members(ChannelSpec const& spec, std::vector<Device> const& devices);

// Throws Error(InvalidArgument) where batches are to be kept and no destination `keeps` any, since all are on GPUs.
void check_kept(ChannelSpec const& spec, bool keeps);

// How its segments travel, of a channel with endpoints on `gpus`: `planned` unless some of its destinations can
// read in place although not all can.
Transfer transfer_on_gpus(ChannelSpec const& spec, Transfer planned);

// Whether a channel's sources, and all of its endpoints, are on GPUs of this process; all of them on one, or on several
// that reach each other's memory, where each destination reads in place what all sources have for it.
struct OnlyGpus {
    bool send = false;
    bool take_part = false;
    bool one = false;
    bool peers = false;
};
OnlyGpus only_gpus(ChannelSpec const& spec, std::vector<GpuMembers> const& gpus);

// The options as a GPU wants them where the user leaves them to us: large tiles and segments, which many
// thread blocks fill together. Segments take a quarter of the memory that is left at most.
ChannelOptions options_on_gpus(ChannelSpec const& spec, Schema const& schema, OnlyGpus only,
                               std::uint64_t memory_left, std::size_t gpus = 1);

// Rows of a stage buffer's segment on a GPU: a sorter takes one as a tile.
std::uint32_t stage_rows_on_gpu(Schema const& schema, std::uint32_t segment_rows);

// Lets tiles be brought into a block's shared memory. Not those that are too large for it: their rows are
// gathered from where they lie.
void stage_tiles(device::ChannelState<device::LibcuAtomics>& state);

}  // namespace mgi
