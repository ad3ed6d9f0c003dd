"""``mgi perf exchange``: how fast rows get from kernels to kernels."""

from __future__ import annotations

import argparse
import math
import statistics
from typing import Any

from mgi import _mgi
from mgi.perf.numbers import count

SUMMARY = "every endpoint sends to every endpoint by the hash of a key"
DETAILS = (
    "Every endpoint sends its rows to every endpoint by the hash of an int64 key. GB/s are bytes "
    "of all rows over the time from the first send to the last row consumed; consumers read every "
    "byte."
)
WRONG = "rows are missing or changed"


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measures an exchange and returns what ``--json`` writes."""
    theta = _theta(options.dist)
    measured = _mgi.perf_exchange(
        {
            "endpoints": options.endpoints,
            "rows": options.rows,
            "row_bytes": options.row_bytes,
            "zipf_theta": theta,
            "layout": options.layout,
            "groups": options.groups,
            "threads": options.threads,
            "by_reference": not options.by_copy,
            "staged": options.staged,
            "repeat": options.repeat,
        }
    )
    gbps = measured["gbps"]
    return {
        "pattern": "exchange",
        "layout": options.layout,
        "endpoints": options.endpoints,
        "rows": options.rows,
        "bytes": measured["bytes"],
        "row_bytes": options.row_bytes,
        "dist": options.dist,
        "fanout": options.endpoints,
        "repeat": options.repeat,
        "groups": measured["groups"],
        "threads": options.threads,
        "by_reference": not options.by_copy,
        "staged": options.staged,
        "gbps_median": statistics.median(gbps),
        "gbps_min": min(gbps),
        "gbps_max": max(gbps),
        "limit_memcpy_gbps": statistics.median(measured["memcpy_gbps"]),
        "verified": measured["verified"],
    }


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what can be chosen."""
    add = parser.add_argument
    add("--endpoints", type=count(1), default=4, metavar="N", help="endpoints on the CPU devices")
    add("--rows", type=count(1), default=10_000_000, metavar="N", help="of all endpoints together")
    add("--row-bytes", type=_row_bytes, default=16, metavar="N", help="a multiple of 8")
    add("--dist", type=_dist, default="uniform", metavar="uniform|zipf:THETA", help="of the keys")
    add("--layout", choices=["columns", "rows"], default="columns", help="of rows in segments")
    add(
        "--groups",
        type=count(1),
        default=None,
        metavar="G",
        help="kernel groups of each endpoint (default: the cores divided among the endpoints)",
    )
    add("--threads", type=count(1), default=1, metavar="T", help="threads of each group")
    add("--by-copy", action="store_true", help="copy through receive pools and movers")
    add("--staged", action="store_true", help="send row by row, through stage buffers and sorters")
    add("--repeat", type=count(1), default=5, metavar="N", help="runs; the median counts")


def _row_bytes(text: str) -> int:
    number = count(8)(text)
    if number % 8 != 0:
        raise argparse.ArgumentTypeError(f"{number} is no multiple of 8, the size of a column")
    return number


def _theta(dist: str) -> float:
    return 0.0 if dist == "uniform" else float(dist.removeprefix("zipf:"))


def _dist(text: str) -> str:
    if text == "uniform":
        return text
    wrong = argparse.ArgumentTypeError(
        f"'{text}' is no distribution: give uniform, or zipf:THETA with 0 < THETA <= 10"
    )
    try:
        theta = float(text.removeprefix("zipf:")) if text.startswith("zipf:") else math.nan
    except ValueError:
        raise wrong from None
    if not 0 < theta <= 10:
        raise wrong
    return text


def table(result: dict[str, Any]) -> list[str]:
    """The figures for people."""
    way = "by reference" if result["by_reference"] else "by copy"
    if result["staged"]:
        way += ", staged"
    size = f"{result['bytes'] / 1e9:.2f} GB"
    return [
        f"exchange of {result['rows']:,} rows of {result['row_bytes']} bytes ({size}), "
        f"{result['layout']}, {result['dist']} keys",
        f"{result['endpoints']} endpoints of {result['groups']} x {result['threads']} threads, "
        f"{way}, {result['repeat']} runs",
        "",
        f"{'GB/s':<22}{'median':>9}{'min':>9}{'max':>9}",
        f"{'exchange':<22}{result['gbps_median']:>9.2f}{result['gbps_min']:>9.2f}"
        f"{result['gbps_max']:>9.2f}",
        f"{'memcpy, same threads':<22}{result['limit_memcpy_gbps']:>9.2f}",
        "",
        f"every run verified: {'yes' if result['verified'] else 'NO'}",
    ]
