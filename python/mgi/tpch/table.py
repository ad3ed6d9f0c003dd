"""The closing table, and the figures for programs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from mgi.demo import units

if TYPE_CHECKING:
    from mgi.tpch.run import Outcome, Report


def geometric_mean(outcomes: list[Outcome]) -> float:
    """Of how many times DuckDB's speed MGI has."""
    logs = [math.log(outcome.duckdb_median / outcome.median) for outcome in outcomes]
    return math.exp(sum(logs) / len(logs))


def lines(report: Report) -> list[str]:
    """A line for each query."""
    head = ("query", "seconds", "DuckDB", "times DuckDB", "moved", "floor", "verified")
    rows = [head]
    for outcome in report.outcomes:
        rows.append(
            (
                f"Q{outcome.number}",
                f"{outcome.median:.3f}",
                f"{outcome.duckdb_median:.3f}",
                f"{outcome.duckdb_median / outcome.median:.2f}",
                units.size(outcome.moved),
                f"{outcome.floor:.3f}",
                f"{'✓' if outcome.verdict.ok else '✗'} {outcome.verdict.text()}",
            )
        )
    mean = geometric_mean(report.outcomes)
    return ["", *units.aligned(rows), "", f"Geometric mean: {mean:.2f} times DuckDB's speed"]


def figures(report: Report) -> list[dict[str, Any]]:
    """What ``--json`` writes: an object for each query."""
    return [
        {
            "query": outcome.number,
            "sf": report.options.scale,
            "devices": report.devices,
            "endpoints": report.endpoints,
            "processes": report.processes,
            "seconds_median": outcome.median,
            "seconds_best": min(outcome.seconds),
            "duckdb_seconds": outcome.duckdb_median,
            "speedup_duckdb": outcome.duckdb_median / outcome.median,
            "bytes_moved": outcome.moved,
            "phases": [
                {
                    "kind": step.kind,
                    "says": step.says,
                    "seconds": step.seconds,
                    "rows": step.rows,
                    "bytes": step.bytes,
                }
                for step in outcome.steps
            ],
            "floor_seconds": outcome.floor,
            "verified": outcome.verdict.ok,
        }
        for outcome in report.outcomes
    ]
