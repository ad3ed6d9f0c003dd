// Partition in two passes, as an expert would write it: blocks count their tile's rows by destination,
// a scan turns counts into places, and blocks move their tiles: copied to shared memory as they are,
// ordered there by an index, and written in runs, each by neighbouring threads.
#include <cub/device/device_scan.cuh>

#include <cuda_pipeline.h>

#include <memory>

#include "partition.hpp"

namespace mgi::bench {
namespace {

constexpr u32 kThreads = 512;

/// A tile: rows that a block moves at once. Held in shared memory with an index word for each.
template <u32 Words, u32 TileBytes>
struct Tile {
    static constexpr u32 kRows = TileBytes / (Words * 8);
    static constexpr u32 kShared = TileBytes + kRows * 4;
    static constexpr u32 kItems = kRows / kThreads;  // of each thread
    static_assert(kItems * kThreads == kRows && kRows <= 1 << 16);
};

struct Pass {
    Table input;
    Table output;
    u32 destinations;
    u32 bits;
    u32 tiles;
    u32* counts;  ///< of [destination][tile]; after the scan, places
    u32* begin;
};

/// First pass: one block a tile, only keys are read.
template <u32 Words, u32 TileBytes>
__global__ void __launch_bounds__(kThreads) count_rows(Pass pass) {
    using T = Tile<Words, TileBytes>;
    __shared__ u32 counts[kMaxDestinations];
    if (threadIdx.x < kMaxDestinations) counts[threadIdx.x] = 0;
    __syncthreads();
    u64 const first = u64(blockIdx.x) * T::kRows;
    u64 keys[T::kItems];
    for (u32 k = 0; k < T::kItems; ++k) {
        u64 const row = first + k * kThreads + threadIdx.x;
        keys[k] = row < pass.input.rows ? pass.input.at(row, 0) : 0;
    }
    for (u32 k = 0; k < T::kItems; ++k) {
        bool const active = first + k * kThreads + threadIdx.x < pass.input.rows;
        add_alike(destination_of(keys[k], pass.destinations), pass.bits, active,
                  [&](u32 to, u32 count) { return atomicAdd(&counts[to], count); });
    }
    __syncthreads();
    if (threadIdx.x < pass.destinations) {
        pass.counts[u64(threadIdx.x) * pass.tiles + blockIdx.x] = counts[threadIdx.x];
    }
}

/// Copies a tile's bytes to shared memory, without registers between. Rows come as they lie; of
/// columns, one after the other, `T::kRows` apart.
template <u32 Words, u32 TileBytes, Layout Form>
__device__ void load_tile(Pass const& pass, u64 first, u32 rows, u64* held) {
    using T = Tile<Words, TileBytes>;
    auto const copy = [](u64* to, u64 const* from, u32 words) {
        // An odd column ends in the padding of both its memory and the tile.
        for (u32 i = threadIdx.x * 2; i < words; i += kThreads * 2) {
            __pipeline_memcpy_async(to + i, from + i, 16);
        }
    };
    if constexpr (Form == Layout::Rows) {
        copy(held, pass.input.structs() + first * Words, rows * Words);
    } else {
        for (u32 w = 0; w < Words; ++w) {
            copy(held + w * T::kRows, pass.input.column[w] + first, rows);
        }
    }
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
}

/// Second pass.
template <u32 Words, u32 TileBytes, Layout Form>
__global__ void __launch_bounds__(kThreads) move_rows(Pass pass) {
    using T = Tile<Words, TileBytes>;
    extern __shared__ __align__(16) u64 held[];
    auto* const order = reinterpret_cast<u32*>(held + T::kRows * Words);
    __shared__ u32 counts[kMaxDestinations];
    __shared__ u32 starts[kMaxDestinations];  // of a destination's rows in the ordered tile
    __shared__ u32 shifts[kMaxDestinations];  // from there to its place in the output; wraps
    if (threadIdx.x < kMaxDestinations) counts[threadIdx.x] = 0;
    u64 const first = u64(blockIdx.x) * T::kRows;
    u32 const rows = u32(device::min_of<u64>(pass.input.rows - first, T::kRows));
    load_tile<Words, TileBytes, Form>(pass, first, rows, held);

    u32 destinations[T::kItems];
    u32 ranks[T::kItems];
    for (u32 k = 0; k < T::kItems; ++k) {
        u32 const row = k * kThreads + threadIdx.x;
        bool const active = row < rows;
        u64 const key = active ? held[Form == Layout::Rows ? row * Words : row] : 0;
        destinations[k] = destination_of(key, pass.destinations);
        ranks[k] = add_alike(destinations[k], pass.bits, active,
                             [&](u32 to, u32 count) { return atomicAdd(&counts[to], count); });
    }
    __syncthreads();
    if (threadIdx.x < 32) {  // two destinations a lane
        static_assert(kMaxDestinations == 64);
        u32 const lane = threadIdx.x;
        u32 const low = counts[2 * lane];
        u32 const both = low + counts[2 * lane + 1];
        u32 sum = both;
        for (u32 by = 1; by < 32; by *= 2) {
            u32 const other = __shfl_up_sync(~0U, sum, by);
            if (lane >= by) sum += other;
        }
        starts[2 * lane] = sum - both;
        starts[2 * lane + 1] = sum - both + low;
    }
    __syncthreads();
    if (threadIdx.x < pass.destinations) {
        u32 const place = pass.counts[u64(threadIdx.x) * pass.tiles + blockIdx.x];
        shifts[threadIdx.x] = place - starts[threadIdx.x];
        if (blockIdx.x == 0) pass.begin[threadIdx.x] = place;
    }
    for (u32 k = 0; k < T::kItems; ++k) {
        u32 const row = k * kThreads + threadIdx.x;
        if (row < rows) order[starts[destinations[k]] + ranks[k]] = row | destinations[k] << 16;
    }
    __syncthreads();
    if constexpr (Form == Layout::Rows) {
        constexpr u32 kParts = Words / 2;
        auto const* const from = reinterpret_cast<uint4 const*>(held);
        auto* const to = reinterpret_cast<uint4*>(pass.output.structs());
        for (u32 i = threadIdx.x; i < rows * kParts; i += kThreads) {
            u32 const at = i / kParts;
            u32 const entry = order[at];
            u32 const place = at + shifts[entry >> 16];
            to[u64(place) * kParts + i % kParts] = from[(entry & 0xffff) * kParts + i % kParts];
        }
    } else {
        for (u32 i = threadIdx.x; i < rows; i += kThreads) {
            u32 const entry = order[i];
            u32 const place = i + shifts[entry >> 16];
            for (u32 w = 0; w < Words; ++w) {
                pass.output.column[w][place] = held[w * T::kRows + (entry & 0xffff)];
            }
        }
    }
}

/// Scratch of a case, kept by its run.
struct Scratch {
    DeviceArray<u32> counts;
    DeviceArray<char> scan;
};

template <u32 Words, u32 TileBytes>
PartitionRun two_passes(PartitionCase const& one) {
    using T = Tile<Words, TileBytes>;
    u32 const tiles = device::ceil_div(one.rows(), T::kRows);
    int const entries = int(tiles * one.destinations);
    auto const scratch = std::make_shared<Scratch>();
    scratch->counts = DeviceArray<u32>(u64(entries));
    std::size_t scan_bytes = 0;
    check(cub::DeviceScan::ExclusiveSum(nullptr, scan_bytes, scratch->counts.get(), entries),
          "size of the scan's scratch");
    scratch->scan = DeviceArray<char>(scan_bytes);
    auto const move = one.layout == Layout::Rows ? move_rows<Words, TileBytes, Layout::Rows>
                                                 : move_rows<Words, TileBytes, Layout::Columns>;
    check(cudaFuncSetAttribute(move, cudaFuncAttributeMaxDynamicSharedMemorySize, int(T::kShared)),
          "shared memory of a block");
    Pass const pass{one.input,  one.output, one.destinations,
                    one.bits(), tiles,      scratch->counts.get(),
                    one.begin};
    return [=](cudaStream_t stream) {
        count_rows<Words, TileBytes><<<tiles, kThreads, 0, stream>>>(pass);
        std::size_t bytes = scan_bytes;
        check(cub::DeviceScan::ExclusiveSum(scratch->scan.get(), bytes, scratch->counts.get(),
                                            entries, stream),
              "scan the counts");
        move<<<tiles, kThreads, T::kShared, stream>>>(pass);
    };
}

template <u32 TileBytes>
PartitionRun run_of(PartitionCase const& one) {
    PartitionRun run;
    with_words(one.input.words, [&](auto words) { run = two_passes<words(), TileBytes>(one); });
    return run;
}

template <u32 TileBytes>
void run(Context& context) {
    run_partition_cases(context, run_of<TileBytes>);
}

Registration const small{"partition.twopass_32k",
                         "block histograms, scan, staged scatter; tiles of 32 KiB", run<32 << 10>};
Registration const large{"partition.twopass_64k",
                         "block histograms, scan, staged scatter; tiles of 64 KiB", run<64 << 10>};

}  // namespace

PartitionRun partition_in_two_passes(PartitionCase const& one) {
    return run_of<32 << 10>(one);
}

}  // namespace mgi::bench
