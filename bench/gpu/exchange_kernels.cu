// What the blocks of exchange_kernels.hpp do.
#include "exchange_kernels.hpp"

#include "kernels.hpp"
#include "sync.hpp"

namespace mgi::bench::exchanges {
namespace {

using device::Batch;
using device::Channel;
using device::ColumnView;
using device::Group;
using device::ReceivedBatch;
using device::Shared;
using device::Status;

constexpr u64 kDeadlineNs = 10'000'000'000;
constexpr u32 kAtOnce = 8;  // loads of a consumer's thread

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

/// Each block sends its part of the rows, and receives what comes to its endpoint, as far as that is a source and a destination.
__global__ void __launch_bounds__(kThreads, kBlocks) exchange_rows(Run run) {
    extern __shared__ __align__(16) unsigned char scratch[];
    __shared__ ColumnView columns[kMaxWords];
    u32 const endpoint = run.first + blockIdx.x / run.groups * run.step;
    Group const group{blockIdx.x % run.groups, run.groups, threadIdx.x, blockDim.x,
                      run.launch + blockIdx.x, nullptr};
    Shared shared{reinterpret_cast<std::byte*>(scratch), run.scratch};
    Channel const channel =
        run.own ? run.channel : Channel(&run.channel.state(), endpoint, endpoint);
    Offers offers(run, columns, gridDim.x);
    u64 const start = gpu_ns();
    Tally tally{};
    bool flushed = !channel.is_source();
    bool ended = !channel.is_destination();
    for (u32 idle = 0; tally.failure == 0 && !(flushed && ended); ++idle) {
        bool stuck = false;  // its rows have no room yet
        if (!offers.done()) {
            device::SendResult const sent = offers.send(run, channel, group, shared);
            if (sent.status == Status::Error) tally.failure = u32(sent.code);
            stuck = sent.rows == 0;
            if (!stuck) idle = 0;
        }
        // At once behind the last rows: others wait for the last group's flush.
        if (offers.done() && !flushed) {
            device::CallResult const result = channel.flush(group, shared);
            if (result == Status::Error) tally.failure = u32(result.code);
            flushed = result == Status::Ok;
        }
        // One batch between sends, or some where rows have no room; as long as there are any, once all is sent.
        for (u32 taken = 0; !ended;) {
            ReceivedBatch batch;
            device::CallResult const result = channel.recv(group, shared, batch);
            if (result == Status::Error) tally.failure = u32(result.code);
            ended = result == Status::End;
            if (result != Status::Ok) break;
            add(tally, run, batch);
            channel.release(group, shared, batch);
            idle = 0;
            ++taken;
            if (!offers.done() && taken >= (stuck ? kBatchesWhenStuck : 1)) break;
        }
        if (__syncthreads_or(gpu_ns() - start > kDeadlineNs)) tally.failure = kLate;
        // Who has nothing to do leaves the words to those who have.
        if (idle != 0) device::backoff(idle);
    }
    report(run, tally);
}

}  // namespace

Kernel send_kernel() {
    return send_rows;
}

Kernel receive_kernel() {
    return receive_rows;
}

Kernel exchange_kernel() {
    return exchange_rows;
}

}  // namespace mgi::bench::exchanges
