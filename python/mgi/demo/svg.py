"""Small helpers for pictures written as text: escaping, tags, the room a label takes."""

from __future__ import annotations

import html


def escape(text: object) -> str:
    """Text made safe inside HTML and SVG, attributes included."""
    return html.escape(str(text), quote=True)


def number(value: float) -> str:
    """A coordinate, as short as a tenth of a pixel allows."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def tag(name: str, content: str | None = None, **attributes: object) -> str:
    """One element. ``class_`` becomes ``class``, ``text_anchor`` becomes ``text-anchor``."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="'
        f'{number(value) if isinstance(value, float) else escape(value)}"'
        for key, value in attributes.items()
    )
    return f"<{name}{written}/>" if content is None else f"<{name}{written}>{content}</{name}>"


def label(x: float, y: float, content: object, class_: str = "", anchor: str = "middle") -> str:
    """A text element; `content` is escaped."""
    return tag("text", escape(content), x=float(x), y=float(y), class_=class_, text_anchor=anchor)


def text_width(content: object, size: float = 13.0) -> float:
    """Pixels that a text takes at most, in any sans-serif font: guessed on the safe side."""
    return len(str(content)) * size * 0.62


def picture(width: float, height: float, title: str, content: str, shrink: float = 0.8) -> str:
    """An inline SVG in a box of its own, which scrolls where the page is too narrow for it.

    It shrinks with the page down to `shrink` of its natural size, so that its text stays legible.
    """
    style = f"width:{width:.0f}px;max-width:100%;min-width:{width * shrink:.0f}px"
    drawn = tag(
        "svg",
        tag("title", escape(title)) + content,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        role="img",
        style=style,
    )
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(title)}">{drawn}</div>'
    )
