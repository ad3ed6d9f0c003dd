"""``mgi perf``: how fast rows get from kernels to kernels."""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mgi import _mgi
from mgi.cli import Parser
from mgi.errors import Error

_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}


def main(argv: Sequence[str]) -> int:
    """Runs a measurement; 0: every run's rows were verified, 1: not, 2: it could not run."""
    options = _parser().parse_args(argv)
    if options.json is not None and not options.json.parent.is_dir():
        print(f"mgi perf: --json {options.json}: there is no such folder", file=sys.stderr)
        return 2
    try:
        result = exchange(options)
    except Error as error:
        print(f"mgi perf exchange: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("mgi perf exchange: stopped by Ctrl-C", file=sys.stderr)
        return 130
    print("\n".join(_table(result)))
    if options.json is not None:
        try:
            options.json.write_text(json.dumps(result, indent=2) + "\n")
        except OSError as error:
            print(f"mgi perf: --json {options.json}: {error.strerror}", file=sys.stderr)
            return 2
    if not result["verified"]:
        print("mgi perf exchange: rows are missing or changed", file=sys.stderr)
        return 1
    return 0


def exchange(options: argparse.Namespace) -> dict[str, Any]:
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


def _parser() -> Parser:
    parser = Parser(prog="mgi perf", description="Measures how fast rows move.")
    patterns = parser.add_subparsers(
        dest="pattern", required=True, metavar="PATTERN", parser_class=Parser
    )
    one = patterns.add_parser(
        "exchange",
        help="every endpoint sends to every endpoint by the hash of a key",
        description="Every endpoint sends its rows to every endpoint by the hash of an int64 key. "
        "GB/s are bytes of all rows over the time from the first send to the last row consumed; "
        "consumers read every byte. Numbers may end in k, m or g (thousands, ...).",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = one.add_argument
    add("--endpoints", type=_count(1), default=4, metavar="N", help="endpoints on the CPU devices")
    add("--rows", type=_count(1), default=10_000_000, metavar="N", help="of all endpoints together")
    add("--row-bytes", type=_row_bytes, default=16, metavar="N", help="a multiple of 8")
    add("--dist", type=_dist, default="uniform", metavar="uniform|zipf:THETA", help="of the keys")
    add("--layout", choices=["columns", "rows"], default="columns", help="of rows in segments")
    add(
        "--groups",
        type=_count(1),
        default=None,
        metavar="G",
        help="kernel groups of each endpoint (default: the cores divided among the endpoints)",
    )
    add("--threads", type=_count(1), default=1, metavar="T", help="threads of each group")
    add("--by-copy", action="store_true", help="copy through receive pools and movers")
    add("--staged", action="store_true", help="send row by row, through stage buffers and sorters")
    add("--repeat", type=_count(1), default=5, metavar="N", help="runs; the median counts")
    add("--json", type=Path, default=None, metavar="FILE", help="write the figures there, too")
    return parser


def _count(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        match = re.fullmatch(r"(\d+)([kmg]?)", text.lower())
        if match is None:
            raise argparse.ArgumentTypeError(f"'{text}' is no whole number")
        number = int(match[1]) * _FACTORS[match[2]]
        if number < least:
            raise argparse.ArgumentTypeError(f"{number} is too small: give {least} or more")
        return number

    return read


def _row_bytes(text: str) -> int:
    number = _count(8)(text)
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


def _table(result: dict[str, Any]) -> list[str]:
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
