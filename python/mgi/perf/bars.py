"""A chart of bars, one below the other, as a picture (SVG)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from mgi.demo.svg import label, tag, text_width
from mgi.errors import InvalidArgument


def check_folder(options: argparse.Namespace) -> None:
    """Refuses ``--chart`` in a folder that is not there, before anything is measured."""
    if options.chart is not None and not options.chart.parent.is_dir():
        raise InvalidArgument(f"--chart {options.chart}: there is no such folder")


def write(options: argparse.Namespace, picture: str) -> None:
    """Writes what ``--chart`` names."""
    try:
        options.chart.write_text(picture)
    except OSError as error:
        raise InvalidArgument(f"--chart {options.chart}: {error.strerror}") from error


def chart(title: str, bars: Sequence[tuple[str, float, str, str]]) -> str:
    """The picture: of each bar its name, its length, what is written behind it, and its colour."""
    left = max((text_width(name) for name, *_ in bars), default=0) + 16
    most = max((length for _, length, *_ in bars), default=1)
    width, step, top = max(left + 460, text_width(title) + 24), 26, 44
    drawn = [label(12, 24, title, anchor="start")]
    for number, (name, length, text, colour) in enumerate(bars):
        y = top + step * number
        long = 380 * length / most
        drawn += [
            label(left - 8, y + 14, name, anchor="end"),
            tag("rect", x=float(left), y=float(y), width=long, height="18", rx="3", fill=colour),
            label(left + long + 6, y + 14, text, anchor="start"),
        ]
    height = top + step * len(bars) + 10
    ground = tag("rect", width="100%", height="100%", fill="#ffffff")
    return (
        tag(
            "svg",
            ground + "".join(drawn),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width:.0f} {height:.0f}",
            width=f"{width:.0f}",
            height=f"{height:.0f}",
            font_family="sans-serif",
            font_size="13",
        )
        + "\n"
    )
