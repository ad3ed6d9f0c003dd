// Rows through MGI's channels on one GPU, by reference: a block-collective send into pools that hold all
// rows, and an exchange between endpoints of one kernel, each of which sends and receives (the paper's
// Figure 3). Every row is read again where it arrived and checked.
#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include <mgi/device/channel.hpp>

#include "data.hpp"
#include "device_channel.hpp"
#include "kernels.hpp"
#include "peer_run.hpp"
#include "sync.hpp"

namespace mgi::bench {
namespace {

using device::Batch;
using device::Channel;
using device::ColumnView;
using device::Group;
using device::ReceivedBatch;
using device::Shared;
using device::Status;

constexpr u64 kDeadlineNs = 10'000'000'000;

/// How kernels are launched: two blocks of 256 threads fit a multiprocessor's registers, and the larger
/// their tiles, the less often a block claims.
constexpr u32 kThreads = 256;
constexpr u32 kBlocks = 2;
constexpr u32 kTileBytes = 72 << 10;
constexpr u32 kAtOnce = 8;      // loads of a consumer's thread
constexpr u32 kBatchTiles = 4;  // offered at once, between looks at what has come
constexpr u64 kSegment = 1 << 20;
constexpr u64 kChunk = 256 << 10;
// Between GPUs.
constexpr u64 kPeerSegment = 256 << 10;
constexpr u64 kPeerLane = 64 << 20;
constexpr u64 kOwnLane = 128 << 20;

/// What a block got, and why it stopped early.
struct Tally {
    u64 rows;
    u64 keys;
    u64 all;
    u32 failure;  ///< an ErrorCode, kLate or 0
};
constexpr u32 kLate = 1000;

struct Run {
    Channel channel;  ///< of any endpoint
    Table input;
    u32 endpoints;
    u32 groups;  ///< blocks of an endpoint
    u32 scratch;
    u64 batch_rows;  ///< rows of a call
    u64 launch;
    bool check;
    Tally* tallies;
    u32 first = 0;  ///< endpoint here, of those that are `step` apart
    u32 step = 1;
};

/// One block's part of the input, offered batch by batch.
struct Offers {
    u64 next;
    u64 end;
    ColumnView* columns;  ///< in shared memory

