// What programs do without MGI: each GPU partitions its rows in two passes, NCCL exchanges the parts in one group of sends
// and receives, and the rows are read where they arrived.
#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <vector>

#include "kernels.hpp"
#include "nccl.hpp"
#include "partition.hpp"
#include "peer_run.hpp"

namespace mgi::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Gpus = std::vector<std::unique_ptr<peers::Gpu>>;

constexpr u32 kThreads = 256;

double ms_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

__global__ void read_all(u64 const* words, u64 count, u64* sum) {
    u64 const each = (count + gridDim.x - 1) / gridDim.x / 2 * 2 + 2;  // pairs
    u64 const first = min(count, blockIdx.x * each);
    u64 const mine = part_of_sum<8>(words + first, u32(min(each, count - first)));
    atomicAdd(reinterpret_cast<unsigned long long*>(sum), mine);
}

/// A GPU's side.
struct Side {
    Side(peers::Gpu const& gpu, u32 gpus, u64 received)
        : input(gpu.input.table()),
          stream(gpu.stream.get()),
          parted(Layout::Rows, input.rows, input.words),
          arrived(Layout::Rows, received, input.words),
          begin(gpus + 1),
          sum(1),
          begins(gpus + 1) {
        check(cudaMemset(begin.get(), 0, begin.bytes()), "clear the parts' begins");
        partition = partition_in_two_passes(
            {Layout::Rows, Keys::Uniform, gpus, input, parted.table(), begin.get()});
    }
    /// From row `row` of the destination's part on.
    [[nodiscard]] u64 rows_for(u32 to) const { return begins[to + 1] - begins[to]; }

    Table input;
    cudaStream_t stream;
    TableBuffer parted;
    TableBuffer arrived;
    DeviceArray<u32> begin;
    DeviceArray<u64> sum;
    PinnedArray<u32> begins;
    PartitionRun partition;
};
using Sides = std::vector<std::unique_ptr<Side>>;

template <class Work>
void on_each(Sides const& sides, Work const& work) {
    for (u32 gpu = 0; gpu < sides.size(); ++gpu) {
        On const on{int(gpu)};
        work(gpu, *sides[gpu]);
    }
}

void wait_for_all(Sides const& sides) {
    on_each(sides, [](u32, Side& side) {
        check(cudaStreamSynchronize(side.stream), "wait for an exchange");
    });
}

struct Took {
    double arrived_ms;
    double read_ms;  ///< with reading them
};

Took run(Nccl const& nccl, Sides const& sides) {
    auto const count = u32(sides.size());
    auto const start = Clock::now();
    on_each(sides, [&](u32, Side& side) {
        side.partition(side.stream);
        check(cudaMemcpyAsync(&side.begins[0], side.begin.get(), count * sizeof(u32),
                              cudaMemcpyDeviceToHost, side.stream),
              "see where parts begin");
    });
    wait_for_all(sides);
    on_each(sides, [&](u32, Side& side) { side.begins[count] = u32(side.input.rows); });
    nccl.start();
    on_each(sides, [&](u32 gpu, Side& side) {
        u32 const words = side.input.words;
        u64 at = 0;
        for (u32 other = 0; other < count; ++other) {
            nccl.send(int(gpu), int(other),
                      side.parted.table().structs() + u64(side.begins[other]) * words,
                      side.rows_for(other) * words, side.stream);
            u64 const rows = sides[other]->rows_for(gpu);
            nccl.receive(int(gpu), int(other), side.arrived.table().structs() + at * words,
                         rows * words, side.stream);
            at += rows;
        }
    });
    nccl.end();
    wait_for_all(sides);
    Took took{ms_since(start), 0};
    on_each(sides, [&](u32, Side& side) {
        read_all<<<1024, kThreads, 0, side.stream>>>(
            side.arrived.table().structs(), side.arrived.table().bytes() / 8, side.sum.get());
        check_launch("read what arrived");
    });
    wait_for_all(sides);
    took.read_ms = ms_since(start);
    return took;
}

void exchange(Context& context, Nccl const& nccl, u32 count, u64 bytes) {
    constexpr u32 kWords = 4;
    Gpus gpus;
    for (u32 gpu = 0; gpu < count; ++gpu) {
        On const on{int(gpu)};
        gpus.push_back(
            std::make_unique<peers::Gpu>(gpu, Layout::Rows, bytes / (kWords * 8), kWords, count));
    }
    std::vector<Sums> const wanted = peers::wanted_by(gpus);
    Sides sides;
    for (u32 gpu = 0; gpu < count; ++gpu) {
        On const on{int(gpu)};
        sides.push_back(std::make_unique<Side>(*gpus[gpu], count, wanted[gpu].rows));
    }
    run(nccl, sides);
    bool exact = true;
    on_each(sides, [&](u32 gpu, Side& side) {
        exact = exact && sums_of(side.arrived.table(), 1, side.stream).at(0) == wanted[gpu];
    });
    Timing arrived;
    Timing read;
    for (int i = 0; i < 3 * peers::repeats(context); ++i) {
        Took const took = run(nccl, sides);
        arrived.ms.push_back(took.arrived_ms);
        read.ms.push_back(took.read_ms);
    }
    u64 const rows = gpus[0]->input.table().rows;
    auto const add = [&](char const* how, Timing& timing) {
        Result result;
        result.with("how", how).with("gpus", count).with("row_bytes", kWords * 8);
        result.with("rows", rows).with("nccl", nccl.version());
        result.exact = exact;
        peers::report(context, std::move(result), timing, rows * kWords * 8 * count);
    };
    add("partition, NCCL", arrived);
    add("partition, NCCL, read", read);
}

void exchange_by_nccl(Context& context) {
    auto const all = u32(connected_gpus(8));
    u64 const bytes = context.payload_bytes() * (context.quick() ? 1 : 2);
    for (u32 count = 2; count <= all; count *= 2) {
        Nccl const nccl{int(count)};
        for (u64 const part : {1, 10, 100}) exchange(context, nccl, count, bytes / part);
    }
}

Registration const by_nccl{
    "nccl", "exchange between GPUs as programs do it without MGI: partition, NCCL, read",
    exchange_by_nccl};

}  // namespace
}  // namespace mgi::bench
