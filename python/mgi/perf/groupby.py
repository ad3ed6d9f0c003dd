"""``mgi perf groupby``: group-by beside DuckDB and Polars."""

from __future__ import annotations

import argparse
from typing import Any

from mgi.demo.progress import Step
from mgi.perf import versus
from mgi.perf.numbers import add_number

SUMMARY = "group-by beside DuckDB and Polars"
DETAILS = (
    "TPC-H's lineitem grouped by order, or made-up rows in a given number of groups. "
    + versus.DETAILS
)
WRONG = versus.WRONG
table = versus.table


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what can be chosen."""
    versus.add_options(parser, "--groups asks for")
    add_number(parser, "--groups", "made-up rows in so many groups in place of TPC-H's")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measures a group-by and returns what ``--json`` writes."""
    return versus.measure(options, "groupby", _workload)


def _workload(options: argparse.Namespace, step: Step) -> Any:
    from mgi.perf import synthetic, tpch

    if options.groups is None:
        return tpch.group_by(
            options.sf, options.order, options.types, options.seed, options.data, step
        )
    versus.refuse_both(options, "--groups")
    return synthetic.group_by(
        options.rows, options.groups, options.order, options.types, options.seed
    )
