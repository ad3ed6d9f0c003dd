#!/usr/bin/env python3
"""Group-by and join on one GPU by PyTorch and by CuPy, of tables like those of mgi_gpu_bench.

    gpu_libraries.py [--lines N] [--libraries torch,cupy] [--json FILE]

A program of its own, which needs no MGI. Prints a JSON array of results like mgi_gpu_bench's, empty
where neither library is there with a GPU.
Group-by: unique with its inverse, then sums by it. Join: the right side sorted, a binary search of
each left key, and what it finds gathered, which takes keys that are there once on the right.
"""

import argparse
import gc
import json
import statistics
import sys
import time
from pathlib import Path

try:
    import torch

    if not torch.cuda.is_available():
        torch = None
except ImportError:
    torch = None
try:
    import cupy

    if cupy.cuda.runtime.getDeviceCount() == 0:
        cupy = None
except Exception:  # no package, or no driver: it says so in its own ways
    cupy = None

FACTOR = 0x1E3779B97F4A7C15


class Torch:
    name = "torch"

    @staticmethod
    def random(low, high, rows):
        return torch.randint(low, high, (rows,), dtype=torch.int64, device="cuda")

    @staticmethod
    def order(rows):
        return torch.randperm(rows, device="cuda")

    @staticmethod
    def group_by(keys, values):
        groups, inverse, counts = torch.unique(keys, return_inverse=True, return_counts=True)
        sums = torch.zeros_like(groups).scatter_add_(0, inverse, values)
        return groups, sums, counts

    @staticmethod
    def join(keys, lines, ids, payloads):
        ids, order = torch.sort(ids)
        at = torch.searchsorted(ids, keys).clamp_(max=len(ids) - 1)
        found = ids[at] == keys
        return keys[found], lines[found], payloads[order[at[found]]]

    @staticmethod
    def wait():
        torch.cuda.synchronize()

    @staticmethod
    def empty():
        gc.collect()
        torch.cuda.empty_cache()


class Cupy:
    name = "cupy"

    @staticmethod
    def random(low, high, rows):
        return cupy.random.randint(low, high, rows, dtype=cupy.int64)

    @staticmethod
    def order(rows):
        return cupy.random.permutation(rows).astype(cupy.int64)

    @staticmethod
    def group_by(keys, values):
        groups, inverse, counts = cupy.unique(keys, return_inverse=True, return_counts=True)
        sums = cupy.zeros(len(groups), dtype=cupy.uint64)
        cupy.add.at(sums, inverse.ravel(), values.astype(cupy.uint64))
        return groups, sums.astype(cupy.int64), counts

    @staticmethod
    def join(keys, lines, ids, payloads):
        order = cupy.argsort(ids)
        ids = ids[order]
        at = cupy.minimum(cupy.searchsorted(ids, keys), len(ids) - 1)
        found = ids[at] == keys
        return keys[found], lines[found], payloads[order[at[found]]]

    @staticmethod
    def wait():
        cupy.cuda.Device().synchronize()

    @staticmethod
    def empty():
        gc.collect()
        cupy.get_default_memory_pool().free_all_blocks()


def timed(library, work, repeats):
    """Milliseconds of runs, ascending, the first left out; and what the last one gave."""
    times = []
    result = None
    for _ in range(repeats + 1):
        result = None
        library.wait()
        start = time.perf_counter()
        result = work()
        library.wait()
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times[1:]), result


def result_of(library, name, times, lines, payload, exact, **parameters):
    return {
        "name": f"{name}.{library.name}",
        **parameters,
        "best_gbps": payload / times[0] / 1e6,
        "median_gbps": payload / statistics.median(times) / 1e6,
        "ms_best": times[0],
        "ms_median": statistics.median(times),
        "rows_per_us": lines / times[0] / 1e3,
        "exact": bool(exact),
    }


def group_case(library, lines, groups, repeats):
    keys = library.random(0, groups, lines) * FACTOR
    values = library.random(0, 1009, lines)
    times, (_, sums, counts) = timed(library, lambda: library.group_by(keys, values), repeats)
    exact = int(sums.sum()) == int(values.sum()) and int(counts.sum()) == lines
    return result_of(
        library, "group_by", times, lines, 16 * lines, exact, rows=lines, groups=groups
    )


def join_case(library, lines, orders, repeats):
    keys = library.random(0, orders, lines) * FACTOR
    numbers = library.random(0, 1 << 62, lines)
    order = library.order(orders)
    ids = order * FACTOR
    times, (_, joined, payloads) = timed(
        library, lambda: library.join(keys, numbers, ids, order), repeats
    )
    exact = len(joined) == lines and int(joined.sum()) == int(numbers.sum())
    exact = exact and bool((payloads * FACTOR == keys).all())
    payload = 16 * (lines + orders)
    return result_of(library, "join", times, lines, payload, exact, left=lines, right=orders)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=60_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--libraries", default="torch,cupy")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    lines = options.lines
    orders = max(1, lines // 4)
    repeats = options.repeats
    there = {"torch": torch and Torch, "cupy": cupy and Cupy}
    libraries = [there[name] for name in options.libraries.split(",") if there.get(name)]
    if not libraries:
        print("gpu_libraries.py: neither torch nor cupy with a GPU", file=sys.stderr)
    results = []
    for library in libraries:
        for name, case in (
            ("group_by", lambda of: group_case(of, lines, orders, repeats)),
            ("group_by", lambda of: group_case(of, lines, 4, repeats)),
            ("join", lambda of: join_case(of, lines, orders, repeats)),
        ):
            try:
                results.append(case(library))
            except Exception as error:  # out of memory, say, which each library calls otherwise
                results.append({"name": f"{name}.{library.name}", "error": str(error)})
            library.empty()
    text = "[\n" + ",\n".join("  " + json.dumps(result) for result in results) + "\n]\n"
    print(text, end="")
    if options.json:
        options.json.write_text(text)
    return 1 if any("error" in result or not result["exact"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
