"""The timings as bars: MGI's and DuckDB's, one scale for all operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mgi.demo import units
from mgi.demo.html import bar
from mgi.demo.svg import escape, tag

if TYPE_CHECKING:
    from mgi.demo.run import Outcome

#: Share of the picture's width that the slowest run takes: its dot must not be cut off.
LONGEST = 98.0


def _bar(who: str, class_: str, runs: list[float], figure: str, longest: float) -> str:
    """One row: a name, a bar as long as the median, a dot for each run, the figure (HTML)."""

    def at(value: float) -> str:
        return f"{LONGEST * value / longest:.2f}%"

    middle = units.median(runs)
    drawn = [tag("rect", x="0", y="4", width=at(middle), height="20", rx="3", class_=class_)]
    if len(runs) > 1:
        drawn += [
            tag("circle", tag("title", escape(units.seconds(run))), cx=at(run), cy="14", r="3")
            for run in runs
        ]
    runs_text = ", ".join(units.seconds(run) for run in runs)
    title = tag("title", escape(f"{who}: runs of {runs_text}"))
    return bar(who, title + "".join(drawn), figure)


def comparison(outcome: Outcome) -> str:
    """MGI's speed beside DuckDB's in words."""
    ratio = outcome.duckdb_median / outcome.median
    if ratio >= 1:
        return f"MGI is {ratio:.2f}{units.TIMES} as fast"
    return f"MGI takes {1 / ratio:.2f}{units.TIMES} as long"


def bars(outcomes: list[Outcome]) -> str:
    """All operations, each with its two bars and what DuckDB was given to do."""
    longest = max(max(o.seconds + o.duckdb_seconds) for o in outcomes)
    parts = []
    for outcome in outcomes:
        speed = units.rate(outcome.bytes, outcome.median)
        mine = f"<b>{units.seconds(outcome.median)}</b> {speed} GB/s"
        parts.append(
            '<div class="bars">'
            f"<h3>{escape(outcome.operation.name)} "
            f'<span class="muted">{escape(comparison(outcome))}</span></h3>'
            + _bar("MGI", "mgi", outcome.seconds, mine, longest)
            + _bar(
                "DuckDB",
                "duckdb",
                outcome.duckdb_seconds,
                f"<b>{units.seconds(outcome.duckdb_median)}</b>",
                longest,
            )
            + f'<p class="note">{escape(outcome.operation.compared_with)} '
            f"<code>{escape(outcome.operation.compared_sql)}</code></p></div>"
        )
    return "".join(parts)
