"""The infrastructure graph as a picture: vertices, edges in GB/s, endpoints on their devices."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from typing import Any

from mgi.demo import units
from mgi.demo.svg import escape, label, number, picture, tag, text_width

#: A device with more endpoints than this shows their number instead of one mark for each.
MARKED = 48
#: Links of one kind and speed beyond this many are named in the caption, not each on its line.
LABELLED = 10
#: Room between two neighbouring boxes, enough for a link's label.
GAP = 120.0
MARK_HEIGHT = 22.0


@dataclasses.dataclass
class _Box:
    """A vertex as drawn; `x`, `y` are its middle."""

    name: str
    kind: str
    managed: bool
    marks: list[str]
    local: str = ""
    x: float = 0.0
    y: float = 0.0

    def __post_init__(self) -> None:
        # One width for all marks of a device, so that they stand in columns.
        self.mark_width = max([26.0, *(text_width(mark, 12) + 12 for mark in self.marks)])
        across = math.ceil(math.sqrt(len(self.marks) * 2)) if self.marks else 0
        self.columns = max(1, min(8, max(across, min(4, len(self.marks)))))
        self.lines = math.ceil(len(self.marks) / self.columns)

    @property
    def width(self) -> float:
        text = max(text_width(self.name, 15), text_width(self.subtitle, 12))
        return max(110.0, text + 28, self.columns * (self.mark_width + 5) + 23)

    @property
    def height(self) -> float:
        return 56.0 + (self.lines * (MARK_HEIGHT + 5) + 8 if self.marks else 0.0)

    @property
    def subtitle(self) -> str:
        return f"{self.kind} · {self.local}" if self.local else self.kind

    @property
    def rectangle(self) -> tuple[float, float, float, float]:
        half_width, half_height = self.width / 2, self.height / 2
        return (
            self.x - half_width,
            self.y - half_height,
            self.x + half_width,
            self.y + half_height,
        )


@dataclasses.dataclass
class _Link:
    """What connects two vertices: the sum of parallel edges each way, in GB/s."""

    first: Any
    second: Any
    kind: str
    there: float = 0.0
    back: float = 0.0
    bend: float = 0.0
    """How far its curve's control point stands off the straight line."""

    @property
    def ends(self) -> tuple[Any, Any]:
        return self.first, self.second

    def control(self, boxes: dict[Any, _Box]) -> tuple[float, float]:
        """The control point of its quadratic curve."""
        a, b = boxes[self.first], boxes[self.second]
        far = math.hypot(b.x - a.x, b.y - a.y) or 1.0
        across = (-(b.y - a.y) / far * self.bend, (b.x - a.x) / far * self.bend)
        return (a.x + b.x) / 2 + across[0], (a.y + b.y) / 2 + across[1]

    def at(self, boxes: dict[Any, _Box], share: float) -> tuple[float, float]:
        """The point at this share of its curve."""
        a, b, (x, y) = boxes[self.first], boxes[self.second], self.control(boxes)
        p, q, r = (1 - share) ** 2, 2 * share * (1 - share), share**2
        return p * a.x + q * x + r * b.x, p * a.y + q * y + r * b.y

    @property
    def text(self) -> str:
        if self.there == self.back or not self.back:
            return units.gbps(self.there)
        if not self.there:
            return units.gbps(self.back)
        return f"{self.there:.3g} / {self.back:.3g} GB/s"


def graph_picture(graph: dict[str, Any], endpoints: list[Any]) -> str:
    """The picture with its legend. `endpoints` have an ``id`` and a ``device``."""
    boxes, links = _read(graph, endpoints)
    if not boxes:
        return '<p class="note">The graph has no vertices.</p>'
    _place(boxes, links)
    _bend(boxes, links)
    width, height = _to_origin(boxes, links)
    classes: dict[tuple[str, str], int] = defaultdict(int)
    for link in links:
        classes[link.kind, link.text] += 1
    lines = [_line(boxes, link) for link in links]
    labels, unplaced = _labels(boxes, [x for x in links if classes[x.kind, x.text] <= LABELLED])
    drawn = "".join(lines + labels + [_draw(box) for box in boxes.values()])
    notes = [
        f"{many} links of kind {kind}, {text} each"
        for (kind, text), many in classes.items()
        if many > LABELLED
    ]
    if unplaced:
        notes.append(f"figures without room in the picture: {unplaced}; all stand in the table")
    note = f'<p class="note">{escape("; ".join(notes))}.</p>' if notes else ""
    title = "Infrastructure graph: vertices, edges with their capacity, endpoints on their devices"
    return picture(width, height, title, drawn) + _legend() + note + _edge_table(graph)


