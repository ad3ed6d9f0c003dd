"""Drawings of infrastructure graphs as SVG: CPUs on top, the network at the bottom."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

from mgi.topo_layout import MARGIN, Box, Layout, Panel

STYLE = """
svg { color-scheme: light dark; --paper: #ffffff; --ink: #1c2430; --soft: #5b6675; --panel: #f5f7fa;
  --rim: #d5dbe3; --cpu: #dbe7fb; --gpu: #d8f0dd; --nic: #eee2fb; --switch: #eceff3; --bar: #e6f4e9;
  --network: #f0e8fb; --pcie: #8a97a8; --nvlink: #2f9e4f; --socket: #4a7bd0; --net: #9257d1;
  --other: #b07a2a; --paths: 1; }
@media (prefers-color-scheme: dark) {
svg { --paper: #12161c; --ink: #e8edf4; --soft: #9aa7b8; --panel: #1a2028; --rim: #333d4a;
  --cpu: #22385c; --gpu: #1d4429; --nic: #3c2a55; --switch: #2a323d; --bar: #1b3424;
  --network: #2c2140; --pcie: #6f7c8e; --nvlink: #53c274; --socket: #7ba6ee; --net: #b98af0;
  --other: #d8a452; } }
.paper { fill: var(--paper); }
text { font-family: system-ui, "Segoe UI", Roboto, Arial, sans-serif; fill: var(--ink);
  text-anchor: middle; }
.title { font-size: 15px; font-weight: 600; text-anchor: start; }
.name { font-size: 12px; font-weight: 600; }
.note { font-size: 9.5px; fill: var(--soft); }
.rate { font-size: 10px; fill: var(--soft); } .under { fill: var(--panel); opacity: 0.9; }
.key { font-size: 11px; fill: var(--soft); text-anchor: start; }
.panel { fill: var(--panel); stroke: var(--rim); }
.box { stroke: var(--rim); }
.cpu { fill: var(--cpu); } .gpu { fill: var(--gpu); } .nic { fill: var(--nic); }
.switch { fill: var(--switch); } .nvswitch { fill: var(--bar); } .network { fill: var(--network); }
.line { fill: none; stroke: var(--other); stroke-linecap: round; }
.line.pcie { stroke: var(--pcie); } .line.nvlink { stroke: var(--nvlink); }
.line.socket { stroke: var(--socket); } .line.net { stroke: var(--net); }
.faint { opacity: 0.35; }
.path { fill: none; stroke-linecap: round; stroke-linejoin: round; opacity: 0.9; }
"""

PATH_COLOURS = (
    "#e4572e",
    "#2e86e4",
    "#c9a100",
    "#b0279f",
    "#00a39a",
    "#7a5cff",
    "#d1495b",
    "#5a8f00",
)
CLASSES = {"nvlink": "nvlink", "xgmi": "nvlink", "c2c": "nvlink", "pcie": "pcie", "local": "pcie"}
UNLIMITED = 5000
"""GB/s from which a link is said to have no limit (as topology/rates.hpp has it)."""
MOST_ARC_RATES = 20
"""More links than this between GPUs of a server have their rates in the key and not beside them."""


def draw(
    graph: Mapping[str, Any], highlighted: Iterable[Mapping[str, Any]] = (), title: str = ""
) -> str:
    """An SVG of a graph as :func:`mgi.topo.graph` has it.

    ``highlighted`` are paths over it, ``{"vertices": [name, ...], "gbps": x}``. Of many servers one
    of each shape is drawn, with how many there are; those that a path meets are all there.
    """
    return _Drawing(graph, list(highlighted), title).svg()


@dataclass
class _Link:
    """What joins two boxes: GB/s there and back, and the line that shows it."""

    there: float
    back: float
    kind: str
    line: str = ""
    label: tuple[float, float] = (0, 0)
    is_arc: bool = False
    alike: int = 1


def stroke(gbps: float) -> float:
    """How wide a line of so many GB/s is."""
    return round(min(8.0, 1 + 1.1 * math.log2(1 + max(gbps, 0) / 8)), 2)


def rate_text(there: float, back: float) -> str:
    """One figure where both ways are alike."""

    def one(gbps: float) -> str:
        return "no limit" if gbps >= UNLIMITED else f"{gbps:.4g}"

    return one(there) if math.isclose(there, back) else f"{one(there)} → {one(back)} ←"


def rate_range(least: float, most: float) -> str:
    """One figure where both are alike."""
    return f"{least:.4g} each" if math.isclose(least, most) else f"{least:.4g} to {most:.4g}"


def _css_class(kind: str) -> str:
    kinds = kind.split("+")
    if "cpu" in kinds:
        return "socket"
    if "network" in kinds:
        return "net"
    found = [CLASSES.get(k, "other") for k in kinds]
    return "nvlink" if "nvlink" in found else found[0]


class _Drawing:
    def __init__(
        self, graph: Mapping[str, Any], highlighted: Sequence[Mapping[str, Any]], title: str
    ) -> None:
        self.paths = highlighted
        self.title = title
        met = {name for path in highlighted for name in path["vertices"]}
        self.layout = Layout(graph, met)
        self.links = self._links(graph["edges"])
        for ends, link in self.links.items():
            self._trace(ends, link)

    def _links(self, edges: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], _Link]:
        """By two boxes in the order of the vertices; a chain of ports counts as its narrowest."""
        order = self.layout.order
        raw: dict[tuple[str, str], tuple[float, str]] = {
            (edge["from"], edge["to"]): (edge["gbps"], edge["kind"]) for edge in edges
        }
        links: dict[tuple[str, str], _Link] = {}
        for (start, end), (gbps, kind) in raw.items():
            if self.layout.is_merged(start) or self.layout.is_merged(end):
                continue
            a, b = self.layout.drawn(start), self.layout.drawn(end)
            if a is None or b is None or a == b:
                continue
            key, forward = ((a, b), True) if order[a] < order[b] else ((b, a), False)
            link = links.setdefault(key, _Link(0, 0, kind))
            if forward:
                link.there = link.there + gbps
            else:
                link.back = link.back + gbps
        for child, chain in self.layout.chains.items():
            top, bottom = self.layout.drawn(chain[0]), child
            if top is None:
                continue
            down = min(raw.get(pair, (0.0, ""))[0] for pair in pairwise(chain))
            up = min(raw.get((b, a), (0.0, ""))[0] for a, b in pairwise(chain))
            kind = raw.get((chain[0], chain[1]), (0.0, "pcie"))[1]
            key, forward = (
                ((top, bottom), True) if order[top] < order[bottom] else ((bottom, top), False)
            )
            beside = self._beside(raw, chain)
            there, back = (down, up) if forward else (up, down)
            links[key] = _Link(there + beside[0], back + beside[1], kind)
        return links

    @staticmethod
    def _beside(
        raw: Mapping[tuple[str, str], tuple[float, str]], chain: Sequence[str]
    ) -> tuple[float, float]:
        """What a link of its own between a chain's ends carries."""
        if len(chain) == 2:
            return 0, 0
        there = raw.get((chain[0], chain[-1]), (0.0, ""))[0]
        return there, raw.get((chain[-1], chain[0]), (0.0, ""))[0]

    def _trace(self, ends: tuple[str, str], link: _Link) -> None:
        first, second = self.layout.boxes(*ends)
        kinds = {first.kind, second.kind}
        link.alike = max(self.layout.alike.get(name, 1) for name in ends)
        if kinds == {"cpu"}:
            self._trace_sockets(first, second, link)
        elif kinds == {"gpu"}:
            reach = self.layout.arc_depth(first, second)
            y = max(first.bottom, second.bottom)
            middle = (first.x + second.x) / 2
            link.line = (
                f"M{first.x:.1f},{y:.1f} Q{middle:.1f},{y + 2 * reach:.1f} {second.x:.1f},{y:.1f}"
            )
            link.label = (middle, y + reach + 3)
            link.is_arc = True
        elif "nvswitch" in kinds or "network" in kinds:
            box, bar = (second, first) if first.kind in ("nvswitch", "network") else (first, second)
            link.line = f"M{box.x:.1f},{box.bottom:.1f} V{bar.top:.1f}"
            link.label = (box.x, bar.top - 8 if bar.kind == "network" else box.bottom + 17)
        else:
            above, below = (first, second) if first.y < second.y else (second, first)
            x = min(max(below.x, above.x - above.width / 2 + 8), above.x + above.width / 2 - 8)
            link.line = f"M{x:.1f},{above.bottom:.1f} L{below.x:.1f},{below.top:.1f}"
            part = 0.7
            link.label = (
                x + part * (below.x - x),
                above.bottom + part * (below.top - above.bottom) + 4,
            )

    @staticmethod
    def _trace_sockets(first: Box, second: Box, link: _Link) -> None:
        left, right = (first, second) if first.x < second.x else (second, first)
        if right.column == left.column + 1:
            ends = left.x + left.width / 2, right.x - right.width / 2
            link.line = f"M{ends[0]:.1f},{left.y:.1f} H{ends[1]:.1f}"
            link.label = (sum(ends) / 2, left.y - 7)
            return
        rise = 20 * (right.column - left.column)
        middle = (left.x + right.x) / 2
        link.line = (
            f"M{left.x:.1f},{left.top:.1f} Q{middle:.1f},{left.top - 2 * rise:.1f} "
            f"{right.x:.1f},{right.top:.1f}"
        )
        link.label = (middle, left.top - rise + 3)

    def svg(self) -> str:
        width, height = self.layout.width, self.layout.height + 30 + 18 * len(self.paths[:16])
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}" role="img">',
            f"<title>{escape(self.title or 'Infrastructure graph')}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="paper" width="{width:.0f}" height="{height:.0f}"/>',
        ]
        for panel in self.layout.panels:
            parts += self._panel(panel)
        faint = " faint" if self.paths else ""
        parts.append(f'<g class="lines{faint}">')
        # Wide lines first, so that narrow ones stay in sight.
        for ends, link in sorted(self.links.items(), key=lambda item: -item[1].there):
            parts.append(self._line(ends, link))
        parts.append("</g>")
        parts += self._highlights()
        for box in self.layout.all_boxes():
            parts += self._box(box)
        if not self.paths:
            parts += self._rates()
        parts += self._key()
        parts.append("</svg>")
        return "\n".join(parts) + "\n"

    @staticmethod
    def _panel(panel: Panel) -> list[str]:
        more = "" if panel.alike == 1 else f" · one of {panel.alike} servers alike"
        return [
            f'<rect class="panel" x="{panel.x:.1f}" y="{panel.y:.1f}" width="{panel.width:.1f}" '
            f'height="{panel.height:.1f}" rx="8"/>',
            f'<text class="title" x="{panel.x + 12:.1f}" y="{panel.y + 21:.1f}">'
            f"server {panel.server}{more}</text>",
        ]

    @staticmethod
    def _line(ends: tuple[str, str], link: _Link) -> str:
        told = f"{ends[0]} to {ends[1]}: {rate_text(link.there, link.back)} GB/s ({link.kind})"
        return (
            f'<path class="line {_css_class(link.kind)}" d="{link.line}" '
            f'stroke-width="{stroke(max(link.there, link.back))}">'
            f"<title>{escape(told)}</title></path>"
        )

    @staticmethod
    def _box(box: Box) -> list[str]:
        told = f"{box.name}{': ' + box.note if box.note else ''}"
        x, y = box.x - box.width / 2, box.y - box.height / 2
        parts = [
            f'<g><title>{escape(told)}</title><rect class="box {box.kind}" x="{x:.1f}" y="{y:.1f}" '
            f'width="{box.width:.1f}" height="{box.height:.1f}" rx="5"/>'
        ]
        lines = box.lines
        for i, line in enumerate(lines):
            style = "name" if i == 0 else "note"
            at = box.y + 4 + 13 * (i - (len(lines) - 1) / 2)
            parts.append(
                f'<text class="{style}" x="{box.x:.1f}" y="{at:.1f}">{escape(line)}</text>'
            )
        parts.append("</g>")
        return parts

    def _rates(self) -> list[str]:
        parts = []
        for link in self.links.values():
            if link.is_arc and self._arcs_too_many():
                continue
            x, y = link.label
            text = rate_text(link.there, link.back)
            if link.alike > 1:
                text = f"{link.alike} x {text}"
            width = 5.6 * len(text) + 6
            parts.append(
                f'<rect class="under" x="{x - width / 2:.1f}" y="{y - 9.5:.1f}" '
                f'width="{width:.1f}" height="13" rx="3"/>'
                f'<text class="rate" x="{x:.1f}" y="{y:.1f}">{text}</text>'
            )
        return parts

    def _arcs_too_many(self) -> bool:
        return len(self._arcs()) > MOST_ARC_RATES * len(self.layout.panels)

    def _arcs(self) -> list[_Link]:
        return [link for link in self.links.values() if link.is_arc]

    def _highlights(self) -> list[str]:
        parts: list[str] = []
        for i, path in enumerate(self.paths):
            colour = PATH_COLOURS[i % len(PATH_COLOURS)]
            # Paths that share a link run beside each other.
            shift = (i % 5 - 2) * 3.0
            drawn = [self.layout.drawn(name) for name in path["vertices"]]
            boxes = [name for name in drawn if name is not None]
            for a, b in pairwise(boxes):
                link = self.links.get((a, b)) or self.links.get((b, a))
                if link is None:
                    continue
                told = f"path {i + 1}: {path['gbps']:g} GB/s"
                parts.append(
                    f'<path class="path" d="{link.line}" stroke="{colour}" '
                    f'stroke-width="{max(2.5, stroke(path["gbps"]) * 0.8):.2f}" '
                    f'transform="translate({shift},0)"><title>{told}</title></path>'
                )
        return parts

    def _key(self) -> list[str]:
        y = self.layout.height + 14
        x = MARGIN
        parts = []
        names = (("pcie", "PCIe"), ("nvlink", "NVLink, xGMI, C2C"), ("socket", "between CPUs"))
        for style, name in (*names, ("net", "network")):
            parts.append(
                f'<path class="line {style}" d="M{x:.0f},{y:.0f} h22" stroke-width="4"/>'
                f'<text class="key" x="{x + 28:.0f}" y="{y + 4:.0f}">{name}</text>'
            )
            x += 46 + 7 * len(name)
        told = "figures: GB/s one way"
        if self._arcs_too_many():
            rates = [max(link.there, link.back) for link in self._arcs()]
            told += f"; between GPUs {rate_range(min(rates), max(rates))}"
        parts.append(f'<text class="key" x="{x:.0f}" y="{y + 4:.0f}">{told}</text>')
        for i, path in enumerate(self.paths[:16]):
            y += 18
            colour = PATH_COLOURS[i % len(PATH_COLOURS)]
            way = " → ".join(self.layout.told(name) for name in path["vertices"])
            parts.append(
                f'<path class="path" d="M{MARGIN},{y:.0f} h22" stroke="{colour}" stroke-width="4"/>'
                f'<text class="key" x="{MARGIN + 28}" y="{y + 4:.0f}">'
                f"{path['gbps']:g} GB/s: {escape(way)}</text>"
            )
        return parts
