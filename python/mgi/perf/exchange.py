"""``mgi perf exchange``: how fast rows get from kernels to kernels."""

from __future__ import annotations

import argparse
import math
import statistics
from typing import Any

from mgi import _mgi
from mgi.errors import InvalidArgument
from mgi.perf import processes, two_level
from mgi.perf.numbers import add_number, add_repeat, count

SUMMARY = "every endpoint sends to every endpoint by the hash of a key"
DETAILS = (
    "Every endpoint sends its rows to every destination by the hash of an int64 key. GB/s are "
    "bytes of all rows over the time from the first send to the last row consumed; consumers read "
    "every byte. Between the runs, on the same rows: a hand-written partition with the same "
    "fan-out (the limit), and memcpy. The ratio is the median of the rounds' ratios. With "
    "--processes: between processes, in turn with one process, a hand-written exchange through "
    "shared memory (the limit), and the peers; a broadcast's bytes count at each destination. "
    "With --two-level: whole calls of mgi.exchange over servers, in one level and in two."
)
WRONG = "rows are missing or changed"


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measures an exchange and returns what ``--json`` writes."""
    if options.two_level:
        return two_level.measure(options)
    if options.processes != 0:
        return processes.measure(options)
    if options.peers or options.shape != "exchange":
        raise InvalidArgument("--peers and --shape are between processes: give --processes N")
    theta = theta_of(options.dist)
    measured = _mgi.perf_exchange(
        {
            "endpoints": options.endpoints,
            "fanout": options.fanout,
            "rows": options.rows,
            "row_bytes": options.row_bytes,
            "zipf_theta": theta,
            "layout": options.layout,
            "groups": options.groups,
            "threads": options.threads,
            "by_reference": not options.by_copy,
            "staged": options.staged,
            "limit_threads": options.limit_threads,
            "repeat": options.repeat,
        }
    )
    gbps = measured["gbps"]
    result = {
        "pattern": "exchange",
        "layout": options.layout,
        "endpoints": options.endpoints,
        "rows": options.rows,
        "bytes": measured["bytes"],
        "row_bytes": options.row_bytes,
        "dist": options.dist,
        "fanout": measured["fanout"],
        "repeat": options.repeat,
        "groups": measured["groups"],
        "threads": options.threads,
        "by_reference": not options.by_copy,
        "staged": options.staged,
        "gbps_median": statistics.median(gbps),
        "gbps_min": min(gbps),
        "gbps_max": max(gbps),
        "limit_memcpy_gbps": statistics.median(measured["memcpy_gbps"]),
        "limit_partition_gbps": statistics.median(measured["partition_gbps"]),
        "ratio_to_partition_limit": _ratio(gbps, measured["partition_gbps"]),
        "create_ms_median": statistics.median(measured["create_ms"]),
        "pool_bytes": measured["pool_bytes"],
        "resident_bytes": measured["resident_bytes"],
        "verified": measured["verified"],
    }
    if options.staged:
        result["collective_gbps_median"] = statistics.median(measured["collective_gbps"])
        result["staged_cost"] = _ratio(measured["collective_gbps"], gbps)
    return result


def _ratio(ours: list[float], theirs: list[float]) -> float:
    """The median of what each round says: both ran in it, on a machine in the same mood."""
    return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what can be chosen."""
    add = parser.add_argument
    add_number(parser, "--endpoints", "endpoints on the CPU devices", 4)
    add_number(
        parser,
        "--fanout",
        "destinations; each endpoint receives at every Nth (default: the endpoints)",
    )
    add_number(parser, "--rows", "of all endpoints together", 10_000_000)
    add("--row-bytes", type=_row_bytes, default=16, metavar="N", help="a multiple of 8")
    add("--dist", type=dist, default="uniform", metavar="uniform|zipf:THETA", help="of the keys")
    add("--layout", choices=["columns", "rows"], default="columns", help="of rows in segments")
    add_number(
        parser,
        "--groups",
        "kernel groups of each endpoint (default: the cores divided among the endpoints)",
        metavar="G",
    )
    add_number(parser, "--threads", "threads of each group", 1, metavar="T")
    add("--by-copy", action="store_true", help="copy through receive pools and movers")
    add("--staged", action="store_true", help="send row by row, through stage buffers and sorters")
    add_number(
        parser,
        "--limit-threads",
        "threads of the partition limit (default: the groups' threads, at most one a core)",
    )
    add_repeat(parser)
    processes.add_options(parser)
    two_level.add_options(parser)


def _row_bytes(text: str) -> int:
    number = count(8)(text)
    if number % 8 != 0:
        raise argparse.ArgumentTypeError(f"{number} is no multiple of 8, the size of a column")
    return number


def theta_of(dist: str) -> float:
    return 0.0 if dist == "uniform" else float(dist.removeprefix("zipf:"))


def dist(text: str) -> str:
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
    if "levels" in result:
        return two_level.table(result)
    if "processes" in result:
        return processes.table(result)
    way = "by reference" if result["by_reference"] else "by copy"
    if result["staged"]:
        way += ", staged"
    size = f"{result['bytes'] / 1e9:.2f} GB"
    staged = []
    if result["staged"]:
        staged = [f"{'block-collective send':<22}{result['collective_gbps_median']:>9.2f}"]
    return [
        f"exchange of {result['rows']:,} rows of {result['row_bytes']} bytes ({size}), "
        f"{result['layout']}, {result['dist']} keys",
        f"{result['endpoints']} endpoints of {result['groups']} x {result['threads']} threads to "
        f"{result['fanout']} destinations, "
        f"{way}, {result['repeat']} runs",
        "",
        f"{'GB/s':<22}{'median':>9}{'min':>9}{'max':>9}",
        f"{'exchange':<22}{result['gbps_median']:>9.2f}{result['gbps_min']:>9.2f}"
        f"{result['gbps_max']:>9.2f}",
        *staged,
        f"{'limit: partition':<22}{result['limit_partition_gbps']:>9.2f}",
        f"{'limit: memcpy':<22}{result['limit_memcpy_gbps']:>9.2f}",
        "",
        f"channel created in {result['create_ms_median']:.2f} ms; pools "
        f"{result['pool_bytes'] / 2**20:.1f} MiB, resident "
        f"{result['resident_bytes'] / 2**20:.1f} MiB",
        f"ratio to the partition limit: {result['ratio_to_partition_limit']:.2f}",
        f"every run verified: {'yes' if result['verified'] else 'NO'}",
    ]