def _read(graph: dict[str, Any], endpoints: list[Any]) -> tuple[dict[Any, _Box], list[_Link]]:
    marks: dict[str, list[str]] = defaultdict(list)
    for endpoint in endpoints:
        marks[endpoint.device].append(str(endpoint.id))
    local: dict[Any, float] = defaultdict(float)
    links: dict[tuple[Any, Any], _Link] = {}
    for edge in graph["edges"]:
        source, target = edge["from"], edge["to"]
        if source == target:
            local[source] += edge["gbps"]
        elif (target, source) in links:
            links[target, source].back += edge["gbps"]
        else:
            link = links.setdefault((source, target), _Link(source, target, edge["kind"]))
            link.there += edge["gbps"]
    boxes = {}
    for vertex in graph["vertices"]:
        mine = marks.get(vertex["name"], [])
        if len(mine) > MARKED:
            mine = [f"{units.count(len(mine))} endpoints"]
        inside = f"{units.gbps(local[vertex['id']])} inside" if local[vertex["id"]] else ""
        boxes[vertex["id"]] = _Box(vertex["name"], vertex["kind"], vertex["managed"], mine, inside)
    return boxes, list(links.values())


def _place(boxes: dict[Any, _Box], links: list[_Link]) -> None:
    """Managed vertices stand around the unmanaged ones that connect them."""
    outer = [key for key, box in boxes.items() if box.managed]
    inner = [key for key, box in boxes.items() if not box.managed]
    if len(outer) < 2 <= len(inner):
        outer, inner = inner, outer
    if len(outer) + len(inner) <= 2:
        x = 0.0
        for key in outer + inner:
            boxes[key].x = x + boxes[key].width / 2
            x += boxes[key].width + GAP
        return
    if len(outer) <= 1 and len(inner) <= 1:
        outer, inner = outer + inner, []
    angles = {key: 2 * math.pi * i / len(outer) - math.pi / 2 for i, key in enumerate(outer)}
    inner_radius = 0.0
    if len(inner) > 1:
        inner = sorted(inner, key=lambda key: _mean_angle(key, links, angles))
        inner_radius = _radius([boxes[key] for key in inner])
    outer_radius = _radius([boxes[key] for key in outer])
    if inner:
        across = max(_diagonal(boxes[key]) for key in inner + outer)
        outer_radius = max(outer_radius, inner_radius + across + GAP * 0.7)
    for key in outer:
        boxes[key].x = outer_radius * math.cos(angles[key])
        boxes[key].y = outer_radius * math.sin(angles[key]) * 0.8
    start = _mean_angle(inner[0], links, angles) if inner else 0.0
    for i, key in enumerate(inner):
        angle = start + 2 * math.pi * i / len(inner)
        boxes[key].x = inner_radius * math.cos(angle)
        boxes[key].y = inner_radius * math.sin(angle) * 0.8


def _diagonal(box: _Box) -> float:
    return math.hypot(box.width, box.height)


def _radius(boxes: list[_Box]) -> float:
    """The circle on which these boxes have room for a label between neighbours."""
    if len(boxes) < 2:
        return 0.0
    chord = max(box.width for box in boxes) + GAP
    return chord / (2 * math.sin(math.pi / len(boxes)))


def _mean_angle(key: Any, links: list[_Link], angles: dict[Any, float]) -> float:
    x = y = 0.0
    for link in links:
        for end, other in ((link.first, link.second), (link.second, link.first)):
            if end == key and other in angles:
                x += math.cos(angles[other])
                y += math.sin(angles[other])
    return math.atan2(y, x) if (x, y) != (0.0, 0.0) else 0.0


def _to_origin(boxes: dict[Any, _Box], links: list[_Link]) -> tuple[float, float]:
    """Moves everything to positive coordinates; returns the picture's width and height."""
    margin = 16.0
    corners = [box.rectangle for box in boxes.values()]
    for link in links:
        half = text_width(link.text, 12) / 2
        for step in range(1, 10):
            x, y = link.at(boxes, step / 10)
            corners.append((x - half, y - 10, x + half, y + 10))
    left, top = min(c[0] for c in corners) - margin, min(c[1] for c in corners) - margin
    for box in boxes.values():
        box.x -= left
        box.y -= top
    right, bottom = max(c[2] for c in corners) + margin, max(c[3] for c in corners) + margin
    return right - left, bottom - top


