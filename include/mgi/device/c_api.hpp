/// \file
/// A channel's calls for kernels that are not written in C++: functions with C names over plain numbers, which
/// Numba declares (`mgi.numba` does it) and links. Include it in one source that is compiled for a GPU.
///
/// Every function is called by all threads of a block alike. It returns 0, as Numba wants it, and its result
/// is behind the first pointer. The five words that follow name the kernel's groups and the channel; Python's
/// `KernelGroups.words` makes them. Negative results: kCEnd, or -2 - ErrorCode.
///
/// Of a block's dynamic shared memory a part at the end is these functions' own, see `c_api_bytes`: what is
/// received, and what is sent. A block has one batch at a time: release it before the next `mgi_recv`.
#pragma once

#include <mgi/device/channel.hpp>
#include <mgi/device/kernel_groups.hpp>

namespace mgi::device {

inline constexpr i64 kCEnd = -1;  ///< nothing will come any more

/// Scratch that these functions want beside a channel's of so many columns.
MGI_HD constexpr u32 c_api_bytes(u32 columns) {
    return (u32(sizeof(ReceivedBatch)) + 15) / 16 * 16 +
           (columns * u32(sizeof(ColumnView)) + 15) / 16 * 16;
}

#if defined(__CUDACC__)

/// What the words of a call stand for.
struct CCall {
    __device__ CCall(u64 number, u64 first_and_count, u64 blocks_and_bytes, u64 state, u64 ends)
        : channel(reinterpret_cast<ChannelState<LibcuAtomics>*>(state), u32(ends),
                  u32(ends >> 32)) {
        extern __shared__ __align__(16) unsigned char mgi_scratch[];
        KernelGroups const groups{number, u32(first_and_count), u32(first_and_count >> 32),
                                  u32(blocks_and_bytes), u32(blocks_and_bytes >> 32)};
        group = groups.group();
        shared = groups.shared(mgi_scratch);
        batch = shared.take<ReceivedBatch>(1);
    }

    [[nodiscard]] __device__ static i64 error(ErrorCode code) { return -2 - i64(code); }
    /// 0 is done, 1 is pending.
    [[nodiscard]] __device__ static i64 result_of(CallResult result) {
        if (result == Status::Error) return error(result.code);
        return result == Status::Ok ? 0 : 1;
    }
    [[nodiscard]] __device__ i64 send(ColumnView const* given, u64 first, u64 rows) {
        u32 const columns = channel.state().layout.column_count;
        ColumnView* const views = shared.take<ColumnView>(columns, channel.shared_bytes());
        if (views == nullptr) return error(ErrorCode::InvalidArgument);
        group.sync();  // everybody is done with the last call's
        for (u32 c = group.thread; c < columns; c += group.threads) {
            views[c] = given[c];
            views[c].offset += first;
        }
        group.sync();
        Batch offered;
        offered.columns = views;
        offered.count = rows;
        SendResult const sent = channel.send(group, shared, offered);
        if (sent.status == Status::Error && sent.rows == 0) return error(sent.code);
        return i64(sent.rows);
    }
    [[nodiscard]] __device__ i64 receive() {
        ReceivedBatch mine;
        CallResult const result = channel.recv(group, shared, mine);
        if (result == Status::Error) return error(result.code);
        if (result == Status::End) return kCEnd;
        if (result == Status::Pending) return 0;
        if (group.leads()) *batch = mine;
        group.sync();
        return mine.rows;
    }

    Channel channel;
    Group group;
    Shared shared;
    ReceivedBatch* batch;  ///< in the scratch
};

/// An integer of any width.
__device__ inline i64 c_integer(ReceivedBatch const& batch, u32 column, u32 row) {
    ColumnLayout const& layout = batch.layout->columns[column];
    if (layout.storage == Storage::Bits) return batch.bit(column, row) ? 1 : 0;
    char const* const at = batch.value(column, row);
    bool const is_signed = layout.key == KeyKind::Signed;
    switch (layout.width) {
        case 1: return is_signed ? i64(load_value<signed char>(at)) : i64(load_value<u8>(at));
        case 2: return is_signed ? i64(load_value<std::int16_t>(at)) : i64(load_value<u16>(at));
        case 4: return is_signed ? i64(load_value<std::int32_t>(at)) : i64(load_value<u32>(at));
        default: return load_value<i64>(at);
    }
}

__device__ inline double c_float(ReceivedBatch const& batch, u32 column, u32 row) {
    char const* const at = batch.value(column, row);
    return batch.layout->columns[column].width == 4 ? double(load_value<float>(at))
                                                    : load_value<double>(at);
}

#endif

}  // namespace mgi::device

