"""The page that ``--html`` writes: every query's time by phase, and its plan as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mgi.demo import units
from mgi.demo.html import bar, cards, document, section
from mgi.demo.svg import escape, label, picture, tag, text_width
from mgi.tpch.queries import query
from mgi.tpch.table import geometric_mean

if TYPE_CHECKING:
    from mgi.tpch.frame import Step
    from mgi.tpch.run import Outcome, Report

#: Colours of phases, in both schemes.
_COLOURS = {
    "local": "#8b939d",
    "join": "#1f5fa8",
    "group_by": "#18713e",
    "sort": "#c97a06",
    "exchange": "#8a3fa0",
}
_CSS = "".join(f"svg .{kind} {{ fill: {colour}; }}" for kind, colour in _COLOURS.items())
_BOX, _GAP_X, _GAP_Y = 44.0, 18.0, 26.0


def page(report: Report) -> str:
    """The whole page as HTML."""
    title = f"TPC-H on MGI, scale factor {report.options.sf}"
    wrong = [outcome for outcome in report.outcomes if not outcome.verdict.ok]
    names = ", ".join(f"Q{outcome.number}" for outcome in wrong)
    said = (
        f'<p class="verdict bad">Differs from DuckDB: {names}</p>'
        if wrong
        else f'<p class="verdict good">✓ All {len(report.outcomes)} results equal DuckDB\'s</p>'
    )
    many = "" if report.processes == 1 else f" of {report.processes} processes"
    head = (
        f'<header><p class="wordmark">MGI</p><h1>{escape(title)}</h1><p class="muted">'
        f"{report.endpoints} endpoints{many} on {escape(', '.join(report.devices))} · "
        f"{geometric_mean(report.outcomes):.2f} times DuckDB's speed (geometric mean)</p>"
        f"{said}</header>"
    )
    body = [head, section("Queries", _table(report))]
    longest = max(max(o.median, o.duckdb_median) for o in report.outcomes)
    body += [section(f"Q{outcome.number}", _query(outcome, longest)) for outcome in report.outcomes]
    return document(title, "".join(body), _CSS)


def _table(report: Report) -> str:
    names = ["Query", "MGI", "DuckDB", "Times DuckDB", "Moved", "GB/s", "Floor", "Verified"]
    rows = []
    for outcome in report.outcomes:
        texts = [
            units.seconds(outcome.median),
            units.seconds(outcome.duckdb_median),
            f"{outcome.duckdb_median / outcome.median:.2f}",
            units.size(outcome.moved),
            units.rate(outcome.moved, outcome.median),
            units.seconds(outcome.floor),
        ]
        rows.append(
            [
                ("", f"Q{outcome.number}"),
                *(("number", text) for text in texts),
                ("good" if outcome.verdict.ok else "bad", outcome.verdict.text()),
            ]
        )
    note = (
        '<p class="note">Times are medians of runs by turns, from the call to the whole result as '
        "one Arrow table, of tables in memory; DuckDB reads its own in-memory tables with all "
        "cores of its server. The floor is the bytes of all columns that the query names, and of "
        "all that channels carried, by the rate at which cores read memory, of the first process "
        f"({units.gbps(report.memory_rate / 1e9)}).</p>"
    )
    return cards(names, rows) + note


def _query(outcome: Outcome, longest: float) -> str:
    kinds = [kind for kind in _COLOURS if any(step.kind == kind for step in outcome.steps)]
    shares = {kind: sum(s.seconds for s in outcome.steps if s.kind == kind) for kind in kinds}
    legend = "".join(
        f'<span><svg width="12" height="12">{tag("rect", width=12, height=12, rx=2, class_=kind)}'
        f"</svg>{escape(kind)} {units.seconds(shares[kind])}</span>"
        for kind in kinds
    )
    return (
        f"<p>{escape((query(outcome.number).__doc__ or '').strip())}</p>"
        + _phases(outcome, longest)
        + f'<div class="legend">{legend}</div>'
        + _plan(outcome)
        + f"<details><summary>SQL</summary><pre>{escape(outcome.sql.strip())}</pre></details>"
    )


def _phases(outcome: Outcome, longest: float) -> str:
    """MGI's last run, phase by phase, and DuckDB's median."""
    at, drawn = 0.0, []
    for step in outcome.steps:
        share = 98.0 * step.seconds / longest
        title = f"{step.kind} {step.says}: {units.seconds(step.seconds)}"
        drawn.append(
            tag(
                "rect",
                tag("title", escape(title)),
                x=f"{at:.2f}%",
                y="4",
                width=f"{share:.2f}%",
                height="20",
                class_=step.kind,
            )
        )
        at += share
    theirs = tag(
        "rect",
        x="0",
        y="4",
        width=f"{98.0 * outcome.duckdb_median / longest:.2f}%",
        height="20",
        rx="3",
        class_="duckdb",
    )
    return bar("MGI", "".join(drawn), f"<b>{units.seconds(outcome.median)}</b>") + bar(
        "DuckDB", theirs, f"<b>{units.seconds(outcome.duckdb_median)}</b>"
    )


def _plan(outcome: Outcome) -> str:
    """The steps as a tree, the result on top."""
    boxes: list[str] = []
    lines: list[str] = []

    def draw(step: Step, left: float, top: float) -> tuple[float, float, float]:
        """Returns the middle of its box, the width of all below it, and the lowest edge."""
        texts = [f"{step.kind} {step.says}", f"{units.count(step.rows)} rows"]
        if step.kind != "read":
            texts[1] += f", {units.seconds(step.seconds)}"
            if step.kind != "local" and step.bytes:
                texts[1] += f", {units.size(step.bytes)}"
        own = max(text_width(text, 12.5) for text in texts) + 16
        middles, width, low = [], 0.0, top + _BOX
        for source in step.inputs:
            middle, wide, lowest = draw(source, left + width, top + _BOX + _GAP_Y)
            middles.append(middle)
            width += wide + _GAP_X
            low = max(low, lowest)
        width = max(width - _GAP_X, own)
        middle = sum(middles) / len(middles) if middles else left + own / 2
        middle = max(middle, left + own / 2)
        for below in middles:
            lines.append(
                tag(
                    "line",
                    x1=middle,
                    y1=top + _BOX,
                    x2=below,
                    y2=top + _BOX + _GAP_Y,
                    class_="link",
                )
            )
        boxes.append(
            tag("rect", x=middle - own / 2, y=top, width=own, height=_BOX, rx=6, class_="mark")
            + label(middle, top + 18, texts[0], "mark-text")
            + label(middle, top + 35, texts[1], "kind")
        )
        return middle, max(width, middle + own / 2 - left), low

    _, width, height = draw(outcome.steps[-1], 1.0, 1.0)
    return picture(
        width + 2, height + 2, f"The plan of Q{outcome.number}", "".join(lines + boxes), 0.6
    )