def _bend(boxes: dict[Any, _Box], links: list[_Link]) -> None:
    """Gives each link whose straight line would run under a box a curve around it."""
    for link in links:
        others = [box.rectangle for key, box in boxes.items() if key not in link.ends]
        for bend in (0.0, 90.0, -90.0, 170.0, -170.0, 260.0, -260.0, 360.0, -360.0):
            link.bend = bend
            points = [link.at(boxes, step / 40) for step in range(1, 40)]
            if not any(
                _overlap((x - 4, y - 4, x + 4, y + 4), o) for x, y in points for o in others
            ):
                break
        else:
            link.bend = 0.0


def _line(boxes: dict[Any, _Box], link: _Link) -> str:
    a, b = boxes[link.first], boxes[link.second]
    thickness = min(6.0, 1.2 + 0.9 * math.log10(1 + max(link.there, link.back)))
    text = f"{a.name} to {b.name}: {link.text} ({link.kind})"
    x, y = link.control(boxes)
    points = [number(value) for value in (a.x, a.y, x, y, b.x, b.y)]
    return tag(
        "path",
        tag("title", escape(text)),
        d="M{} {}Q{} {} {} {}".format(*points),
        class_="link",
        stroke_width=thickness,
    )


def _labels(boxes: dict[Any, _Box], links: list[_Link]) -> tuple[list[str], int]:
    """Labels on their lines, none over another or over a box; how many found no room."""
    taken = [box.rectangle for box in boxes.values()]
    drawn, unplaced = [], 0
    for link in links:
        half = text_width(link.text, 12) / 2 + 5
        for share in (0.5, 0.42, 0.58, 0.35, 0.65, 0.28, 0.72, 0.22, 0.78):
            x, y = link.at(boxes, share)
            room = (x - half, y - 10, x + half, y + 10)
            if not any(_overlap(room, other) for other in taken):
                taken.append(room)
                plate = {"x": x - half, "y": y - 10, "width": 2 * half, "height": 20.0}
                drawn.append(tag("rect", **plate, rx="4", class_="plate"))
                drawn.append(label(x, y + 4, link.text, "edge"))
                break
        else:
            unplaced += 1
    return drawn, unplaced


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _draw(box: _Box) -> str:
    left, top, _, _ = box.rectangle
    state = "managed" if box.managed else "unmanaged"
    drawn = [
        tag(
            "rect",
            x=left,
            y=top,
            width=box.width,
            height=box.height,
            rx="10",
            class_=f"vertex {state}",
        ),
        label(box.x, top + 24, box.name, f"name on-{state}"),
        label(box.x, top + 43, box.subtitle, f"kind on-{state}"),
    ]
    step = box.mark_width + 5
    for i, mark in enumerate(box.marks):
        row, column = divmod(i, box.columns)
        in_row = min(box.columns, len(box.marks) - row * box.columns)
        x = box.x + (column - (in_row - 1) / 2) * step
        y = top + 56 + row * (MARK_HEIGHT + 5)
        drawn.append(
            tag(
                "rect",
                x=x - box.mark_width / 2,
                y=y,
                width=box.mark_width,
                height=MARK_HEIGHT,
                rx="11",
                class_="mark",
            )
            + label(x, y + 15.5, mark, "mark-text")
        )
    return tag("g", "".join(drawn))


def _legend() -> str:
    def sample(class_: str, radius: int) -> str:
        return (
            '<svg width="22" height="16" aria-hidden="true">'
            f'<rect x="1" y="1" width="20" height="14" rx="{radius}" class="{class_}"/></svg>'
        )

    return (
        '<p class="legend">'
        f"<span>{sample('vertex managed', 4)} managed: MGI runs there</span>"
        f"<span>{sample('vertex unmanaged', 4)} unmanaged: bytes only pass through</span>"
        f"<span>{sample('mark', 7)} endpoint, by its number</span></p>"
    )


def _edge_table(graph: dict[str, Any]) -> str:
    names = {vertex["id"]: vertex["name"] for vertex in graph["vertices"]}
    if not graph["edges"]:
        return ""
    rows = "".join(
        f"<tr><td>{escape(names.get(edge['from'], edge['from']))}</td>"
        f"<td>{escape(names.get(edge['to'], edge['to']))}</td>"
        f"<td>{escape(edge['kind'])}</td>"
        f'<td class="number">{escape(units.gbps(edge["gbps"]))}</td></tr>'
        for edge in graph["edges"]
    )
    many = len(graph["edges"])
    return (
        f"<details><summary>{many} edge{'' if many == 1 else 's'} as a table</summary>"
        '<div class="scroll"><table><thead><tr><th>From</th><th>To</th><th>Kind</th>'
        f'<th class="number">Capacity</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div></details>"
    )
