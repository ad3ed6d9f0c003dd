"""``mgi perf join``: join beside DuckDB and Polars."""

from __future__ import annotations

import argparse
from typing import Any

from mgi.demo.progress import Step
from mgi.perf import versus
from mgi.perf.numbers import add_number

SUMMARY = "join beside DuckDB and Polars"
DETAILS = (
    "TPC-H's lineitem joined with orders, or made-up rows with a given share of matches and "
    "duplicates. " + versus.DETAILS
)
WRONG = versus.WRONG
table = versus.table


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what can be chosen."""
    versus.add_options(parser, "--match-rate or --duplicates asks for")
    parser.add_argument(
        "--match-rate",
        type=_rate,
        default=None,
        metavar="X",
        help="made-up tables: the share of left rows that find their key (default then: 1)",
    )
    add_number(
        parser,
        "--duplicates",
        "made-up tables: right rows with the same key (default then: 1)",
        metavar="K",
    )


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measures a join and returns what ``--json`` writes."""
    return versus.measure(options, "join", _workload)


def _workload(options: argparse.Namespace, step: Step) -> Any:
    from mgi.perf import synthetic, tpch

    if options.match_rate is None and options.duplicates is None:
        return tpch.join(options.sf, options.order, options.types, options.seed, options.data, step)
    versus.refuse_both(options, "--match-rate and --duplicates")
    rate = 1.0 if options.match_rate is None else options.match_rate
    return synthetic.join(
        options.rows, rate, options.duplicates or 1, options.order, options.types, options.seed
    )


def _rate(text: str) -> float:
    wrong = argparse.ArgumentTypeError(f"'{text}' is no share: give a number from 0 to 1")
    try:
        rate = float(text)
    except ValueError:
        raise wrong from None
    if not 0 <= rate <= 1:
        raise wrong
    return rate
