// Where a channel among endpoints of one GPU lies: segments in the GPU's memory, tables in memory that is
// managed, at home on the GPU. So the host builds tables in place, and looks into them (statistics, the
// watchdog, a failure) as it does on a CPU: then their pages come over, and go back when a kernel asks.
#pragma once

#include <memory_resource>

#include "gpu/memory.hpp"
#include "runtime/channel_tables.hpp"

namespace mgi {

class GpuPlace {
public:
    // Of a channel with the counts and layouts of `shape`. Throws Error(OutOfMemory, ...).
    GpuPlace(int gpu, State const& shape, ChannelTables const& sized);

    [[nodiscard]] int gpu() const { return gpu_; }
    [[nodiscard]] State& state() const { return *state_; }
    // Brings the arrays over that the state names, gives it the pool, and builds the tables.
    void build(ChannelTables& tables);

private:
    static std::uint64_t bytes_of(State const& shape);
    template <class T>
    void bring(T const*& array, std::size_t count);

    int const gpu_;
    gpu::ManagedMemory managed_;
    gpu::DeviceMemory pool_;
    std::pmr::monotonic_buffer_resource memory_;
    State* const state_;
};

}  // namespace mgi
