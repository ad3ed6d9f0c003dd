// Partition by per-row scatter: a row's place is the old value of its destination's counter in global
// memory, which is added to for each row, or once a warp and destination. In its favour, the bounds of
// destinations are given, and only the counters that start there are set in the timed run.
#include "partition.hpp"

namespace mgi::bench {
namespace {

constexpr u32 kThreads = 256;

__global__ void set_counters(u32 const* begin, u32* counters, u32 destinations) {
    if (threadIdx.x < destinations) counters[threadIdx.x] = begin[threadIdx.x];
}

/// A row's place, for all lanes of a warp at once.
template <bool ByWarp>
__device__ u32 place_of(u32 destination, u32 bits, bool active, u32* counters) {
    if constexpr (ByWarp) {
        return add_alike(destination, bits, active,
                         [&](u32 to, u32 count) { return atomicAdd(&counters[to], count); });
    } else {
        return active ? atomicAdd(&counters[destination], 1U) : 0;
    }
}

/// A thread finds the places of its rows; then the lanes of its warp write them together, 16 bytes of a
/// row struct each.
template <u32 Words, bool ByWarp>
__global__ void __launch_bounds__(kThreads)
    scatter_rows(Table input, Table output, u32 destinations, u32 bits, u32* counters) {
    constexpr u32 kParts = Words / 2;  // of 16 bytes
    u32 const lane = threadIdx.x % 32;
    u64 const row = blockIdx.x * u64(kThreads) + threadIdx.x;
    u64 const first = row - lane;  // of the warp
    bool const active = row < input.rows;
    u32 const destination = active ? destination_of(input.structs()[row * Words], destinations) : 0;
    u32 const place = place_of<ByWarp>(destination, bits, active, counters);
    auto const* const from = reinterpret_cast<uint4 const*>(input.structs()) + first * kParts;
    auto* const to = reinterpret_cast<uint4*>(output.structs());
    for (u32 k = 0; k < kParts; ++k) {
        u32 const part = k * 32 + lane;  // of the warp's rows
        u32 const at = __shfl_sync(~0U, place, int(part / kParts));
        if (first + part / kParts < input.rows) {
            to[u64(at) * kParts + part % kParts] = from[part];
        }
    }
}

template <u32 Words, bool ByWarp>
__global__ void __launch_bounds__(kThreads)
    scatter_columns(Table input, Table output, u32 destinations, u32 bits, u32* counters) {
    u64 const row = blockIdx.x * u64(kThreads) + threadIdx.x;
    bool const active = row < input.rows;
    u64 const key = active ? input.column[0][row] : 0;
    u32 const place = place_of<ByWarp>(destination_of(key, destinations), bits, active, counters);
    if (!active) return;
    output.column[0][place] = key;
    for (u32 w = 1; w < Words; ++w) output.column[w][place] = input.column[w][row];
}

template <bool ByWarp>
PartitionRun scatter(PartitionCase const& one, u32* counters) {
    return [one, counters](cudaStream_t stream) {
        set_counters<<<1, kMaxDestinations, 0, stream>>>(one.begin, counters, one.destinations);
        u32 const blocks = device::ceil_div(one.rows(), kThreads);
        with_words(one.input.words, [&](auto words) {
            auto const kernel = one.layout == Layout::Rows ? scatter_rows<words(), ByWarp>
                                                           : scatter_columns<words(), ByWarp>;
            kernel<<<blocks, kThreads, 0, stream>>>(one.input, one.output, one.destinations,
                                                    one.bits(), counters);
        });
    };
}

template <bool ByWarp>
void run(Context& context) {
    DeviceArray<u32> const counters(kMaxDestinations);
    run_partition_cases(
        context, [&](PartitionCase const& one) { return scatter<ByWarp>(one, counters.get()); });
}

Registration const by_row{"partition.atomic", "per-row global atomic, then scatter", run<false>};
Registration const by_warp{"partition.atomic_warp", "the same with one atomic a warp", run<true>};

}  // namespace
}  // namespace mgi::bench
