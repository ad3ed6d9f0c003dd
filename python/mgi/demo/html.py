"""What pages are made of: the document around them, sections, tables."""

from __future__ import annotations

from collections.abc import Sequence

from mgi.demo.style import CSS
from mgi.demo.svg import escape, tag


def document(title: str, body: str, css: str = "") -> str:
    """A whole page without scripts; `css` comes behind the demo's own."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{CSS}{css}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def section(title: str, content: str) -> str:
    """A part of a page; `content` is HTML."""
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def cards(names: Sequence[str], rows: Sequence[Sequence[tuple[str, str]]]) -> str:
    """A table that becomes cards where the page is narrow; a cell is its class and its text.

    All columns but the first and the last hold numbers.
    """
    body = "".join(
        "<tr>"
        + "".join(
            f'<td class="{class_}" data-label="{name}">{escape(text)}</td>'
            for name, (class_, text) in zip(names, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    head = "".join(
        f'<th class="{"number" if 0 < place < len(names) - 1 else ""}">{name}</th>'
        for place, name in enumerate(names)
    )
    return (
        f'<div class="scroll" tabindex="0"><table class="cards"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def bar(who: str, drawn: str, figure: str) -> str:
    """A name, a picture as wide as there is room, and a figure, which is HTML."""
    image = tag("svg", drawn, width="100%", height="28", role="img")
    return (
        f'<div class="bar"><span class="who">{escape(who)}</span>{image}'
        f'<span class="figure">{figure}</span></div>'
    )
