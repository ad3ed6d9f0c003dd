"""Infrastructure graphs as a page of HTML: the drawing, the flows, the links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from mgi.topo import plural
from mgi.topo_layout import Layout
from mgi.topo_svg import draw

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2430; --soft: #5b6675; --rim: #d5dbe3; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #12161c; --ink: #e8edf4; --soft: #9aa7b8; --rim: #333d4a; } }
body { margin: 0 auto; max-width: 1800px; padding: 16px 24px 48px; background: var(--paper);
  color: var(--ink); font: 14px/1.45 system-ui, "Segoe UI", Roboto, Arial, sans-serif; }
h1 { font-size: 20px; } h2 { font-size: 16px; margin-top: 28px; }
.drawing { overflow-x: auto; } .drawing svg { max-width: 100%; height: auto; min-width: 560px; }
.soft { color: var(--soft); }
.columns { display: flex; flex-wrap: wrap; gap: 0 40px; align-items: flex-start; }
table { border-collapse: collapse; } th, td { padding: 3px 12px 3px 0; text-align: left;
  border-bottom: 1px solid var(--rim); } th { font-weight: 600; }
td.figure { text-align: right; font-variant-numeric: tabular-nums; }
"""


def page(graph: Mapping[str, Any], flows: Mapping[str, Any], title: str) -> str:
    """One file, nothing beside it. Tables are of the servers that are drawn."""
    layout = Layout(graph)
    shown = {panel.server for panel in layout.panels}
    all_servers = graph["servers"] == len(shown)
    server_of = {vertex["name"]: vertex["server"] for vertex in graph["vertices"]}

    def is_shown(name: str) -> bool:
        return server_of[name] is None or server_of[name] in shown

    links = [e for e in graph["edges"] if is_shown(e["from"]) and is_shown(e["to"])]
    pairs = [p for p in flows["gpu_pairs"] if is_shown(p["src"])]
    network = [n for n in flows["network"] if is_shown(n["gpu"])]
    kinds = [vertex["kind"] for vertex in graph["vertices"]]
    counts = ", ".join(
        (
            plural(graph["servers"], "server"),
            plural(kinds.count("gpu"), "GPU"),
            plural(kinds.count("nic"), "NIC"),
        )
    )
    note = "" if all_servers else " Of servers that are alike one is shown."
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">{counts}.{note} Figures are GB/s, one way.</p>',
        f'<div class="drawing">{draw(graph, title=title)}</div>',
    ]
    if graph["warnings"]:
        items = "".join(f"<li>{escape(warning)}</li>" for warning in graph["warnings"])
        parts.append(f"<h2>Warnings</h2><ul>{items}</ul>")
    parts.append('<div class="columns">')
    parts += table(
        "Maximum flows to the network and from it",
        ("GPU", "out", "out, no relay", "in", "in, no relay"),
        ((n["gpu"], n["out"], n["out_no_relay"], n["in"], n["in_no_relay"]) for n in network),
    )
    parts += table(
        "Maximum flows between GPUs",
        ("from", "to", "GB/s", "no relay"),
        ((p["src"], p["dst"], p["maxflow"], p["no_relay"]) for p in pairs),
    )
    parts += table(
        "Links",
        ("from", "to", "kind", "GB/s"),
        ((e["from"], e["to"], e["kind"], e["gbps"]) for e in links),
    )
    parts.append("</div></body></html>")
    return "\n".join(parts) + "\n"


def table(heading: str, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """A heading and its table; nothing for no rows."""
    body = []
    for row in rows:
        cells = (
            f'<td class="figure">{value:g}</td>'
            if isinstance(value, float | int)
            else f"<td>{escape(value)}</td>"
            for value in row
        )
        body.append(f"<tr>{''.join(cells)}</tr>")
    if not body:
        return []
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    return [
        f"<section><h2>{escape(heading)}</h2><table><thead><tr>{head}</tr></thead><tbody>",
        *body,
        "</tbody></table></section>",
    ]
