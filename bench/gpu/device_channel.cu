#include "device_channel.hpp"

#include <algorithm>
#include <bit>
#include <memory_resource>
#include <numeric>
#include <string>
#include <vector>

#include <mgi/schema.hpp>

#include "memory.hpp"
#include "memory/segment_layout.hpp"
#include "runtime/channel_tables.hpp"

namespace mgi::bench {

using device::u32;
using device::u64;

namespace {

constexpr u64 kExtra = 1 << 16;  // for the state and its small arrays

Schema schema_of(u32 words) {
    std::vector<Field> fields;
    for (u32 w = 0; w < words; ++w) fields.push_back({std::string(1, char('a' + w)), int64()});
    return Schema(fields);
}

Plan plan_of(ChannelSizes const& sizes) {
    Plan plan;
    plan.segment_rows = sizes.segment_rows;
    plan.slots = sizes.slots;
    plan.lanes = sizes.destinations;
    plan.tile_rows = sizes.tile_rows;
    plan.chunk_rows = sizes.chunk_rows;
    plan.max_groups = sizes.groups;
    return plan;
}

Here here_of(ChannelSizes const& sizes) {
    Here here;
    here.sources.resize(sizes.sources);
    here.destinations.resize(sizes.destinations);
    std::iota(here.sources.begin(), here.sources.end(), 0u);
    std::iota(here.destinations.begin(), here.destinations.end(), 0u);
    return here;
}

// Managed, so that the host builds in place what kernels then find at the same addresses.
void* managed(u64 bytes) {
    void* at = nullptr;
    check(cudaMallocManaged(&at, bytes), "allocate managed memory");
    return at;
}

}  // namespace

struct DeviceChannel::Parts {
    explicit Parts(ChannelSizes const& sizes)
        : plan(plan_of(sizes)),
          here(here_of(sizes)),
          layout(schema_of(sizes.words), sizes.rows_together ? Layout::Rows : Layout::Columns,
                 sizes.segment_rows, 0),
          carry(schema_of(sizes.words), sizes.rows_together ? Layout::Rows : Layout::Columns,
                sizes.tile_rows, 0) {}

    Plan plan;
    Here here;
    memory::ChannelLayout layout;
    memory::ChannelLayout carry;
    Owner<void*, cudaFree> tables;
    u64 table_bytes = 0;
    DeviceArray<char> pristine;
    DeviceArray<char> pool;
    State* state = nullptr;
    u32 scratch = 0;
};

DeviceChannel::DeviceChannel(ChannelSizes const& sizes) : parts_(std::make_unique<Parts>(sizes)) {
    Parts& p = *parts_;
    State shape;
    shape.layout = p.layout.get();
    shape.carry_layout = p.carry.get();
    shape.key_count = 1;
    shape.source_count = sizes.sources;
    shape.destination_count = shape.lane_count = sizes.destinations;
    shape.tile_rows = sizes.tile_rows;
    shape.chunk_rows = sizes.chunk_rows;
    shape.max_groups = sizes.groups;
    if (sizes.staged) shape.staged_bytes = device::staged_tile_bytes(shape);
    ChannelTables sized(shape, p.plan, p.here);
    p.table_bytes = sized.bytes() + kExtra;
    p.tables = Owner<void*, cudaFree>(managed(p.table_bytes));
    p.pool = DeviceArray<char>(sized.pool_bytes());
    std::pmr::monotonic_buffer_resource memory(p.tables.get(), p.table_bytes,
                                               std::pmr::null_memory_resource());
    p.state = make_table<State>(memory, 1);
    State& state = *p.state;
    state.layout = shape.layout;
    state.carry_layout = shape.carry_layout;
    auto const copied = [&](device::ColumnLayout const* from) {
        auto* const to = make_table<device::ColumnLayout>(memory, sizes.words);
        std::copy_n(from, sizes.words, to);
        return to;
    };
    state.layout.columns = copied(shape.layout.columns);
    state.carry_layout.columns = copied(shape.carry_layout.columns);
    state.keys = make_table<u32>(memory, 1);
    state.key_count = 1;
    state.source_count = shape.source_count;
    state.destination_count = shape.destination_count;
    state.lane_count = shape.lane_count;
    state.tile_rows = shape.tile_rows;
    state.chunk_rows = shape.chunk_rows;
    state.max_groups = shape.max_groups;
    state.staged_bytes = shape.staged_bytes;
    state.pool = p.pool.get();
    memory::Carver carver(p.pool.get(), p.pool.bytes(), true);
    ChannelTables(state, p.plan, p.here).build(memory, carver);
    p.scratch = on(0, 0).shared_bytes();
    int gpu = 0;
    check(cudaGetDevice(&gpu), "the current GPU");
    cudaMemLocation const here{cudaMemLocationTypeDevice, gpu};
    check(cudaMemAdvise(p.tables.get(), p.table_bytes, cudaMemAdviseSetPreferredLocation, here),
          "keep tables on the GPU");
    Stream const stream;
    check(cudaMemPrefetchAsync(p.tables.get(), p.table_bytes, here, 0, stream.get()),
          "bring tables to the GPU");
    p.pristine = DeviceArray<char>(p.table_bytes);
    check(cudaMemcpyAsync(p.pristine.get(), p.tables.get(), p.table_bytes, cudaMemcpyDeviceToDevice,
                          stream.get()),
          "keep what tables were");
    check(cudaMemsetAsync(p.pool.get(), 0, p.pool.bytes(), stream.get()), "zero the pool");
    check(cudaStreamSynchronize(stream.get()), "make a channel");
}

DeviceChannel::~DeviceChannel() = default;

device::Channel DeviceChannel::on(u32 source, u32 destination) const {
    return {parts_->state, source, destination};
}

u32 DeviceChannel::scratch_bytes() const {
    return parts_->scratch;
}

u64 DeviceChannel::pool_bytes() const {
    return parts_->pool.bytes();
}

void DeviceChannel::reset(cudaStream_t stream) {
    Parts& p = *parts_;
    check(cudaMemcpyAsync(p.tables.get(), p.pristine.get(), p.table_bytes, cudaMemcpyDeviceToDevice,
                          stream),
          "reset a channel's tables");
    check(cudaMemsetAsync(p.pool.get(), 0, p.pool.bytes(), stream), "reset a channel's pool");
}

}  // namespace mgi::bench
