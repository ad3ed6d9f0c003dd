"""Bytes per source-destination pair of a channel as a matrix of tinted cells with numbers."""

from __future__ import annotations

from typing import Any

from mgi.demo import units
from mgi.demo.svg import escape, label, picture, tag

#: Beyond so many endpoints a side, cells carry no number (they still have a tooltip).
NUMBERED = 20


def _lane_text(lane: dict[str, Any]) -> str:
    text = (
        f"endpoint {lane['source']} to endpoint {lane['destination']}: "
        f"{units.size(lane['bytes'])}, {units.count(lane['rows'])} rows"
    )
    if "segments" in lane:
        text += f", {units.count(lane['segments'])} segments"
    if lane.get("waits"):
        text += f", waited {units.count(lane['waits'])} times for room"
    return text


def heat_map(channel: dict[str, Any]) -> str:
    """The matrix of one channel: sources down, destinations across, sums at the edges."""
    lanes: dict[tuple[Any, Any], dict[str, Any]] = {
        (lane["source"], lane["destination"]): lane for lane in channel["lanes"]
    }
    if not lanes:
        return '<p class="note">No lanes.</p>'
    sources = sorted({source for source, _ in lanes})
    destinations = sorted({destination for _, destination in lanes})
    most = max(max(lane["bytes"] for lane in lanes.values()), 1)
    numbered = max(len(sources), len(destinations)) <= NUMBERED
    sums = {s: sum(lanes[s, d]["bytes"] for d in destinations if (s, d) in lanes) for s in sources}
    arrived = {
        d: sum(lanes[s, d]["bytes"] for s in sources if (s, d) in lanes) for d in destinations
    }
    divisor, unit = units.scale_of(most)
    widest = max(len(units.scaled(v, divisor)) for v in [*sums.values(), *arrived.values()])
    width = max(46.0, widest * 8.0 + 10) if numbered else 16.0
    height = 30.0 if numbered else 16.0
    left, top, gap = 78.0, 46.0, 8.0

    drawn = [
        label(left + width * len(destinations) / 2, 14, f"to endpoint ({unit})", "axis"),
        label(left - 8, top - 8, "from", "axis", "end"),
    ]
    for column, destination in enumerate(destinations):
        if numbered or column % 8 == 0:
            x = left + width * (column + 0.5)
            drawn.append(label(x, top - 8, destination, "axis"))
    for row, source in enumerate(sources):
        y = top + height * row
        if numbered or row % 8 == 0:
            drawn.append(label(left - 8, y + height / 2 + 4.5, source, "axis", "end"))
        for column, destination in enumerate(destinations):
            lane = lanes.get((source, destination))
            if lane is not None:
                x = left + width * column
                drawn.append(_cell(x, y, width, height, lane, most, divisor, numbered))
    right, below = left + width * len(destinations) + gap, top + height * len(sources) + gap
    if numbered:
        drawn.append(label(right + width / 2, top - 8, "sum", "axis"))
        drawn.append(label(left - 8, below + height / 2 + 2, "sum", "axis", "end"))
        for row, source in enumerate(sources):
            y = top + height * (row + 0.5) + 4.5
            drawn.append(label(right + width / 2, y, units.scaled(sums[source], divisor), "sum"))
        for column, destination in enumerate(destinations):
            x = left + width * (column + 0.5)
            text = units.scaled(arrived[destination], divisor)
            drawn.append(label(x, below + height / 2 + 2, text, "sum"))
        right, below = right + width, below + height
    title = f"Bytes of channel {channel.get('name', '')} from each source to each destination"
    return picture(right + 6, below + 4, title, "".join(drawn), shrink=0.85)


def _cell(
    x: float,
    y: float,
    width: float,
    height: float,
    lane: dict[str, Any],
    most: int,
    divisor: float,
    numbered: bool,
) -> str:
    # The tint is laid over the page's own background and never gets so strong that the text
    # colour stops being legible on it, in the light scheme and in the dark one.
    tint = 0.04 + 0.46 * lane["bytes"] / most
    square = tag(
        "rect",
        x=x + 1,
        y=y + 1,
        width=width - 2,
        height=height - 2,
        rx="3",
        class_="heat",
        style=f"fill-opacity:{tint:.3f}",
    )
    text = ""
    if numbered:
        text = label(x + width / 2, y + height / 2 + 4.5, units.scaled(lane["bytes"], divisor))
    return tag("g", tag("title", escape(_lane_text(lane))) + square + text)