    __device__ Offers(Run const& run, ColumnView* views, u32 blocks) : columns(views) {
        u64 const each = (run.input.rows + blocks - 1) / blocks;
        next = min(run.input.rows, blockIdx.x * each);
        end = min(run.input.rows, next + each);
        if (threadIdx.x < run.input.words) {
            ColumnView view;
            view.values = run.input.column[threadIdx.x];
            columns[threadIdx.x] = view;
        }
        __syncthreads();
    }
    [[nodiscard]] __device__ bool done() const { return next == end; }
    /// Offers the next rows; what the send said.
    __device__ device::SendResult send(Run const& run, Channel const& channel, Group const& group,
                                       Shared& shared) {
        Batch batch;
        batch.count = min(run.batch_rows, end - next);
        if (run.input.stride != 1) {
            batch.row_stride = run.input.words * 8;
            batch.rows =
                reinterpret_cast<char const*>(run.input.structs() + next * run.input.words);
        } else {
            // Threads see it behind the call's first barrier.
            __syncthreads();
            if (threadIdx.x < run.input.words) columns[threadIdx.x].offset = next;
            __syncthreads();
            batch.columns = columns;
        }
        device::SendResult const sent = channel.send(group, shared, batch);
        next += sent.rows;
        return sent;
    }
};

/// Reads a batch's rows, each thread its own, and adds them up: with `check` row by row, so that words that
/// parted from their row are seen; else as fast as they can be read.
__device__ void add(Tally& tally, Run const& run, ReceivedBatch const& batch) {
    u32 const words = run.input.words;
    bool const structs = batch.layout->rows_together;
    if (!run.check) {
        // Neighbouring threads read neighbouring words.
        u32 const runs = structs ? 1 : words;
        u32 const values = structs ? batch.rows * words : batch.rows;
        for (u32 w = 0; w < runs; ++w) {
            u64 const* const from = structs ? batch.structs<u64>() : batch.column<u64>(w);
            tally.all += part_of_sum<kAtOnce>(from, values);
        }
        if (threadIdx.x == 0) tally.rows += batch.rows;
        return;
    }
    for (u32 i = threadIdx.x; i < batch.rows; i += blockDim.x) {
        u64 sum = 0;
        for (u32 w = 0; w < words; ++w) {
            u64 const word =
                structs ? batch.structs<u64>()[u64(i) * words + w] : batch.column<u64>(w)[i];
            if (w == 0) tally.keys += word;
            sum = row_sum(sum, word);
        }
        tally.all += sum;
        ++tally.rows;
    }
}

__device__ void report(Run const& run, Tally const& mine) {
    Tally& to = run.tallies[blockIdx.x];
    using Word = unsigned long long;
    atomicAdd(reinterpret_cast<Word*>(&to.rows), Word(mine.rows));
    atomicAdd(reinterpret_cast<Word*>(&to.keys), Word(mine.keys));
    atomicAdd(reinterpret_cast<Word*>(&to.all), Word(mine.all));
    if (threadIdx.x == 0) to.failure = mine.failure;
}

/// Blocks of one source send all rows and flush.
__global__ void __launch_bounds__(kThreads, kBlocks) send_rows(Run run) {
    extern __shared__ __align__(16) unsigned char scratch[];
    __shared__ ColumnView columns[kMaxWords];
    Group const group{blockIdx.x, gridDim.x, threadIdx.x, blockDim.x, run.launch + blockIdx.x,
                      nullptr};
    Shared shared{reinterpret_cast<std::byte*>(scratch), run.scratch};
    Channel const channel(&run.channel.state(), 0, Channel::kNone);
    Offers offers(run, columns, gridDim.x);
    u64 const start = gpu_ns();
    Tally tally{};
    while (!offers.done() && tally.failure == 0) {
        device::SendResult const sent = offers.send(run, channel, group, shared);
        if (sent.status == Status::Error) tally.failure = u32(sent.code);
        if (__syncthreads_or(sent.rows == 0 && gpu_ns() - start > kDeadlineNs)) {
            tally.failure = kLate;
        }
    }
    while (tally.failure == 0) {
        device::CallResult const result = channel.flush(group, shared);
        if (result == Status::Ok) break;
        if (result == Status::Error) tally.failure = u32(result.code);
        if (__syncthreads_or(gpu_ns() - start > kDeadlineNs)) tally.failure = kLate;
    }
    report(run, tally);
}

/// Blocks of destinations, `groups` of each, receive until the end.
__global__ void __launch_bounds__(kThreads) receive_rows(Run run) {
    extern __shared__ __align__(16) unsigned char scratch[];
    Group const group{blockIdx.x % run.groups, run.groups, threadIdx.x, blockDim.x,
                      run.launch + blockIdx.x, nullptr};
    Shared shared{reinterpret_cast<std::byte*>(scratch), run.scratch};
    Channel const channel(&run.channel.state(), Channel::kNone, blockIdx.x / run.groups);
    u64 const start = gpu_ns();
    Tally tally{};
    while (tally.failure == 0) {
        ReceivedBatch batch;
        device::CallResult const result = channel.recv(group, shared, batch);
        if (result == Status::End) break;
        if (result == Status::Error) tally.failure = u32(result.code);
        if (result == Status::Ok) {
            add(tally, run, batch);
            channel.release(group, shared, batch);
        }
        if (__syncthreads_or(gpu_ns() - start > kDeadlineNs)) tally.failure = kLate;
    }
    report(run, tally);
}

/// Each block sends its part of the rows and receives what comes to its endpoint.
__global__ void __launch_bounds__(kThreads, kBlocks) exchange_rows(Run run) {
    extern __shared__ __align__(16) unsigned char scratch[];
    __shared__ ColumnView columns[kMaxWords];
    u32 const endpoint = run.first + blockIdx.x / run.groups * run.step;
    Group const group{blockIdx.x % run.groups, run.groups, threadIdx.x, blockDim.x,
                      run.launch + blockIdx.x, nullptr};
    Shared shared{reinterpret_cast<std::byte*>(scratch), run.scratch};
    Channel const channel(&run.channel.state(), endpoint, endpoint);
    Offers offers(run, columns, gridDim.x);
    u64 const start = gpu_ns();
    Tally tally{};
    bool flushed = false;
    for (u32 idle = 0; tally.failure == 0; ++idle) {
        if (!offers.done()) {
            device::SendResult const sent = offers.send(run, channel, group, shared);
            if (sent.status == Status::Error) tally.failure = u32(sent.code);
            if (sent.rows != 0) idle = 0;
        } else if (!flushed) {
            device::CallResult const result = channel.flush(group, shared);
            if (result == Status::Error) tally.failure = u32(result.code);
            flushed = result == Status::Ok;
        }
        // One batch between sends; as long as there are some, once all is sent.
        device::CallResult result;
        ReceivedBatch batch;
        while ((result = channel.recv(group, shared, batch)) == Status::Ok) {
            add(tally, run, batch);
            channel.release(group, shared, batch);
            idle = 0;
            if (!offers.done()) break;
        }
        if (result == Status::Error) tally.failure = u32(result.code);
        if (result == Status::End && flushed) break;
        if (__syncthreads_or(gpu_ns() - start > kDeadlineNs)) tally.failure = kLate;
        // Who has nothing to do leaves the words to those who have.
        if (idle != 0) device::backoff(idle);
    }
    report(run, tally);
}

using Kernel = void (*)(Run);

/// What a run is about.
struct Case {
    Layout layout;
    Keys keys;
    u32 words;
    u32 destinations;  ///< of a send; endpoints of an exchange
    bool exchange;
    double blocks = 1;  ///< share of the blocks that fit the GPU
};

bool is_exact(std::vector<Tally> const& tallies, u32 groups, std::vector<Sums> const& expected) {
    for (std::size_t d = 0; d < expected.size(); ++d) {
        Sums got;
        for (u32 g = 0; g < groups; ++g) {
            Tally const& tally = tallies[d * groups + g];
            got.rows += tally.rows;
            got.keys += tally.keys;
            got.all += tally.all;
        }
        if (!(got == expected[d])) return false;
    }
    return true;
}

std::vector<Tally> read(DeviceArray<Tally> const& tallies, cudaStream_t stream) {
    std::vector<Tally> out(tallies.size());
    check(
        cudaMemcpyAsync(out.data(), tallies.get(), tallies.bytes(), cudaMemcpyDeviceToHost, stream),
        "read tallies");
    check(cudaStreamSynchronize(stream), "read tallies");
    for (Tally const& tally : out) {
        if (tally.failure == 0) continue;
        fail(tally.failure == kLate ? "a block passed its deadline"
                                    : "a call failed with code " + std::to_string(tally.failure),
             std::source_location::current());
    }
    return out;
}

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
    Kernel const kernel = c.exchange ? exchange_rows : send_rows;
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
        check(cudaFuncSetAttribute(receive_rows, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   int(scratch)),
              "shared memory of a block");
        receive_rows<<<receivers * c.destinations, kThreads, scratch, context.stream()>>>(run);
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

/// An exchange between GPUs, one endpoint on each.
void run_peers(Context& context, std::vector<std::unique_ptr<peers::Gpu>> const& gpus,
               double share) {
    auto const count = u32(gpus.size());
    Table const& table = gpus[0]->input.table();
    u32 const row_bytes = table.words * 8;
    ChannelSizes sizes;
    sizes.gpus = sizes.sources = sizes.destinations = count;
    sizes.words = table.words;
    sizes.rows_together = table.stride != 1;
    sizes.tile_rows = kTileBytes / row_bytes;
    // Larger segments come back later, smaller ones are said to have come more often.
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
        blocks = std::min(blocks, resident_blocks(exchange_rows, kThreads, scratch));
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
            exchange_rows<<<blocks, kThreads, scratch, gpus[gpu]->stream.get()>>>(mine);
            check_launch("exchange");
            check(cudaStreamSynchronize(gpus[gpu]->stream.get()), "wait for the exchange");
        });
        launch += count * sizes.groups;
        return ms;
    };
    bool exact = true;
    run(true);
    std::vector<Sums> const wanted = peers::wanted_by(gpus);
    for (u32 gpu = 0; gpu < count; ++gpu) {
        On const on{int(gpu)};
        exact =
            exact && is_exact(read(tallies[gpu], gpus[gpu]->stream.get()), blocks, {wanted[gpu]});
    }
    Timing timing;
    for (int i = 0; i < peers::repeats(context); ++i) timing.ms.push_back(run(false));
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
                std::vector<std::unique_ptr<peers::Gpu>> gpus;
                for (u32 gpu = 0; gpu < count; ++gpu) {
                    On const on{int(gpu)};
                    gpus.push_back(std::make_unique<peers::Gpu>(gpu, layout, bytes / (words * 8),
                                                                words, count));
                }
                run_peers(context, gpus, 1);
                if (words != 4 || layout != Layout::Rows) continue;
                for (double const share : {0.5, 0.25}) run_peers(context, gpus, share);
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
Registration const between_gpus{
    "mgi_peers", "exchange between GPUs that reach each other's memory, by reference",
    exchange_peers};
Registration const exchanges{"mgi_exchange", "exchange between endpoints of one GPU, by reference",
                             exchange_all};

}  // namespace
}  // namespace mgi::bench
