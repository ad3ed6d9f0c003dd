#include "device_channel.hpp"

#include <algorithm>
#include <memory_resource>
#include <string>
#include <vector>

#include <mgi/schema.hpp>

#include "memory/segment_layout.hpp"
#include "peer.hpp"
#include "runtime/channel_tables.hpp"
#include "runtime/table_images.hpp"

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

/// The endpoints on a GPU, or all of them.
Here here_of(ChannelSizes const& sizes, u32 gpu, u32 gpus) {
    Here here;
    for (u32 s = gpu; s < sizes.sources; s += gpus) here.sources.push_back(s);
    for (u32 d = gpu; d < sizes.destinations; d += gpus) here.destinations.push_back(d);
    return here;
}

std::vector<u32> homes_of(u32 endpoints, u32 gpus) {
    std::vector<u32> homes;
    for (u32 e = 0; e < endpoints; ++e) homes.push_back(e % gpus);
    return homes;
}

/// What of a channel is in a GPU's memory.
struct Memory {
    DeviceArray<char> tables;
    DeviceArray<char> pristine;
    DeviceArray<char> pool;
};

}  // namespace

struct DeviceChannel::Parts {
    explicit Parts(ChannelSizes const& sizes)
        : gpus(sizes.gpus),
          plan(plan_of(sizes)),
          here(here_of(sizes, 0, 1)),
          layout(schema_of(sizes.words), sizes.rows_together ? Layout::Rows : Layout::Columns,
                 sizes.segment_rows, 0),
          carry(schema_of(sizes.words), sizes.rows_together ? Layout::Rows : Layout::Columns,
                sizes.tile_rows, 0) {
        fill(shape, sizes);
    }
    void fill(State& state, ChannelSizes const& sizes) const;
    void allocate(ChannelSizes const& sizes);
    void build(TableImages::Memories const& tables, ChannelSizes const& sizes) const;

    u32 const gpus;
    Plan const plan;
    Here const here;
    memory::ChannelLayout const layout;
    memory::ChannelLayout const carry;
    u32 const key = 0;
    State shape;
    std::vector<u64> table_bytes;  ///< by GPU, as all below
    std::vector<Memory> memory;
};

/// All but the tables, whose arrays are the host's.
void DeviceChannel::Parts::fill(State& state, ChannelSizes const& sizes) const {
    state.layout = layout.get();
    state.carry_layout = carry.get();
    state.keys = &key;
    state.key_count = 1;
    state.source_count = sizes.sources;
    state.destination_count = state.lane_count = sizes.destinations;
    state.tile_rows = sizes.tile_rows;
    state.chunk_rows = sizes.chunk_rows;
    state.max_groups = sizes.groups;
    if (sizes.staged) state.staged_bytes = device::staged_tile_bytes(state);
    if (!memory.empty()) state.pool = memory[0].pool.get();
}

void DeviceChannel::Parts::allocate(ChannelSizes const& sizes) {
    ChannelTables const tables(shape, plan, here);
    for (u32 gpu = 0; gpu < gpus; ++gpu) {
        On const on(static_cast<int>(gpu));
        Here const at = here_of(sizes, gpu, gpus);
        table_bytes.push_back(tables.bytes(at) + kExtra);
        memory.push_back({DeviceArray<char>(table_bytes.back()),
                          DeviceArray<char>(table_bytes.back()),
                          DeviceArray<char>(tables.home_bytes(at))});
    }
}

/// The tables of all GPUs, each with a state of its own, which lies first.
void DeviceChannel::Parts::build(TableImages::Memories const& tables,
                                 ChannelSizes const& sizes) const {
    Homes homes;
    homes.sources = homes_of(sizes.sources, gpus);
    homes.destinations = homes_of(sizes.destinations, gpus);
    std::vector<memory::Carver> carvers;
    std::vector<State*> states;
    for (u32 gpu = 0; gpu < gpus; ++gpu) {
        auto const& pool = memory[gpu].pool;
        carvers.emplace_back(pool.get(), pool.bytes(), true, memory[0].pool.get());
        State& state = *states.emplace_back(make_table<State>(*tables[gpu], 1));
        auto const bring = [&]<class T>(T const*& array, u32 count) {
            T* const to = make_table<T>(*tables[gpu], count);
            std::copy_n(array, count, to);
            array = to;
        };
        fill(state, sizes);
        bring(state.layout.columns, state.layout.column_count);
        bring(state.carry_layout.columns, state.carry_layout.column_count);
        bring(state.keys, state.key_count);
    }
    for (u32 gpu = 0; gpu < gpus; ++gpu) homes.all.push_back({tables[gpu], &carvers[gpu]});
    ChannelTables(*states[0], plan, here).build(homes);
    for (u32 gpu = 1; gpu < gpus; ++gpu) {
        ChannelTables(*states[gpu], plan, here).repeat(*tables[gpu], *states[0]);
    }
}

DeviceChannel::DeviceChannel(ChannelSizes const& sizes) : parts_(std::make_unique<Parts>(sizes)) {
    Parts& p = *parts_;
    p.allocate(sizes);
    TableImages images(p.table_bytes, [&](auto const& tables) { p.build(tables, sizes); });
    std::vector<std::byte*> addresses;
    for (Memory const& memory : p.memory) {
        addresses.push_back(reinterpret_cast<std::byte*>(memory.tables.get()));
    }
    for (u32 gpu = 0; gpu < p.gpus; ++gpu) {
        On const on(static_cast<int>(gpu));
        auto const tables = images.moved(gpu, addresses);
        check(cudaMemcpy(p.memory[gpu].pristine.get(), tables.data(), tables.size(),
                         cudaMemcpyHostToDevice),
              "bring tables to a GPU");
        reset(nullptr, gpu);
        check(cudaDeviceSynchronize(), "make a channel");
    }
}

DeviceChannel::~DeviceChannel() = default;

device::Channel DeviceChannel::on(u32 source, u32 destination) const {
    u32 const endpoint = source == device::Channel::kNone ? destination : source;
    auto* const state = parts_->memory[endpoint % parts_->gpus].tables.get();
    return {reinterpret_cast<State*>(state), source, destination};
}

u32 DeviceChannel::scratch_bytes() const {
    return device::shared_bytes_of(parts_->shape);
}

u64 DeviceChannel::pool_bytes() const {
    return parts_->memory[0].pool.bytes();
}

void DeviceChannel::reset(cudaStream_t stream, u32 gpu) {
    Memory const& memory = parts_->memory[gpu];
    check(cudaMemcpyAsync(memory.tables.get(), memory.pristine.get(), memory.tables.bytes(),
                          cudaMemcpyDeviceToDevice, stream),
          "reset a channel's tables");
    check(cudaMemsetAsync(memory.pool.get(), 0, memory.pool.bytes(), stream),
          "reset a channel's pool");
}

}  // namespace mgi::bench
