/// \file
/// Kernels on GPUs that are made up (FakeDriver): their blocks are threads of this process, of one thread each,
/// that run the same device code.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include <mgi/device/kernel_groups.hpp>

#include "runtime/runtime_impl.hpp"
#include "support/fake_driver.hpp"
#include "support/one_device.hpp"
#include "support/tables.hpp"

namespace mgi::test {

using BlockKernel = std::function<void(device::Group const&, device::Shared&)>;

/// Runs a kernel's blocks, and comes back when they have ended, as a stream does whose work is over.
inline void run_blocks(device::KernelGroups const& groups, BlockKernel const& kernel) {
    std::vector<std::thread> blocks;
    for (device::u32 b = 0; b < groups.count; ++b) {
        blocks.emplace_back([&, b] {
            std::vector<std::byte> scratch(groups.shared_bytes);
            device::Shared shared = groups.shared(scratch.data());
            kernel(groups.group(b, 0, 1), shared);
        });
    }
    for (auto& block : blocks) block.join();
}
inline void run_blocks(GpuLaunch const& launch, BlockKernel const& kernel) {
    run_blocks(device::KernelGroups{launch.first_number, 0, launch.groups, launch.groups,
                                    launch.shared_bytes},
               kernel);
}
inline GpuStart blocks_of(BlockKernel const& kernel) {
    return [kernel](GpuLaunch const& launch) { run_blocks(launch, kernel); };
}

/// Launches a kernel at an endpoint of any device; on a GPU as `start` does it.
inline Launch launch_blocks(Runtime& runtime, Endpoint endpoint, device::u32 blocks,
                            std::vector<device::Channel> const& channels, BlockKernel const& kernel,
                            GpuStart const& start) {
    LaunchOptions options;
    options.groups = blocks;
    options.threads = runtime.devices()[endpoint.device].kind == VertexKind::Gpu ? 32 : 1;
    return runtime.impl()->start(endpoint, options, channels, kernel, start);
}
inline Launch launch_blocks(Runtime& runtime, Endpoint endpoint, device::u32 blocks,
                            std::vector<device::Channel> const& channels,
                            BlockKernel const& kernel) {
    return launch_blocks(runtime, endpoint, blocks, channels, kernel, blocks_of(kernel));
}

/// A channel of KeyValue rows from all of these endpoints to all of them, by key: of few rows and
/// groups, since the memory of each GPU is this machine's.
inline ChannelSpec exchange_among(std::vector<Endpoint> const& endpoints) {
    ChannelSpec spec;
    spec.sources = spec.destinations = endpoints;
    spec.schema = numbered_schema();
    spec.routing = Routing::partition("key");
    spec.options.name = "on gpus";
    spec.options.expected_bytes = 1 << 20;
    spec.options.max_groups = 16;
    return spec;
}

/// Of one group: `take(batch)` until the end, and `step()` before each look.
template <class Step, class Take>
void receive_rows(device::Channel const& on, device::Group const& group, device::Shared& shared,
                  Step const& step, Take const& take) {
    for (device::u32 idle = 0;;) {
        step();
        device::ReceivedBatch batch;
        device::Status const status = on.recv(group, shared, batch);
        if (status == device::Status::Pending) {
            device::backoff(idle++);
            continue;
        }
        if (status != device::Status::Ok) return;
        take(batch);
        on.release(group, shared, batch);
        idle = 0;
    }
}

/// The paper's Figure 3 of one group.
template <class Take>
void exchange_rows(device::Channel const& on, device::Group const& group, device::Shared& shared,
                   std::vector<KeyValue> const& rows, Take const& take) {
    device::u64 sent = 0;
    bool flushed = false;
    auto const step = [&] {
        if (sent < rows.size()) {
            sent += on.send_rows(group, shared, rows.data() + sent, rows.size() - sent).rows;
        } else if (!flushed) {
            flushed = on.flush(group, shared) != device::Status::Pending;
        }
    };
    receive_rows(on, group, shared, step, take);
}

/// Sends all rows and flushes, by a group that does not receive.
inline void send_all(device::Channel const& on, device::Group const& group, device::Shared& shared,
                     std::vector<KeyValue> const& rows) {
    for (device::u64 sent = 0; sent < rows.size();) {
        auto const result = on.send_rows(group, shared, rows.data() + sent, rows.size() - sent);
        if (result.status == device::Status::Error) return;
        sent += result.rows;
    }
    (void)on.flush_wait(group, shared);
}

}  // namespace mgi::test
