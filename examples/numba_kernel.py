"""The paper's Figure 3 with one's own kernel: a group-by over two endpoints of a GPU, in Numba.

The kernel is Python. Each endpoint owns a part of the table; its blocks send the rows to the
endpoints that own their keys, and add up what arrives meanwhile.

    python3 examples/numba_kernel.py
"""

import os
import sys

# Before CUDA starts: a kernel that is loaded at its launch would wait for those that wait for it.
os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")

import mgi
import numpy as np

try:
    from mgi import numba as device
    from numba import cuda
except ImportError as error:
    print(f"skipped: Numba's CUDA target is not installed (pip install numba-cuda): {error}")
    sys.exit(0)

ROWS, CUSTOMERS, ENDPOINTS, BLOCKS, THREADS = 1_000_000, 10_000, 2, 8, 256


def sum_by_customer(channel, columns, rows, sums):
    first = rows * cuda.blockIdx.x // cuda.gridDim.x
    count = rows * (cuda.blockIdx.x + 1) // cuda.gridDim.x - first
    sent = 0
    flushed = False
    idle = 0
    while True:
        if sent != count:
            accepted = device.send(channel, columns, first + sent, count - sent)
            if device.is_error(accepted):
                return
            sent += accepted
        if sent == count and not flushed:
            flushed = device.flush(channel) != 1
        received = device.recv(channel)
        if received > 0:
            for row in range(cuda.threadIdx.x, received, cuda.blockDim.x):
                customer = device.integer(channel, 0, row)
                cuda.atomic.add(sums, customer, device.integer(channel, 1, row))
            device.release(channel)
            idle = 0
        elif received == 0:
            device.backoff(idle)
            idle += 1
        else:
            return  # the end; or an error, which the host sees


def main() -> int:
    with mgi.Runtime.local() as runtime:
        if not any(device["name"] == "cuda:0" for device in runtime.devices):
            print("skipped: there is no GPU here")
            return 0
        endpoints = [runtime.create_endpoint("cuda:0") for _ in range(ENDPOINTS)]
        channel = runtime.create_channel(
            endpoints,
            endpoints,
            {"customer": "int32", "amount": "int64"},
            mgi.Partition("customer"),
            name="sales",
            tile_rows=1024,  # so that a block does with the 48 KiB that Numba gives it
        )
        random = np.random.default_rng(7)
        expected = np.zeros(CUSTOMERS, np.int64)
        parts = []
        for endpoint in endpoints:
            customers = random.integers(0, CUSTOMERS, ROWS, dtype=np.int32)
            amounts = random.integers(0, 1000, ROWS, dtype=np.int64)
            np.add.at(expected, customers, amounts)
            table = mgi.GpuTable(
                {"customer": cuda.to_device(customers), "amount": cuda.to_device(amounts)}
            )
            sums = cuda.to_device(np.zeros(CUSTOMERS, np.int64))
            groups = runtime.attach(endpoint, [channel], blocks=BLOCKS, threads=THREADS)
            parts.append((mgi.column_views(table), sums, groups, cuda.stream()))

        # Compiled and loaded here, before the first kernel runs.
        signature = "void(UniTuple(int64, 5), int64, int64, int64[::1])"
        kernel = cuda.jit(signature)(sum_by_customer)
        cuda.synchronize()

        for views, sums, groups, stream in parts:
            kernel[BLOCKS, THREADS, stream, groups.shared_bytes](
                groups.words(channel), device.address(views), ROWS, sums
            )
            groups.launched(stream)
        for _, _, groups, _ in parts:
            groups.wait(timeout=60)

        results = [sums.copy_to_host() for _, sums, _, _ in parts]
        owners = sum((result > 0).astype(int) for result in results)
        right = bool((sum(results) == expected).all()) and int(owners.max()) == 1
        stats = channel.stats()
        print(f"{stats['rows']} rows, {stats['bytes']} bytes through {len(stats['lanes'])} lanes")
        print(f"{CUSTOMERS} customers: {'every sum is right' if right else 'WRONG SUMS'}")
        return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
