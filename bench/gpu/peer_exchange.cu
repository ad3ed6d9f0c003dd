// Rows through MGI's channels between GPUs that reach each other's memory, one endpoint on each: each block sends and
// receives (the paper's Figure 3), and segments and tables lie in the memory of the GPUs that poll them. Every row is read
// where it arrived, and checked in a first run.
#include <algorithm>
#include <memory>
#include <vector>

#include "device_channel.hpp"
#include "exchange_kernels.hpp"
#include "kernels.hpp"
#include "peer_run.hpp"

namespace mgi::bench {
namespace {

using namespace exchanges;

// Larger segments come back later, smaller ones are said to have come more often.
constexpr u64 kPeerSegment = 256 << 10;
constexpr u64 kPeerLane = 64 << 20;
constexpr u64 kOwnLane = 128 << 20;

/// An exchange between GPUs, one endpoint on each.
void run_gpus(Context& context, Load const& load, peers::Gpus const& gpus, double share) {
    u32 const count = load.gpus;
    Table const& table = gpus[0]->input.table();
    u32 const row_bytes = table.words * 8;
    ChannelSizes sizes;
    sizes.gpus = sizes.sources = sizes.destinations = count;
    sizes.words = table.words;
    sizes.rows_together = table.stride != 1;
    sizes.tile_rows = kTileBytes / row_bytes;
    u64 const segment = count == 1 ? kSegment : kPeerSegment;
    sizes.segment_rows = u32(segment / row_bytes);
    sizes.chunk_rows = u32(std::min(segment, kChunk) / row_bytes);
    sizes.slots = u32((count == 1 ? kOwnLane : kPeerLane) / segment);
    sizes.groups = 1024;
    DeviceChannel channel(sizes);
    u32 const scratch = channel.scratch_bytes();
    u32 blocks = ~0u;
    std::vector<DeviceArray<Tally>> tallies;
    for (u32 gpu = 0; gpu < count; ++gpu) {
        On const on{int(gpu)};
        blocks = std::min(blocks, resident_blocks(exchange_kernel(), kThreads, scratch));
        tallies.emplace_back(sizes.groups);
    }
    blocks = std::max(1u, u32(blocks * share));
    u64 launch = 1;
    auto const run = [&](bool check_rows) {
        for (u32 gpu = 0; gpu < count; ++gpu) {
            On const on{int(gpu)};
            channel.reset(gpus[gpu]->stream.get(), gpu);
            check(cudaMemsetAsync(tallies[gpu].get(), 0, tallies[gpu].bytes(),
                                  gpus[gpu]->stream.get()),
                  "clear tallies");
            check(cudaStreamSynchronize(gpus[gpu]->stream.get()), "make a channel new");
        }
        double const ms = peers::timed(count, [&](u32 gpu) {
            Run const mine{channel.on(gpu, gpu),
                           gpus[gpu]->input.table(),
                           1,
                           blocks,
                           scratch,
                           u64(kBatchTiles) * sizes.tile_rows,
                           launch + gpu * sizes.groups,
                           check_rows,
                           tallies[gpu].get(),
                           gpu,
                           1};
            exchange_kernel()<<<blocks, kThreads, scratch, gpus[gpu]->stream.get()>>>(mine);
            check_launch("exchange");
            check(cudaStreamSynchronize(gpus[gpu]->stream.get()), "wait for the exchange");
        });
        launch += count * sizes.groups;
        return ms;
    };
    std::vector<Sums> const wanted = peers::wanted_by(load, gpus);
    bool exact = true;
    auto const look = [&](bool at_rows) {
        for (u32 gpu = 0; gpu < count; ++gpu) {
            On const on{int(gpu)};
            auto const got = read(tallies[gpu], gpus[gpu]->stream.get());
            exact = exact && (at_rows ? is_exact(got, blocks, {wanted[gpu]})
                                      : rows_of(got) == wanted[gpu].rows);
        }
    };
    run(true);
    look(true);
    Timing timing;
    for (int i = 0; i < peers::repeats(context); ++i) {
        timing.ms.push_back(run(false));
        look(false);
    }
    Result result;
    result.with("how", "channel")
        .with("gpus", count)
        .with("layout", name_of(sizes.rows_together ? Layout::Rows : Layout::Columns))
        .with("row_bytes", row_bytes);
    result.with("blocks", blocks).with("segment_bytes", segment).with("slots", sizes.slots);
    result.exact = exact;
    peers::report(context, std::move(result), timing, table.bytes() * count);
}

void exchange_peers(Context& context) {
    auto const all = u32(connected_gpus(8));
    u64 const bytes = context.payload_bytes() * (context.quick() ? 1 : 2);
    for (u32 count = 1; count <= all; count *= 2) {
        for (Layout const layout : {Layout::Rows, Layout::Columns}) {
            for (u32 const words : {4u, 2u, 8u}) {
                Load const load{count, layout, bytes / (words * 8), words};
                peers::Gpus const gpus = peers::gpus_of(load);
                run_gpus(context, load, gpus, 1);
                if (words != 4 || layout != Layout::Rows) continue;
                for (double const share : {0.5, 0.25}) run_gpus(context, load, gpus, share);
            }
        }
    }
}

Registration const between_gpus{
    "mgi_peers", "exchange between GPUs that reach each other's memory, by reference",
    exchange_peers};

}  // namespace
}  // namespace mgi::bench