#if defined(__CUDACC__)
extern "C" {

/// Offers rows [first, first + rows) of columns, which are ColumnViews in the GPU's memory; how many of them
/// were accepted: 0 is no room now.
__device__ int mgi_send(long long* accepted, unsigned long long w0, unsigned long long w1,
                        unsigned long long w2, unsigned long long w3, unsigned long long w4,
                        unsigned long long columns, unsigned long long first,
                        unsigned long long rows) {
    mgi::device::CCall call(w0, w1, w2, w3, w4);
    *accepted = call.send(reinterpret_cast<mgi::device::ColumnView const*>(columns), first, rows);
    return 0;
}

/// Publishes what is buffered: 0 is done, 1 is not yet.
__device__ int mgi_push(long long* result, unsigned long long w0, unsigned long long w1,
                        unsigned long long w2, unsigned long long w3, unsigned long long w4) {
    mgi::device::CCall call(w0, w1, w2, w3, w4);
    *result = call.result_of(call.channel.push(call.group, call.shared));
    return 0;
}

/// The group sends no more: 0 is delivered, 1 is not yet: call it again.
__device__ int mgi_flush(long long* result, unsigned long long w0, unsigned long long w1,
                         unsigned long long w2, unsigned long long w3, unsigned long long w4) {
    mgi::device::CCall call(w0, w1, w2, w3, w4);
    *result = call.result_of(call.channel.flush(call.group, call.shared));
    return 0;
}

/// Rows of the batch that has come; 0 is nothing yet, -1 the end.
__device__ int mgi_recv(long long* rows, unsigned long long w0, unsigned long long w1,
                        unsigned long long w2, unsigned long long w3, unsigned long long w4) {
    *rows = mgi::device::CCall(w0, w1, w2, w3, w4).receive();
    return 0;
}

/// The block is done with its batch.
__device__ int mgi_release(long long* result, unsigned long long w0, unsigned long long w1,
                           unsigned long long w2, unsigned long long w3, unsigned long long w4) {
    mgi::device::CCall call(w0, w1, w2, w3, w4);
    mgi::device::ReceivedBatch const mine = *call.batch;
    call.channel.release(call.group, call.shared, mine);
    *result = 0;
    return 0;
}

/// A value of the block's batch, of a column of integers, dates or bool. Any thread calls it by itself.
__device__ int mgi_integer(long long* value, unsigned long long w0, unsigned long long w1,
                           unsigned long long w2, unsigned long long w3, unsigned long long w4,
                           unsigned column, unsigned row) {
    *value = mgi::device::c_integer(*mgi::device::CCall(w0, w1, w2, w3, w4).batch, column, row);
    return 0;
}

/// The same of a column of floats.
__device__ int mgi_float(double* value, unsigned long long w0, unsigned long long w1,
                         unsigned long long w2, unsigned long long w3, unsigned long long w4,
                         unsigned column, unsigned row) {
    *value = mgi::device::c_float(*mgi::device::CCall(w0, w1, w2, w3, w4).batch, column, row);
    return 0;
}

/// Whether a value of the block's batch is there: 0 is a null.
__device__ int mgi_valid(long long* valid, unsigned long long w0, unsigned long long w1,
                         unsigned long long w2, unsigned long long w3, unsigned long long w4,
                         unsigned column, unsigned row) {
    *valid = mgi::device::CCall(w0, w1, w2, w3, w4).batch->valid(column, row) ? 1 : 0;
    return 0;
}

/// Lets the other side run while a group waits: `round` counts what was tried in vain.
__device__ int mgi_backoff(long long* result, unsigned round) {
    mgi::device::backoff(round);
    *result = 0;
    return 0;
}

}  // extern "C"
#endif
