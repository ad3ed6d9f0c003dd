#!/usr/bin/env python3
"""Partition on the GPU by PyTorch: argsort of the destinations, then index_select of the rows.

    python3 bench/gpu/torch_partition.py [--quick] [--traffic GBPS] [--json FILE]

Prints a JSON array of results like mgi_gpu_bench's, empty where torch or a GPU is missing.
--traffic is mgi_gpu_bench's traffic_gbps, for shares of the floor. In torch's favour, rows'
destinations are given and not computed in the timed runs, since element-wise operators would take
a pass each.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

try:
    import torch
except ImportError:
    torch = None

MASK = (1 << 64) - 1


def signed(value):
    return value - (1 << 64) if value >= 1 << 63 else value


def shift_right(x, by):
    """Logical: torch's shifts of int64 carry the sign along."""
    return (x >> by) & (MASK >> by)


def murmur3_mix(x):
    x = x ^ shift_right(x, 33)
    x = x * signed(0xFF51AFD7ED558CCD)
    x = x ^ shift_right(x, 33)
    x = x * signed(0xC4CEB9FE1A85EC53)
    return x ^ shift_right(x, 33)


def destinations_of(keys, destinations):
    """MGI's: the hash's high half scaled to the destinations."""
    return ((shift_right(murmur3_mix(keys), 32) * destinations) >> 32).to(torch.uint8)


def timed(work, repeats):
    """Milliseconds of runs, ascending, the first left out."""
    times = []
    for _ in range(repeats + 1):
        before = torch.cuda.Event(enable_timing=True)
        after = torch.cuda.Event(enable_timing=True)
        before.record()
        work()
        after.record()
        torch.cuda.synchronize()
        times.append(before.elapsed_time(after))
    return sorted(times[1:])


def case(layout, words, destinations, options):
    rows = ((1 << 27) if options.quick else (1 << 30)) // (8 * words)
    shape = (rows, words) if layout == "rows" else (words, rows)
    table = torch.randint(0, (1 << 63) - 1, shape, dtype=torch.int64, device="cuda")
    keys = table[:, 0] if layout == "rows" else table[0]
    target = destinations_of(keys, destinations)
    kept = {}

    def partition():
        order = torch.argsort(target)
        if layout == "rows":
            kept["table"] = torch.index_select(table, 0, order)
        else:
            kept["table"] = [torch.index_select(column, 0, order) for column in table]

    times = timed(partition, 3 if options.quick else 5)
    arrived = kept["table"][:, 0] if layout == "rows" else kept["table"][0]
    found = destinations_of(arrived, destinations)
    exact = bool((found[1:] >= found[:-1]).all()) and bool(arrived.sum() == keys.sum())
    megabytes = rows * words * 8 / 1e6  # a millisecond, which is as many GB/s
    result = {
        "name": "partition.torch",
        "layout": layout,
        "row_bytes": words * 8,
        "destinations": destinations,
        "keys": "uniform",
        "rows": rows,
        "best_gbps": megabytes / times[0],
        "median_gbps": megabytes / statistics.median(times),
        "exact": exact,
    }
    if options.traffic:
        result["floor_gbps"] = options.traffic / 2
        result["share_of_floor"] = result["best_gbps"] / result["floor_gbps"]
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--traffic", type=float, default=0.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = []
    if torch is None or not torch.cuda.is_available():
        print("torch_partition.py: no torch with a GPU", file=sys.stderr)
    else:
        for layout in ("rows", "columns"):
            for words in (2, 4, 8):
                for destinations in (2, 8, 64) if options.quick else (2, 8, 16, 64):
                    try:
                        results.append(case(layout, words, destinations, options))
                    except RuntimeError as error:  # out of memory, say
                        results.append({"name": "partition.torch", "error": str(error)})
    text = "[\n" + ",\n".join("  " + json.dumps(result) for result in results) + "\n]\n"
    print(text, end="")
    if options.json:
        options.json.write_text(text)
    return 1 if any("error" in result or not result["exact"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
