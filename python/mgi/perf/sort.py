"""``mgi perf sort``: sort beside DuckDB and Polars."""

from __future__ import annotations

import argparse
from typing import Any

from mgi.demo.progress import Step
from mgi.perf import versus
from mgi.perf.numbers import add_number, add_repeat

SUMMARY = "sort beside DuckDB and Polars"
DETAILS = "Made-up rows of a 64-bit key and a number, sorted by the key. " + versus.DETAILS
WRONG = versus.WRONG
table = versus.table


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what can be chosen."""
    parser.add_argument(
        "--order",
        choices=["random", "clustered"],
        default="random",
        help="of the rows, on every side; clustered: sorted already",
    )
    add_number(parser, "--rows", "made-up rows", 8_000_000)
    add_number(parser, "--endpoints", "endpoints on the CPU devices (default: one for each core)")
    add_repeat(parser)
    add_number(parser, "--seed", "of the keys", 1, least=0)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measures a sort and returns what ``--json`` writes."""
    return versus.measure(options, "sort", _workload)


def _workload(options: argparse.Namespace, step: Step) -> Any:
    from mgi.perf import synthetic

    return synthetic.sort(options.rows, options.order, options.seed)
