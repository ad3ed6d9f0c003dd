// Rows through MGI's channels on one GPU, by reference: a block-collective send into pools that hold all
// rows, and an exchange between endpoints of one kernel, each of which sends and receives (the paper's
// Figure 3). Every row is read again where it arrived and checked.
#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "data.hpp"
#include "device_channel.hpp"
#include "exchange_kernels.hpp"
#include "kernels.hpp"
#include "registry.hpp"

namespace mgi::bench {
namespace {

using namespace exchanges;

/// What a run is about.
struct Case {
    Layout layout;
    Keys keys;
    u32 words;
    u32 destinations;  ///< of a send; endpoints of an exchange
    bool exchange;
    double blocks = 1;  ///< share of the blocks that fit the GPU
};

void run_case(Context& context, Case const& c, TableBuffer const& input) {
    u32 const row_bytes = c.words * 8;
    ChannelSizes sizes;
    sizes.sources = c.exchange ? c.destinations : 1;
    sizes.destinations = c.destinations;
    sizes.words = c.words;
    sizes.rows_together = c.layout == Layout::Rows;
    sizes.tile_rows = kTileBytes / row_bytes;
    u64 const rows = input.table().rows;
    // As the runtime makes channels on one GPU; pools of sends hold all rows.
    u64 const lanes = u64(sizes.sources) * sizes.destinations;
    u64 const lane = (u64(512) << 20) / lanes;
    u64 const most = u64(c.exchange ? 1 : 16) << 20;
    u64 const segment = std::clamp<u64>(lane / 4, 128 << 10, most);
    sizes.segment_rows = u32(segment / row_bytes);
    sizes.chunk_rows = u32((256 << 10) / row_bytes);
    sizes.slots = u32(std::clamp<u64>(std::bit_floor(lane / segment), 4, 128));
    if (!c.exchange) {  // all rows, wherever they go
        // Blocks that are done seal what others are filling.
        u64 const sealed = 24;
        u64 const each =
            std::max<u64>(rows, rows / c.destinations * 2) / sizes.segment_rows + sealed;
        u64 const even = rows / c.destinations * 5 / 4 / sizes.segment_rows + sealed;
        u64 wanted = c.keys == Keys::Uniform ? even : each;
        sizes.slots = 1;
        while (sizes.slots < wanted) sizes.slots *= 2;
    }
    Kernel const kernel = c.exchange ? exchange_kernel() : send_kernel();
    sizes.groups = 4096;
    ChannelSizes probe = sizes;
    u32 scratch = 0;
    u32 blocks = 0;
    {
        probe.slots = 1;
        probe.groups = 1;
        scratch = DeviceChannel(probe).scratch_bytes();
        blocks = u32(std::max(1.0, resident_blocks(kernel, kThreads, scratch) * c.blocks));
    }
    u32 const groups = c.exchange ? blocks / c.destinations : blocks;
    require(groups > 0, "fewer blocks are resident than there are endpoints");
    if (c.exchange) blocks = groups * c.destinations;
    sizes.groups = std::max(groups, 64u);
    DeviceChannel channel(sizes);
    u32 const receivers = c.exchange ? groups : 4;
    DeviceArray<Tally> tallies(std::max(blocks, receivers * c.destinations));
    Run run{channel.on(0, 0),
            input.table(),
            c.destinations,
            groups,
            scratch,
            (c.exchange ? u64(kBatchTiles) : 32ull) * sizes.tile_rows,
            1,
            false,
            tallies.get()};
    auto const prepare = [&](cudaStream_t stream) {
        channel.reset(stream);
        check(cudaMemsetAsync(tallies.get(), 0, tallies.bytes(), stream), "clear tallies");
    };
    auto const launch = [&](cudaStream_t stream) {
        kernel<<<blocks, kThreads, scratch, stream>>>(run);
        check_launch(c.exchange ? "exchange" : "send");
    };
    auto const timing = context.time(launch, prepare);
    read(tallies, context.stream());
    // Once more, to look at every row.
    run.check = true;
    prepare(context.stream());
    launch(context.stream());
    context.wait(context.stream(), "a run that is checked");
    auto got = read(tallies, context.stream());
    if (!c.exchange) {
        check(cudaMemsetAsync(tallies.get(), 0, tallies.bytes(), context.stream()),
              "clear tallies");
        run.groups = receivers;
        run.launch += 1 << 20;
        check(cudaFuncSetAttribute(receive_kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   int(scratch)),
              "shared memory of a block");
        receive_kernel()<<<receivers * c.destinations, kThreads, scratch, context.stream()>>>(run);
        check_launch("receive");
        context.wait(context.stream(), "receive");
        got = read(tallies, context.stream());
    }
    Result result;
    result.with("layout", name_of(c.layout))
        .with("keys", name_of(c.keys))
        .with("row_bytes", row_bytes);
    result.with(c.exchange ? "endpoints" : "destinations", c.destinations);
    result.with("blocks", blocks);
    timing.fill(result, input.table().bytes());
    result.floor_gbps = c.exchange ? context.exchange_floor_gbps() : context.partition_floor_gbps();
    result.exact =
        is_exact(got, receivers, sums_of(input.table(), c.destinations, context.stream()));
    context.add(result);
}

void run_cases(Context& context, bool exchange, std::vector<u32> const& fan_outs) {
    for (Layout const layout : {Layout::Columns, Layout::Rows}) {
        for (u32 const words : {2u, 4u, 8u}) {
            if (context.quick() && words == 4) continue;
            TableBuffer input(layout, context.payload_bytes(6) / (words * 8), words);
            for (Keys const keys : {Keys::Uniform, Keys::Zipf}) {
                if (keys == Keys::Zipf && !exchange) continue;
                generate(input.table(), keys, context.stream());
                for (u32 const fan_out : fan_outs) {
                    run_case(context, {layout, keys, words, fan_out, exchange}, input);
                    if (exchange || fan_out != 8) continue;
                    run_case(context, {layout, keys, words, fan_out, exchange, 0.25}, input);
                }
            }
        }
    }
}

void send_all(Context& context) {
    run_cases(context, false,
              context.quick() ? std::vector<u32>{8, 64} : std::vector<u32>{2, 8, 16, 64});
}

void exchange_all(Context& context) {
    run_cases(context, true, {1, 4, 8});
}

Registration const sends{"mgi_send", "block-collective send into pools that hold all rows",
                         send_all};
Registration const on_one_gpu{"mgi_exchange", "exchange between endpoints of one GPU, by reference",
                              exchange_all};

}  // namespace
}  // namespace mgi::bench
