"""`mgi top`'s tables as lines of text."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mgi.demo.units import seconds, size
from mgi.top.figures import Figures

_BAR = 16
_LEAST_WIDTH = 40
_LEAST_HEIGHT = 8


@dataclass(frozen=True)
class Style:
    """What may be used to show something."""

    colour: bool
    unicode: bool

    def dress(self, text: str, code: str) -> str:
        """In a colour, or bold."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and text else text

    def bar(self, share: float, width: int = _BAR) -> str:
        """A load between nothing and all."""
        share = min(max(share, 0.0), 1.0)
        if not self.unicode:
            full = round(share * width)
            return "[" + "#" * full + " " * (width - full) + "]"
        eighths = round(share * width * 8)
        full, rest = divmod(eighths, 8)
        drawn = "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")
        return drawn.ljust(width, "·")


@dataclass(frozen=True)
class Column:
    """A table's column; `cell` gives its text for a row."""

    head: str
    cell: Callable[[dict[str, Any]], str]
    right: bool = True


def lines(
    shown: Figures, width: int, height: int | None, style: Style, trouble: str = ""
) -> list[str]:
    """All tables, no line wider than `width` and no more of them than `height`."""
    width = max(width, _LEAST_WIDTH)
    head = [_head(shown, width, style)]
    if trouble:
        head.append(style.dress(_cut(clean(trouble), width), "31"))
    if not shown["leader"]:
        leader = shown["leader_address"]
        known = leader and leader != shown["controller"]
        leads = f"{leader} leads" if known else "none leads at the moment"
        return [*head, f"this controller stands by; {clean(leads)}"]
    if shown["owner"]:  # an agent of another user
        whose = f"channels of {clean(shown['owner'])} alone"
        of_a_user = shown["owner"].startswith("user ")
        head.append(_cut(whose + ("; MGI_JOB_SECRET shows a job's" if of_a_user else ""), width))
    parts = [
        _channels(shown, style),
        _waits(shown, width),
        _nics(shown, style),
        _paths(shown, style),
    ]
    room = None if height is None else max(height, _LEAST_HEIGHT) - len(head)
    for title, rows in _shared_out([part for part in parts if part[1]], room):
        head.append("")
        head.append(style.dress(_cut(title, width), "1"))
        head += [_cut(row, width) for row in rows]
    return head if style.unicode else [_ascii(line) for line in head]


def clean(text: str) -> str:
    """Names come from outside: what would do something to a terminal is replaced."""
    return "".join(c if c.isprintable() else "?" for c in text)


def rate(gbps: float) -> str:
    """``1.20 GB/s``; ``-`` for none."""
    return f"{size(gbps * 1e9)}/s" if gbps > 0 else "-"


def _head(shown: Figures, width: int, style: Style) -> str:
    present, servers = shown["servers_present"], shown["servers"]
    count = f"{present} of {servers} servers" if present != servers else _many(servers, "server")
    text = (
        f"mgi top  {clean(shown['controller'])}, up {_time(shown['uptime_s'])}: {count}, "
        f"{_many(len(shown['channels']), 'channel')}, {rate(shown['gbps'])}"
    )
    return style.dress(_cut(text, width), "1")


def _channels(shown: Figures, style: Style) -> tuple[str, list[str]]:
    most = max((c["gbps"] for c in shown["channels"]), default=0.0)
    columns = [
        Column("CHANNEL", _channel, right=False),
        Column("STATE", lambda c: c["state"], right=False),
        Column("RATE", lambda c: rate(c["gbps"])),
        Column("", lambda c: style.bar(c["gbps"] / most if most > 0 else 0.0, 8), right=False),
        Column("MOVED", lambda c: size(c["bytes"])),
        *_flow_columns(),
        Column("QUEUED", lambda c: _count(c.get("queued", 0))),
    ]
    if not shown["channels"]:
        return "CHANNELS", ["none yet"]
    return _table(columns, shown["channels"])


def _paths(shown: Figures, style: Style) -> tuple[str, list[str]]:
    del style
    columns = [
        Column("PATH OF", _channel, right=False),
        Column("FROM", _from, right=False),
        Column("TO", lambda p: clean(p.get("peer") or _end(p["to"], p["to_place"])), right=False),
        Column("BY", _by, right=False),
        Column("RATE", lambda p: rate(p["gbps"])),
        Column("MOVED", lambda p: size(p["bytes"])),
        *_flow_columns(),
    ]
    busy = [p for p in shown["paths"] if p["bytes"] or p["in_flight"] or p["waiting"]]
    return _table(columns, busy)


