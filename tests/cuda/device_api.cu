// Compiles every device call for GPUs: nothing here is run.
#include <mgi/device.hpp>

namespace {

using mgi::device::Batch;
using mgi::device::CallResult;
using mgi::device::Channel;
using mgi::device::ColumnView;
using mgi::device::Group;
using mgi::device::ReceivedBatch;
using mgi::device::SendResult;
using mgi::device::Shared;
using mgi::device::Status;
using mgi::device::u32;
using mgi::device::u64;

struct Row {
    long long key;
    double value;
};

__device__ Group group_of_block(u64 launch) {
    return {blockIdx.x, gridDim.x, threadIdx.x, blockDim.x, launch + blockIdx.x, nullptr};
}

__device__ Shared scratch_of_block(u32 bytes) {
    extern __shared__ __align__(16) unsigned char scratch[];
    return {reinterpret_cast<std::byte*>(scratch), bytes};
}

/// Counts, so that no call is left out for want of use.
__device__ void note(u64* log, SendResult const& result) {
    log[0] += result.rows + u64(result.status) + u64(result.code);
}
__device__ void note(u64* log, CallResult const& result) {
    log[1] += u64(result.status) + u64(result.code);
}

}  // namespace

/// The two forms of rows, by routing and by name.
__global__ void every_send(Channel channel, ColumnView const* columns, Row const* rows, u64 count,
                           u32 endpoint, u32 scratch, u64* log) {
    Group const group = group_of_block(1);
    Shared shared = scratch_of_block(scratch);
    Batch batch;
    batch.columns = columns;
    batch.count = count;
    note(log, channel.send(group, shared, batch));
    note(log, channel.send_rows(group, shared, rows, count));
    note(log, channel.send_to(group, shared, endpoint, batch));
    note(log, channel.send_rows_to(group, shared, endpoint, rows, count));
    note(log, channel.send(group.slice(0, 1), shared, batch));
}

__global__ void every_message(Channel channel, char const* data, u64 size, u32 endpoint,
                              u32 scratch, u64* log) {
    Group const group = group_of_block(1);
    Shared shared = scratch_of_block(scratch);
    note(log, channel.send_bytes(group, shared, data, size));
    note(log, channel.send_bytes_to(group, shared, endpoint, data, size));
}

__global__ void every_end(Channel channel, u32 scratch, u64* log) {
    Group const group = group_of_block(1);
    Shared shared = scratch_of_block(scratch);
    note(log, channel.push(group, shared));
    note(log, channel.flush(group, shared));
    note(log, channel.flush_wait(group, shared));
}

/// Threads that send on their own, divergently, through stage buffers.
__global__ void every_row_send(Channel channel, Row const* rows, u64 count, u64* log) {
    Group const group = group_of_block(1);
    for (u64 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        if (rows[i].value < 0) continue;
        for (u32 round = 0; channel.send_row(group, rows[i]).status == Status::Pending; ++round) {
            mgi::device::backoff(round);
        }
    }
    log[0] += u64(channel.error());
}

__global__ void every_receive(Channel channel, void* const* columns, double* sums, u32 scratch,
                              u64* log) {
    Group const group = group_of_block(1);
    Shared shared = scratch_of_block(scratch);
    double* const mine = shared.take<double>(1, channel.shared_bytes());
    ReceivedBatch batch;
    while (channel.recv(group, shared, batch) == Status::Ok) {
        long long const* keys = batch.column<long long>(0);
        Row const* structs = batch.structs<Row>();
        for (u32 i = group.thread; i < batch.rows; i += group.threads) {
            if (!batch.valid(1, i) || batch.bit(2, i)) continue;
            *mine += double(keys[i]) + structs[i].value + double(batch.text(3, i).size) +
                     double(*batch.value(0, i));
        }
        channel.release(group, shared, batch);
    }
    u64 rows = 0;
    note(log, channel.recv_into(group, shared, columns, rows));
    sums[blockIdx.x] = *mine + double(rows) + double(channel.recv_into_rows()) +
                       double(channel.destinations()) + double(channel.is_source()) +
                       double(channel.is_destination());
}

/// MGI's own kernel: the sorters of a source.
__global__ void sorter(mgi::device::ChannelState<mgi::device::LibcuAtomics>* channel, u32 source,
                       mgi::device::ChannelState<mgi::device::LibcuAtomics>* stage, u32 scratch) {
    Shared shared = scratch_of_block(scratch);
    mgi::device::Sorter<mgi::device::LibcuAtomics>()(group_of_block(1), shared, channel, source,
                                                     stage);
}
