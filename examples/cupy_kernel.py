"""The paper's Figure 3 with one's own kernel: a group-by over two endpoints of a GPU, in CuPy.

The kernel is C++, compiled by NVRTC when the program runs. Each endpoint owns a part of the table;
its blocks send the rows to the endpoints that own their keys, and add up what arrives meanwhile.

    python3 examples/cupy_kernel.py
"""

import os
import sys

# Before CUDA starts: a kernel that is loaded at its launch would wait for those that wait for it.
os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")

import mgi

try:
    import cupy
except ImportError:
    print("skipped: CuPy is not installed (pip install cupy-cuda13x)")
    sys.exit(0)

SOURCE = r"""
#include <mgi/device.hpp>
#include <mgi/device/kernel_groups.hpp>

using namespace mgi::device;

extern "C" __global__ void sum_by_customer(KernelGroups groups, Channel channel,
                                           int const* customers, long long const* amounts,
                                           unsigned long long rows, unsigned long long* sums) {
    extern __shared__ __align__(16) unsigned char scratch[];
    Group const group = groups.group();
    Shared shared = groups.shared(scratch);
    u64 const first = rows * group.block / group.blocks;
    u64 const count = rows * (group.block + 1) / group.blocks - first;
    u64 sent = 0;
    bool flushed = false;
    for (u32 idle = 0;;) {
        if (sent != count) {
            ColumnView columns[2];
            columns[0].values = customers;
            columns[1].values = amounts;
            columns[0].offset = columns[1].offset = first + sent;
            Batch batch;
            batch.columns = columns;
            batch.count = count - sent;
            SendResult const result = channel.send(group, shared, batch);
            sent += result.rows;
            if (result.status == Status::Error) return;
        }
        if (sent == count && !flushed) {
            flushed = channel.flush(group, shared) != Status::Pending;
        }
        ReceivedBatch batch;
        Status const status = channel.recv(group, shared, batch);
        if (status == Status::Ok) {
            int const* const keys = batch.column<int>(0);
            long long const* const values = batch.column<long long>(1);
            for (u32 i = group.thread; i < batch.rows; i += group.threads) {
                atomicAdd(&sums[keys[i]], (unsigned long long)values[i]);
            }
            channel.release(group, shared, batch);
            idle = 0;
        } else if (status == Status::Pending) {
            backoff(idle++);
        } else {
            return;  // the end; or an error, which the host sees
        }
    }
}
"""
ROWS, CUSTOMERS, ENDPOINTS, BLOCKS, THREADS = 1_000_000, 10_000, 2, 8, 256


def main() -> int:
    with mgi.Runtime.local() as runtime:
        if not any(device["name"] == "cuda:0" for device in runtime.devices):
            print("skipped: there is no GPU here")
            return 0
        options = ("-std=c++20", *(f"-I{folder}" for folder in mgi.include_dirs()))
        kernel = cupy.RawModule(code=SOURCE, options=options).get_function("sum_by_customer")
        endpoints = [runtime.create_endpoint("cuda:0") for _ in range(ENDPOINTS)]
        channel = runtime.create_channel(
            endpoints,
            endpoints,
            {"customer": "int32", "amount": "int64"},
            mgi.Partition("customer"),
            name="sales",
        )
        random = cupy.random.default_rng(7)
        parts = []
        for endpoint in endpoints:
            customers = random.integers(0, CUSTOMERS, ROWS, dtype=cupy.int32)
            amounts = random.integers(0, 1000, ROWS, dtype=cupy.int64)
            sums = cupy.zeros(CUSTOMERS, cupy.uint64)
            groups = runtime.attach(endpoint, [channel], blocks=BLOCKS, threads=THREADS)
            stream = cupy.cuda.Stream(non_blocking=True)
            parts.append((customers, amounts, sums, groups, stream))
        cupy.cuda.Device().synchronize()  # all is there before the first kernel runs
        kernel.max_dynamic_shared_size_bytes = max(part[3].shared_bytes for part in parts)

        for customers, amounts, sums, groups, stream in parts:
            with stream:
                kernel(
                    (BLOCKS,),
                    (THREADS,),
                    (groups.arg, groups.channel_arg(channel), customers, amounts, ROWS, sums),
                    shared_mem=groups.shared_bytes,
                )
                groups.launched(stream)
        for *_, groups, _ in parts:
            groups.wait(timeout=60)

        expected = sum(
            cupy.bincount(customers, amounts, CUSTOMERS) for customers, amounts, *_ in parts
        )
        owners = sum((sums > 0).astype(int) for _, _, sums, *_ in parts)
        total = sum(sums for _, _, sums, *_ in parts)
        right = bool((total == expected).all()) and int(owners.max()) == 1
        stats = channel.stats()
        print(f"{stats['rows']} rows, {stats['bytes']} bytes through {len(stats['lanes'])} lanes")
        print(f"{CUSTOMERS} customers: {'every sum is right' if right else 'WRONG SUMS'}")
        return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