def _flow_columns() -> list[Column]:
    return [
        Column("IN FLIGHT", lambda f: _count(f.get("in_flight", 0))),
        Column("WAITING", lambda f: _count(f.get("waiting", 0))),
        Column("WAITED", lambda f: _wait(f.get("waited_s", 0.0))),
        Column("LONGEST", lambda f: _wait(f.get("longest_wait_s", 0.0))),
        Column("RESENT", lambda f: _count(f.get("resends", 0))),
    ]


def _nics(shown: Figures, style: Style) -> tuple[str, list[str]]:
    def load(way: str) -> list[Column]:
        def share(nic: dict[str, Any]) -> float:
            can = nic[f"{way}_capacity_gbps"]
            return nic[f"{way}_gbps"] / can if can else 0.0

        def cell(nic: dict[str, Any]) -> str:
            can = nic[f"{way}_capacity_gbps"]
            if can is None:
                return "not in the graph"
            return f"{rate(nic[f'{way}_gbps'])} of {rate(can)}" if can > 0 else "down"

        return [
            Column(way.upper(), lambda nic: style.bar(share(nic)), right=False),
            Column("", cell, right=False),
        ]

    columns = [
        Column("NIC", lambda nic: clean(f"{nic['server']} {nic['name']}"), right=False),
        *load("out"),
        *load("in"),
        Column("OF CHANNELS", lambda nic: rate(nic["payload_gbps"])),
        Column("IN FLIGHT", lambda nic: _count(nic["in_flight"])),
        Column("RESENT", lambda nic: _count(nic["resends"])),
    ]
    return _table(columns, shown["nics"])


def _waits(shown: Figures, width: int) -> tuple[str, list[str]]:
    rows = []
    for wait in shown["waits"]:
        text = f"{_channel(wait)}: {clean(wait['text'])}"
        rows += textwrap.wrap(text, width, subsequent_indent="    ")
    if shown["more_waits"]:
        rows.append(f"and {_count(shown['more_waits'])} more wait")
    return "WHO WAITS FOR WHOM", rows


def _channel(item: dict[str, Any]) -> str:
    """Of a channel, or of what belongs to one."""
    number = item.get("channel", item.get("id"))
    return clean(f"{item['name']} ({number})" if item["name"] else f"({number})")


def _end(number: int | None, place: str) -> str:
    if number is None:
        return "all"
    return clean(f"{number} {place.split(',')[0]}" if place else str(number))


def _by(path: dict[str, Any]) -> str:
    # "nic0", or "nic0 through rank 2 on server c".
    return clean(path["nic"] + path["by"].removeprefix("wire") if path["nic"] else path["by"])


def _from(path: dict[str, Any]) -> str:
    """Of a wire: the server that it leaves."""
    return clean(path["server"]) if path.get("peer") else _end(path["from"], path["from_place"])


def _count(number: int) -> str:
    return f"{number:,}" if number else "-"


def _wait(time: float) -> str:
    return seconds(time) if time > 0 else "-"


def _time(time: float) -> str:
    whole = round(time)
    if whole < 60:
        return f"{whole} s"
    minutes, hours = whole // 60, whole // 3600
    return f"{minutes} min {whole % 60} s" if hours == 0 else f"{hours} h {minutes % 60} min"


def _many(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def _table(columns: Sequence[Column], rows: Sequence[dict[str, Any]]) -> tuple[str, list[str]]:
    """The head, and a line for each row; columns are as wide as their widest cell."""
    cells = [[column.cell(row) for column in columns] for row in rows]
    widths = [
        max([len(column.head), *(len(row[at]) for row in cells)])
        for at, column in enumerate(columns)
    ]

    def line(texts: Sequence[str]) -> str:
        laid = [
            text.rjust(width) if column.right else text.ljust(width)
            for text, width, column in zip(texts, widths, columns, strict=True)
        ]
        return "  ".join(laid).rstrip()

    return line([column.head for column in columns]), [line(row) for row in cells]


def _shared_out(
    parts: list[tuple[str, list[str]]], room: int | None
) -> list[tuple[str, list[str]]]:
    """Each table gets its equal share of the room, and what others leave of theirs.

    The last tables are left out where there is not enough for a line of each.
    """
    if room is None:
        return parts
    parts = parts[: max(room // 3, 1)]
    left = room - 2 * len(parts)  # an empty line and a head each
    given: dict[int, int] = {}
    for count, (at, (_, rows)) in enumerate(
        sorted(enumerate(parts), key=lambda part: len(part[1][1]))
    ):
        given[at] = min(len(rows), max(left // (len(parts) - count), 1))
        left -= given[at]
    cut = []
    for at, (title, rows) in enumerate(parts):
        kept = rows[: given[at]]
        if given[at] < len(rows):
            kept[-1] = f"and {len(rows) - given[at] + 1:,} more lines"
        cut.append((title, kept))
    return cut


def _ascii(text: str) -> str:
    return text.replace("…", "~").encode("ascii", "replace").decode()


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
