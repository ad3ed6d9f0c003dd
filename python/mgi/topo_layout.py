"""Where each vertex of a graph is drawn: a panel a server, in it a tree below each CPU."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

MARGIN = 16
SLOT = 88
"""From one GPU or NIC to the next."""
CPU_GAP = 40
ROW = 78
BAR = 30
LEAF = (80, 46)
INNER = (96, 32)
WIDEST = 1700
"""Panels go on in another row behind this."""
MOST_NICS = 2
"""NICs below one vertex that are drawn each by itself, where they are alike."""
MOST_ALL = 48
"""GPUs and NICs up to which every server is drawn."""


def plain_name(name: str) -> str:
    """Without what a reader sees from where it stands."""
    return re.sub(r"(^|/)(nic|pci) ", r"\1", name)


@dataclass
class Box:
    """A vertex on the paper; x and y are its middle."""

    name: str
    kind: str
    lines: list[str]
    note: str = ""
    x: float = 0
    y: float = 0
    width: float = 0
    height: float = 0
    column: int = 0

    @property
    def top(self) -> float:
        return self.y - self.height / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height / 2


@dataclass
class Panel:
    """A server as it is drawn, for ``alike`` of them."""

    server: int
    alike: int = 1
    x: float = 0
    y: float = 0
    width: float = 0
    height: float = 0
    boxes: list[Box] = field(default_factory=list)


@dataclass
class _Pen:
    """Where the next GPU or NIC of a panel comes."""

    top: float
    depth: int
    x: float = 14
    column: int = 0


def _fitted(box: Box) -> Box:
    """Cuts what is too long for the box."""
    most = int(box.width / 5.2)
    box.lines = [text if len(text) <= most else text[: most - 1] + "…" for text in box.lines]
    return box


class Layout:
    """Boxes by vertex. A port that has one thing below it is part of the link and has no box."""

    def __init__(self, graph: Mapping[str, Any], met: Collection[str] = ()) -> None:
        vertices = graph["vertices"]
        self._met = met
        self.order = {vertex["name"]: i for i, vertex in enumerate(vertices)}
        self._vertices: dict[str, Mapping[str, Any]] = {v["name"]: v for v in vertices}
        self._children: dict[str, list[str]] = defaultdict(list)
        self._by_server: dict[int | None, list[str]] = defaultdict(list)
        for vertex in vertices:
            self._by_server[vertex["server"]].append(vertex["name"])
            if vertex["parent"] is not None:
                self._children[vertex["parent"]].append(vertex["name"])
        self._edges: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for edge in graph["edges"]:
            self._edges[edge["from"]].append(edge)
        self._gpu_number: dict[str, int] = {}
        for vertex in vertices:
            if vertex["kind"] == "gpu":
                self._gpu_number[vertex["name"]] = len(self._gpu_number)
        self.chains: dict[str, list[str]] = {}
        """By the lower end: the vertices of a link that ports are part of, the upper end first."""
        self.alike: dict[str, int] = {}
        """By the one that is drawn: how many NICs it stands for, where there are many beside it."""
        self._alias: dict[str, str] = {}
        self._boxes: dict[str, list[Box]] = defaultdict(list)
        self._row_of: dict[str, int] = {}
        self.bars: list[Box] = []
        self.panels = self._choose()
        for panel in self.panels:
            self._fill(panel)
        self.width: float = 0
        self.height: float = 0
        self._arrange()

    def drawn(self, name: str) -> str | None:
        """The vertex whose box stands for this one; None where it is not drawn."""
        while name in self._alias:
            name = self._alias[name]
        return name if name in self._boxes else None

    def told(self, name: str) -> str:
        """What a reader of the drawing knows a vertex as."""
        number = self._gpu_number.get(name)
        return plain_name(name) if number is None else f"GPU {number}"

    def is_merged(self, name: str) -> bool:
        """Whether another box stands for this vertex."""
        return name in self._alias

    def boxes(self, a: str, b: str) -> tuple[Box, Box]:
        """Two boxes that a line joins: of a vertex of every server, the one in the other's row."""
        row = self._row_of.get(a, self._row_of.get(b, 0))

        def at(name: str) -> Box:
            return self._boxes[name][0 if name in self._row_of else row]

        return at(a), at(b)

    def all_boxes(self) -> Iterator[Box]:
        for panel in self.panels:
            yield from panel.boxes
        yield from self.bars

    def arc_depth(self, a: Box, b: Box) -> float:
        """How far below the GPUs the link between two of them goes."""
        return 14 + 10 * min(abs(a.column - b.column), 10)

    def _choose(self) -> list[Panel]:
        servers = sorted(s for s in self._by_server if s is not None)
        leaves = sum(v["kind"] in ("gpu", "nic") for v in self._vertices.values())
        if leaves <= MOST_ALL:
            return [Panel(server) for server in servers]
        wanted = {self._vertices[name]["server"] for name in self._met if name in self._vertices}
        shapes: dict[Any, Panel] = {}
        panels = []
        for server in servers:
            if server in wanted:
                panels.append(Panel(server))
                continue
            shape = self._shape(server)
            if shape in shapes:
                shapes[shape].alike += 1
            else:
                shapes[shape] = Panel(server)
                panels.append(shapes[shape])
        return panels

    def _shape(self, server: int) -> Any:
        """Equal for servers that only differ in their number."""
        prefix = f"h{server}/"

        def plain(name: str | None) -> str | None:
            return name and name.removeprefix(prefix)

        return tuple(
            (
                plain(name),
                vertex["note"],
                plain(vertex["parent"]),
                tuple(
                    (self._shared_name(e["to"]) or plain(e["to"]), e["gbps"])
                    for e in self._edges[name]
                ),
            )
            for name in self._by_server[server]
            for vertex in (self._vertices[name],)
        )

    def _shared_name(self, name: str) -> str | None:
        """NVLink domains are alike whatever they are called."""
        vertex = self._vertices[name]
        return None if vertex["server"] is not None else f"any {vertex['kind']}"

    def _fill(self, panel: Panel) -> None:
        names = self._by_server[panel.server]
        roots = [n for n in names if self._vertices[n]["parent"] is None]
        bars = [n for n in roots if self._is_bar(n)]
        trees = [self._read(n) for n in roots if n not in bars]
        # Links between CPUs that are not neighbours go above them.
        above = max(0, sum(self._vertices[n]["kind"] == "cpu" for n in roots) - 2)
        depth = max((self._depth_of(tree) for tree in trees), default=0)
        pen = _Pen(top=34 + 20 * above + INNER[1] / 2, depth=depth)
        for column, tree in enumerate(trees):
            box = self._place(tree, 0, panel, pen)
            if box.kind == "cpu":
                box.column = column
            pen.x += CPU_GAP
        panel.width = max(pen.x - CPU_GAP + 14, 240)
        reach = self._arc_reach(panel)
        y = pen.top + ROW * depth + LEAF[1] / 2 + max(reach, 30 if bars else 12)
        for name in bars:
            box = self._box(name, panel)
            box.width, box.height = panel.width - 28, BAR
            box.x, box.y = panel.width / 2, y + BAR / 2
            y += BAR + 12
        panel.height = y + 4

    def _is_bar(self, name: str) -> bool:
        vertex = self._vertices[name]
        return vertex["kind"] == "switch" and vertex["parent"] is None and not self._children[name]

    def _leads_nowhere(self, name: str) -> bool:
        """Whether this is a port with neither GPU nor NIC below it."""
        if self._vertices[name]["kind"] != "switch":
            return False
        return all(self._leads_nowhere(child) for child in self._children[name])

    def _read(self, name: str) -> tuple[str, list[Any]]:
        """A tree of what is drawn: (name, what is below)."""
        below = []
        chains = [self._chain(name, child) for child in self._living(name)]
        for chain in self._merge_nics(chains):
            child = chain[-1]
            if len(chain) > 2:
                self.chains[child] = chain
                self._alias.update(dict.fromkeys(chain[1:-1], child))
            below.append(self._read(child))
        return name, below

    def _living(self, name: str) -> list[str]:
        return [child for child in self._children[name] if not self._leads_nowhere(child)]

    def _chain(self, name: str, child: str) -> list[str]:
        """From a vertex through ports that have one thing below them to that thing."""
        chain = [name, child]
        while self._vertices[child]["kind"] == "switch" and len(self._living(child)) == 1:
            child = self._living(child)[0]
            chain.append(child)
        return chain

    def _merge_nics(self, chains: list[list[str]]) -> list[list[str]]:
        """One for all NICs of one rate, where they are many."""
        groups: dict[Any, list[list[str]]] = defaultdict(list)
        for chain in chains:
            vertex = self._vertices[chain[-1]]
            rates = tuple(sorted(e["gbps"] for n in chain[1:] for e in self._edges[n]))
            mergeable = vertex["kind"] == "nic" and chain[-1] not in self._met
            alike = (vertex["note"], len(chain), rates) if mergeable else chain[-1]
            groups[alike].append(chain)
        kept = []
        for group in groups.values():
            if len(group) <= MOST_NICS:
                kept += group
                continue
            kept.append(group[0])
            self.alike[group[0][-1]] = len(group)
            for chain in group[1:]:
                self._alias.update(dict.fromkeys(chain[1:], group[0][-1]))
        return kept

    def _depth_of(self, tree: tuple[str, list[Any]]) -> int:
        return 1 + max(map(self._depth_of, tree[1])) if tree[1] else 0

    def _place(self, tree: tuple[str, list[Any]], level: int, panel: Panel, pen: _Pen) -> Box:
        name, below = tree
        box = self._box(name, panel)
        inner = box.kind in ("cpu", "switch")
        box.width, box.height = INNER if inner else LEAF
        box.y = pen.top + ROW * (level if inner else pen.depth)
        if not below:
            box.x = pen.x + SLOT / 2
            box.column = pen.column
            pen.column += 1
            pen.x += SLOT if not inner else INNER[0] + 12
            return _fitted(box)
        placed = [self._place(child, level + 1, panel, pen) for child in below]
        box.x = (placed[0].x + placed[-1].x) / 2
        if box.kind == "cpu":
            box.width = max(INNER[0], min(240, placed[-1].x - placed[0].x))
        return _fitted(box)

    def _box(self, name: str, panel: Panel) -> Box:
        box = Box(name, self._style(name), self._lines(name), self._vertices[name]["note"])
        panel.boxes.append(box)
        self._boxes[name].append(box)
        return box

    def _style(self, name: str) -> str:
        kind = self._vertices[name]["kind"]
        return "nvswitch" if self._is_bar(name) and kind == "switch" else kind

    def _lines(self, name: str) -> list[str]:
        vertex = self._vertices[name]
        short = plain_name(name.split("/", 1)[-1] if vertex["server"] else name)
        if vertex["kind"] == "gpu":
            return [f"GPU {self._gpu_number[name]}", short]
        if vertex["kind"] == "nic":
            count = self.alike.get(name, 1)
            what = "NIC" if count == 1 else f"{count} NICs"
            return [what + (", direct" if vertex.get("nic_direct") else ""), short]
        if vertex["kind"] == "switch" and not self._is_bar(name):
            return ["PCIe switch", short]
        if vertex["kind"] == "switch":
            return ["NVSwitch" if short == "nvswitch" else short.replace("nvlink", "NVLink")]
        if vertex["kind"] == "cpu":
            return [short.upper(), vertex["note"]] if vertex["note"] else [short.upper()]
        return [short]

    def _arc_reach(self, panel: Panel) -> float:
        """How far links between GPUs go below them."""
        gpus = {box.name: box for box in panel.boxes if box.kind == "gpu"}
        reach = 0.0
        for name, box in gpus.items():
            for edge in self._edges[name]:
                if other := gpus.get(edge["to"]):
                    reach = max(reach, self.arc_depth(box, other) + 14)
        return reach

    def _arrange(self) -> None:
        """Panels in rows; below each row what belongs to every server and has links to the row."""
        shared = sorted(self._by_server[None], key=lambda n: self._vertices[n]["kind"] == "network")
        rows: list[list[Panel]] = []
        for panel in self.panels:
            used = sum(p.width + MARGIN for p in rows[-1]) if rows else WIDEST
            if used + panel.width > WIDEST:
                rows.append([])
            rows[-1].append(panel)
        y: float = MARGIN
        for number, row in enumerate(rows):
            x: float = MARGIN
            for panel in row:
                panel.x, panel.y = x, y
                for box in panel.boxes:
                    box.x += x
                    box.y += y
                    self._row_of[box.name] = number
                x += panel.width + MARGIN
            y += max(panel.height for panel in row)
            self.width = max(self.width, x)
            for name in shared:
                box = Box(name, self._style(name), self._lines(name))
                self._boxes[name].append(box)
                if not self._meets(name, row):
                    continue
                box.width, box.height = x - 2 * MARGIN, BAR
                box.x, box.y = x / 2, y + 34 + BAR / 2
                self.bars.append(box)
                y += 34 + BAR
            y += 2 * MARGIN
        self.width = max(self.width, 560)
        self.height = y

    def _meets(self, name: str, row: list[Panel]) -> bool:
        drawn = {box.name for panel in row for box in panel.boxes}
        return any(edge["to"] in drawn for edge in self._edges[name])
