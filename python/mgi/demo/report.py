"""The report: one self-contained page, no scripts, nothing fetched from anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mgi.demo import units
from mgi.demo.bars import bars
from mgi.demo.graph_picture import graph_picture
from mgi.demo.heat_map import heat_map
from mgi.demo.html import cards, document, section
from mgi.demo.svg import escape

if TYPE_CHECKING:
    from mgi.demo.run import Outcome, Report

#: A forwarding table longer than this is folded away until somebody asks for it.
OPEN_ENTRIES = 8


def page(report: Report) -> str:
    """The whole page as HTML."""
    title = f"MGI demo: TPC-H scale factor {report.options.sf}"
    body = "".join(
        [
            _header(report),
            section("Results", _results(report)),
            section("MGI beside DuckDB", _timings(report)),
            section("The infrastructure graph", graph_picture(report.graph, report.endpoints)),
            *(section(o.operation.name, _operation(o, report.graph)) for o in report.outcomes),
            section("This machine", _facts(report)),
            section("Do it again", _reproduce(report)),
        ]
    )
    return document(title, body)


def _header(report: Report) -> str:
    options, outcomes = report.options, report.outcomes
    how = "by copy" if options.by_copy else "by reference where memory is shared"
    many = "" if options.endpoints == 1 else "s"
    wrong = [o.operation.name for o in outcomes if not o.verdict.ok]
    if wrong:
        verdict = f'<p class="verdict bad">✗ Differs from DuckDB: {escape(", ".join(wrong))}</p>'
    else:
        rows = units.count(sum(o.verdict.rows for o in outcomes))
        verdict = (
            f'<p class="verdict good">✓ All {len(outcomes)} results equal DuckDB\'s: '
            f"{rows} rows compared, every column</p>"
        )
    return (
        '<header><p class="wordmark">MGI DEMO</p>'
        "<h1>TPC-H exchanged, grouped and joined over "
        f"{options.endpoints} endpoint{many}</h1>"
        f'<p class="muted">Scale factor {escape(options.sf)} · segments travel {how} · rows dealt '
        f"out at random, seed {options.seed}</p>{verdict}</header>"
    )


def _results(report: Report) -> str:
    names = ["Operation", "Rows in", "Bytes in", "MGI", "GB/s", "DuckDB", "Verified"]
    rows = []
    for outcome in report.outcomes:
        verdict = outcome.verdict
        cells = [
            ("", outcome.operation.name),
            ("number", units.count(outcome.rows)),
            ("number", units.size(outcome.bytes)),
            ("number", units.seconds(outcome.median)),
            ("number", units.rate(outcome.bytes, outcome.median)),
            ("number", units.seconds(outcome.duckdb_median)),
            ("good" if verdict.ok else "bad", f"{'✓' if verdict.ok else '✗'} {verdict.text()}"),
        ]
        rows.append(cells)
    note = (
        '<p class="note">Bytes are those of the Arrow columns that go in, 1 GB is 10<sup>9</sup> '
        "bytes; GB/s is bytes in by MGI's time. The result is compared as a whole: both sides are "
        "put in key order and every value of every column must be equal. For the exchange, "
        "moreover, no key may stand on two endpoints. DuckDB answers from the generated files, "
        "which MGI never touched.</p>"
    )
    return (
        cards(names, rows)
        + note
        + "".join(_differences(o) for o in report.outcomes if not o.verdict.ok)
    )


def _differences(outcome: Outcome) -> str:
    lines = "\n".join(escape(line) for line in outcome.verdict.differences)
    return (
        f'<h3 class="bad">{escape(outcome.operation.name)}: what differs</h3>'
        f'<pre class="wrong">{lines}</pre>'
    )


def _timings(report: Report) -> str:
    runs = "One run each."
    if report.options.repeat > 1:
        runs = (
            f"Bars are the median of {report.options.repeat} runs, dots the single runs. "
            "MGI and DuckDB took turns."
        )
    return (
        f'<p class="note">Shorter is better. {runs} Both start from rows in memory in the same '
        "random order and end with Arrow tables in memory, on the same cores; DuckDB reads its own "
        "in-memory tables.</p>" + bars(report.outcomes)
    )


def _operation(outcome: Outcome, graph: dict[str, Any]) -> str:
    operation, stats = outcome.operation, outcome.stats
    parts = [
        f"<p>{escape(operation.says)}</p>",
        f'<p class="note">{units.count(outcome.rows)} rows in, '
        f"{units.count(outcome.result_rows)} rows out. What follows is of the last run.</p>",
    ]
    channels, plans = stats.get("channels", []), stats.get("plans", [])
    for place, channel in enumerate(channels):
        name = channel.get("name") or f"channel {place}"
        parts.append(f"<h3>Channel {escape(name)}</h3>")
        plan = plans[place] if place < len(plans) else {}
        parts.append(f'<div class="channel">{heat_map(channel)}{_tiles(channel, plan)}</div>')
        parts.append(_forwarding(plan, graph))
    return "".join(parts)


def _tiles(channel: dict[str, Any], plan: dict[str, Any]) -> str:
    """The plan's and the channel's figures."""
    lanes = channel.get("lanes", [])
    copied = plan.get("transfer") == "by copy"
    waits = sum(lane.get("waits", 0) for lane in lanes)
    facts = [
        ("transfer", plan.get("transfer")),
        ("segment", units.size(plan["segment_bytes"]) if "segment_bytes" in plan else None),
        ("rows a segment", units.count(plan["segment_rows"]) if "segment_rows" in plan else None),
        ("slots a lane", plan.get("slots")),
        ("lanes of each source", units.count(plan["lanes"]) if "lanes" in plan else None),
        ("credits a lane", plan.get("credits") if copied else None),
        ("memory of its pools", units.size(channel["memory_bytes"])),
        ("rows sent", units.count(channel["rows"])),
        ("bytes sent", units.size(channel["bytes"])),
        ("segments sent", units.count(channel["segments"])),
        ("waits for room", units.count(waits)),
    ]
    tiles = "".join(
        f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>"
        for name, value in facts
        if value is not None
    )
    return f'<div class="tiles">{tiles}</div>'


def _forwarding(plan: dict[str, Any], graph: dict[str, Any]) -> str:
    names = {vertex["id"]: vertex["name"] for vertex in graph["vertices"]}

    def name(vertex: Any) -> str:
        return escape(names.get(vertex, vertex))

    def path(start: Any, entry: dict[str, Any]) -> str:
        # The plan names only what lies between the two ends.
        if start == entry["next"] and not entry["path"]:
            return "inside the device"
        return " → ".join(name(hop) for hop in (start, *entry["path"], entry["next"]))

    rows = [
        f"<tr><td>{name(table['vertex'])}</td><td>{name(entry['destination'])}</td>"
        f"<td>{name(entry['next'])}</td><td>{path(table['vertex'], entry)}</td>"
        f'<td class="number">{escape(units.gbps(entry["gbps"]))}</td></tr>'
        for table in plan.get("tables", [])
        for entry in table["entries"]
    ]
    if not rows:
        return ""
    opened = " open" if len(rows) <= OPEN_ENTRIES else ""
    number = f"{len(rows)} entr{'y' if len(rows) == 1 else 'ies'}"
    return (
        f"<details{opened}><summary>Forwarding tables, {number}</summary>"
        '<div class="scroll" tabindex="0"><table><thead><tr><th>At</th><th>Destination</th>'
        '<th>Next hop</th><th>Path</th><th class="number">Capacity</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></details>"
    )


def _facts(report: Report) -> str:
    pairs = [*report.facts, ("The whole demo took", units.seconds(report.seconds))]
    inside = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs)
    return f"<dl>{inside}</dl>"


def _reproduce(report: Report) -> str:
    options = report.options
    plain = not options.by_copy and options.seed == 1 and options.repeat == 3
    script = f"SF={options.sf} ENDPOINTS={options.endpoints} ./demo.sh"
    commands = ([script, ""] if plain else []) + [f".venv/bin/{options.command()}"]
    lead = (
        "From a clone of the repository; either line does the same."
        if plain
        else ("From a clone of the repository in which ./demo.sh was run once:")
    )
    code = escape("\n".join(line for line in commands if line))
    return (
        f"<p>{lead}</p><pre>{code}</pre>"
        "<p>Whole queries are next: <code>.venv/bin/mgi tpch --html tpch.html</code> runs TPC-H's "
        "over endpoints, beside DuckDB (docs/tpch.md).</p>"
        '<p class="note">The tables come from tpchgen-cli and depend on the scale factor only; '
        "how they are dealt out depends on the seed, the number of endpoints and nothing "
        "else.</p>"
    )
