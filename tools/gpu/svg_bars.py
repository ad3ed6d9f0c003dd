"""Bar charts as SVG text, by the standard library alone. Part of tools/gpu/plot.py."""

import html
from dataclasses import dataclass

# Told apart by those who see few colours (Okabe and Ito's); ours is the strong one.
OURS = "#c2410c"
OTHERS = ("#0072b2", "#56b4e9", "#009e73", "#f0c419", "#cc79a7", "#7a8594", "#332288", "#88ccee")
INK = "#1c2430"
PALE = "#56606e"
GRID = "#e3e6ea"
HEIGHT, LEFT, RIGHT, PLOT = 300, 52, 14, 176
CHARACTER = 6.2  # width of one, of 11 px


@dataclass
class Chart:
    """Groups of bars. A value of None has no bar; one of 0 is shown as 0."""

    title: str
    groups: list
    series: dict  # name -> a value a group
    floor: float | None = None
    unit: str = "GB/s"
    axis: str = ""
    legend: bool = True
    width: int = 390
    known: tuple = ()  # all names that sister charts have, for the same colours in each


def nice_step(top):
    """A step of 1, 2 or 5 times a power of ten that cuts `top` into four to eight."""
    power = 1.0
    while power * 10 <= top:
        power *= 10
    while power > top:
        power /= 10
    return next(step for step in (power / 5, power / 2, power, 2 * power) if top / step <= 8)


def colours_of(names):
    rest = iter(OTHERS * (len(names) // len(OTHERS) + 1))
    return {name: OURS if "mgi" in name.lower() else next(rest) for name in names}


def text(x, y, words, size=11, colour=INK, anchor="start", more=""):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" '
        f'text-anchor="{anchor}"{more}>{html.escape(str(words))}</text>'
    )


def legend_of(names, colours, width, top):
    """Lines of the legend, and how far down they reach."""
    out, x, y = [], LEFT, top
    for name in names:
        wide = 26 + CHARACTER * len(name)
        if x + wide > width - RIGHT and x > LEFT:
            x, y = LEFT, y + 16
        out.append(
            f'<rect x="{x:.1f}" y="{y - 9:.1f}" width="10" height="10" fill="{colours[name]}"/>'
        )
        out.append(text(x + 14, y, name))
        x += wide
    return out, y + 10


def figure(value):
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def wrapped(label, room):
    """A label in lines of at most `room` characters, broken at spaces."""
    lines = [""]
    for word in str(label).split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > room:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines


def bars(chart):
    names = list(chart.series)
    colours = colours_of(chart.known or names)
    values = [v for row in chart.series.values() for v in row if v is not None]
    top = max([*values, chart.floor or 0, 1e-9]) * 1.08
    step = nice_step(top)
    out = [text(LEFT, 20, chart.title, 13, more=' font-weight="600"')]
    unit = f"{chart.unit}, floor {figure(chart.floor)}" if chart.floor else chart.unit
    out.append(text(chart.width - RIGHT, 20, unit, colour=PALE, anchor="end"))
    begin = 34
    if chart.legend and len(names) > 1:
        lines, begin = legend_of(names, colours, chart.width, 40)
        out += lines
    begin += 6
    base = begin + PLOT

    def y_of(value):
        return base - PLOT * value / top

    for k in range(int(top / step) + 1):
        y = y_of(k * step)
        out.append(
            f'<line x1="{LEFT}" x2="{chart.width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="{GRID}"/>'
        )
        out.append(text(LEFT - 6, y + 4, f"{k * step:g}", colour=PALE, anchor="end"))
    room = (chart.width - LEFT - RIGHT) / max(len(chart.groups), 1)
    bar = min(room * 0.84 / max(len(names), 1), 46)
    deepest = 1
    for g, group in enumerate(chart.groups):
        middle = LEFT + room * (g + 0.5)
        for s, name in enumerate(names):
            value = chart.series[name][g]
            if value is None:
                continue
            x = middle + bar * (s - len(names) / 2)
            tip = html.escape(f"{name}, {group}: {value:.4g} {chart.unit}")
            out.append(
                f'<rect x="{x:.1f}" y="{y_of(value):.1f}" width="{bar * 0.92:.1f}" '
                f'height="{base - y_of(value):.1f}" fill="{colours[name]}"><title>{tip}</title>'
                "</rect>"
            )
            if bar >= CHARACTER * len(figure(value)) - 4:
                # Above its bar, or in it where the floor's line would cross the figure.
                y, colour = y_of(value) - 3, PALE
                if chart.floor and -4 < y - y_of(chart.floor) < 14:
                    y, colour = y_of(value) + 14, "#fff"
                out.append(text(x + bar * 0.46, y, figure(value), 10, colour, "middle"))
        labels = wrapped(group, max(int(room / CHARACTER), 3))
        deepest = max(deepest, len(labels))
        for k, line in enumerate(labels):
            out.append(text(middle, base + 15 + 13 * k, line, anchor="middle"))
    if chart.floor:
        y = y_of(chart.floor)
        out.append(
            f'<line x1="{LEFT}" x2="{chart.width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="{INK}" stroke-width="1.5" stroke-dasharray="5 4"/>'
        )
    end = base + 15 + 13 * deepest
    if chart.axis:
        out.append(
            text((LEFT + chart.width) / 2, end + 4, chart.axis, colour=PALE, anchor="middle")
        )
        end += 12
    height = max(end, HEIGHT - 40)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {chart.width} {height:.0f}" '
        f'width="{chart.width}" height="{height:.0f}" font-family="system-ui, DejaVu Sans, '
        f'sans-serif" role="img" aria-label="{html.escape(chart.title)}">\n'
        + "\n".join(out)
        + "\n</svg>"
    )
