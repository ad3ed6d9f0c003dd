// The kernel of the tests of the runtime on GPUs, and how it is launched: by the runtime, and by ourselves.
#include <mgi/gpu_sorters.hpp>

#include "gpu/runtime_rig.hpp"

namespace mgi::test::gpu {

MGI_HD bool Kernel::is_right(device::ReceivedBatch const& batch, u32 i, u64 id, u32 width,
                             bool has_nulls) {
    i64 key = 0;
    memcpy(&key, batch.value(0, i), 8);
    if (key != key_of(id)) return false;
    if (width != kWideColumns) return true;
    bool const has_name = !has_nulls || WideRow::has_name(id);
    bool const has_value = !has_nulls || WideRow::has_value(id);
    if (batch.valid(2, i) != has_name || batch.valid(3, i) != has_value) return false;
    if (batch.bit(4, i) != WideRow::flag(id)) return false;
    double value = 0;
    memcpy(&value, batch.value(3, i), 8);
    if (has_value && value != WideRow::value(id)) return false;
    if (!has_name) return true;
    device::Text const name = batch.text(2, i);
    if (name.size != WideRow::name_size(id)) return false;
    for (u32 at = 0; at < name.size; ++at) {
        if (name.data[at] != WideRow::letter(id, at)) return false;
    }
    return true;
}

MGI_HD void Kernel::look(Group const& group, Task const& task, device::ReceivedBatch const& batch,
                         u32 width) {
    u64 const most = task.rows * task.sources;
    for (u32 i = group.thread; i < batch.rows; i += group.threads) {
        u64 id = 0;
        memcpy(&id, batch.value(1, i), 8);
        if (id >= most || !is_right(batch, i, id, width, task.has_nulls)) {
            add(task.tally->wrong, 1);
            continue;
        }
        add(task.seen[id], 1);
        if (!task.is_mine(id)) add(task.tally->astray, 1);
    }
    if (!group.leads()) return;
    if (task.ordered) look_at_order(task, batch);
    add(task.tally->received, batch.rows);
}

// Of one consumer group.
MGI_HD void Kernel::look_at_order(Task const& task, device::ReceivedBatch const& batch) {
    for (u32 i = 0; i < batch.rows; ++i) {
        u64 id = 0;
        memcpy(&id, batch.value(1, i), 8);
        u64 const row = id % task.rows;
        u64 g = 0;
        while (row >= task.rows * (g + 1) / kGroups) ++g;
        i64& last = task.last[id / task.rows * kGroups + g];
        if (i64(id) + 1 <= last) ++task.tally->disorder;
        last = i64(id) + 1;
        if (task.order != nullptr) task.order[task.tally->received + i] = u32(id);
    }
}

// Sends some of the rows [from, end).
MGI_HD device::SendResult Kernel::send(Group const& group, Shared& shared,
                                       device::Channel const& channel, Task const& task,
                                       device::ColumnView* columns, u64 from, u64 end) {
    u64 count = end - from;
    if (task.columns != nullptr) {
        group.sync();
        for (u32 c = group.thread; c < kWideColumns; c += group.threads) {
            columns[c] = task.columns[c];
            columns[c].offset += from;
        }
        group.sync();
        device::Batch batch;
        batch.columns = columns;
        batch.count = count;
        return channel.send(group, shared, batch);
    }
    if (task.routing != RoutingKind::Direct) {
        return channel.send_rows(group, shared, task.data + from, count);
    }
    count = device::min_of<u64>(count, 64 - from % 64);
    u32 const to = task.ids[from / 64 % task.destinations];
    return channel.send_rows_to(group, shared, to, task.data + from, count);
}

MGI_HD void Kernel::operator()(Group const& group, Shared& shared, device::Channel channel,
                               Task task) const {
    auto* const columns = shared.take<device::ColumnView>(kWideColumns);
    u32 const width = task.columns != nullptr || channel.state().layout.column_count == kWideColumns
                          ? kWideColumns
                          : 2;
    u64 sent = task.rows * group.block / group.blocks;
    u64 const end = channel.is_source() ? task.rows * (group.block + 1) / group.blocks : sent;
    bool const receives = channel.is_destination() && (!task.ordered || group.block == 0);
    bool flushed = !channel.is_source();
    bool ended = !receives;
    // One by one: this thread's next row. The threads of a group do not wait for each other.
    u64 own = sent + group.thread;
    ErrorCode failure = ErrorCode::Ok;  // this thread's
    bool failed = false;                // any thread's
    auto const note = [&](ErrorCode code) {
        if (failure == ErrorCode::Ok) failure = code;
    };
    for (u32 idle = 0; !(flushed && ended);) {
        bool moved = false;
        if (task.one_by_one && own < end) {
            for (u32 burst = 0; burst < 64 && own < end; ++burst) {
                auto const result = task.texts == nullptr
                                        ? channel.send_row(group, task.data[own])
                                        : channel.send_row(group, task.texts[own]);
                if (result.status == Status::Error) note(result.code);
                if (result.status != Status::Ok) break;
                own += group.threads;
                moved = true;
            }
        }
        // What the group does together it does when all of it has come here.
        group.sync();
        u32* const words = reinterpret_cast<u32*>(columns);
        bool const some_left = device::any_of(group, words, task.one_by_one && own < end);
        failed = device::any_of(group, words, failure != ErrorCode::Ok);
        if (failed) break;
        if (!task.one_by_one && sent < end) {
            auto const result = send(group, shared, channel, task, columns, sent, end);
            if (result.status == Status::Error) note(result.code);
            sent += result.rows;
            moved = result.rows != 0;
        } else if (!some_left && !flushed && !task.flush) {
            break;
        } else if (!some_left && !flushed) {
            auto const result = channel.flush(group, shared);
            if (result.status == Status::Error) note(result.code);
            flushed = result.status == Status::Ok;
        }
        if (ended) {
            if (!moved) device::backoff(idle++);
            continue;
        }
        device::ReceivedBatch batch;
        auto const result = channel.recv(group, shared, batch);
        if (result.status == Status::Ok) {
            look(group, task, batch, width);
            channel.release(group, shared, batch);
            moved = true;
        } else if (result.status == Status::Error) {
            note(result.code);
        }
        ended = result.status == Status::End;
        idle = moved ? 0 : idle + 1;
        if (!moved) device::backoff(idle);
        u32 const so_far = group.leads() ? add(task.tally->received, 0) : 0;
        if (device::any_of(group, words, so_far >= task.stop_after)) return;
    }
    if (failure != ErrorCode::Ok) {
        cuda::atomic_ref<u32, cuda::thread_scope_device>(task.tally->failure)
            .store(u32(failure), cuda::std::memory_order_relaxed);
    }
}

Launch launch(Runtime& runtime, Endpoint endpoint, LaunchOptions const& shape,
              device::Channel const& channel, Task const& task) {
    return runtime.launch(endpoint, shape, Kernel{}, channel, task);
}

namespace {

__global__ void __launch_bounds__(256)
    own_kernel(device::KernelGroups groups, device::Channel channel, Task task) {
    extern __shared__ __align__(16) std::byte scratch[];
    Shared shared = groups.shared(scratch);
    Kernel()(groups.group(), shared, channel, task);
}

}  // namespace

void start(OwnLaunch const& of, device::Channel channel, Task task) {
    cuda_check(cudaFuncSetAttribute(own_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    int(of.groups.shared_bytes)),
               "shared memory");
    device::KernelGroups groups = of.groups;
    void* arguments[] = {&groups, &channel, &task};
    void* const kernel = reinterpret_cast<void*>(own_kernel);
    cuda_check(of.cooperative ? cudaLaunchCooperativeKernel(kernel, of.grid, of.block, arguments,
                                                            groups.shared_bytes, of.stream)
                              : cudaLaunchKernel(kernel, of.grid, of.block, arguments,
                                                 groups.shared_bytes, of.stream),
               "a launch of our own");
}

}  // namespace mgi::test::gpu
