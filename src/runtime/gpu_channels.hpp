// What is different about a channel on a GPU before it is planned.
#pragma once

#include <optional>
#include <vector>

#include <mgi/channel.hpp>
#include <mgi/device/state.hpp>
#include <mgi/graph.hpp>

namespace mgi {

// The GPU (N of "cuda:N") that all endpoints of a channel are on; nothing where all are on CPU devices.
// Throws Error(InvalidArgument) for a channel that no GPU can have yet: endpoints on several devices of
// which one is a GPU, sorters, by copy, a growing pool.
std::optional<int> gpu_of(ChannelSpec const& spec, std::vector<Device> const& devices);

// The options as a GPU wants them where the user leaves them to us: large tiles and segments, which many
// thread blocks fill together.
ChannelOptions options_on_gpu(ChannelSpec const& spec, Schema const& schema);

// Lets tiles be brought into a block's shared memory. Not those that are too large for it: their rows are
// gathered from where they lie.
void stage_tiles(device::ChannelState<device::LibcuAtomics>& state);

}  // namespace mgi
