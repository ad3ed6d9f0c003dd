#!/usr/bin/env python3
"""Draws results of `mgi_gpu_bench --only contest` beside each other.

    tools/gpu/plot_exchange.py RESULTS.json GPUS OUT.svg

RESULTS.json is what `mgi_gpu_bench --json` writes, or has such a list under "results", as those
of bench/results. Those of so many GPUs in one process are drawn.
"""

import json
import sys
from pathlib import Path

from svg_bars import Chart, bars

NAMES = {
    "gbps_median": "MGI, with reading",
    "gbps_nccl": "NCCL",
    "gbps_ucx": "UCX",
    "gbps_copy_engines": "copy engines",
    "gbps_reference": "reference",
}


def title_of(result):
    """What sets a result apart from the plain exchange of 64 Mi rows of 32 bytes."""
    words = [result["pattern"]]
    if result["theta"]:
        words.append(f"Zipf {result['theta']:g}")
    if result["layout"] != "rows":
        words.append(result["layout"])
    if result["row_bytes"] != 32:
        words.append(f"{result['row_bytes']} bytes")
    if result["rows"] < 1 << 24:
        words.append(f"{result['rows'] / 1e6:.2g} M rows")
    return " ".join(words)


def main():
    """Reads the words of the command."""
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    found = json.loads(Path(sys.argv[1]).read_text())
    results = [
        result
        for result in (found if isinstance(found, list) else found["results"])
        if result["gpus"] == int(sys.argv[2])
        and result["processes"] == 1
        and result["by_reference"]
    ]
    chart = Chart(
        f"{sys.argv[2]} GPUs: payload that all of them got",
        [title_of(result) for result in results],
        {
            name: [result[key] for result in results]
            for key, name in NAMES.items()
            if any(result[key] is not None for result in results)
        },
        width=1500,
    )
    Path(sys.argv[3]).write_text(bars(chart) + "\n")


main()
