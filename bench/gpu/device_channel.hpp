/// \file
/// A channel by reference on GPUs that reach each other's memory: the runtime's tables over GPU memory.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include <mgi/device/channel.hpp>

namespace mgi::bench {

/// Sizes of a channel of `words` columns of 8 bytes, the first of them its key.
struct ChannelSizes {
    device::u32 sources = 1;
    device::u32 destinations = 1;
    device::u32 words = 2;
    bool rows_together = false;
    device::u32 segment_rows = 0;
    device::u32 slots = 0;
    device::u32 tile_rows = 0;
    device::u32 chunk_rows = 0;
    device::u32 groups = 0;  ///< most of each endpoint
    bool staged = true;      ///< tiles go through the blocks' shared memory
    device::u32 gpus = 1;    ///< of which endpoint e is on number e % gpus
};

class DeviceChannel {
public:
    /// Throws std::runtime_error when a CUDA call fails.
    explicit DeviceChannel(ChannelSizes const& sizes);
    ~DeviceChannel();

    /// The channel as a kernel sees it from an endpoint that is this source and this destination, of
    /// which either may be kNone.
    [[nodiscard]] device::Channel on(device::u32 source, device::u32 destination) const;
    /// Shared memory of a block.
    [[nodiscard]] device::u32 scratch_bytes() const;
    [[nodiscard]] device::u64 pool_bytes() const;
    /// As it was when it was made, on a GPU, which is the current one. Asynchronous.
    void reset(cudaStream_t stream, device::u32 gpu = 0);

private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace mgi::bench
