"""Numbers as people read them. Byte units are decimal: 1 GB is 10^9 bytes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

#: The sign between two counts, spelled by name because it looks like the letter x.
TIMES = "\N{MULTIPLICATION SIGN}"


def count(number: int) -> str:
    """6001215 -> ``6,001,215``."""
    return f"{number:,}"


def _three_digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def scale_of(number: float) -> tuple[float, str]:
    """The divisor and unit in which a byte count of this size reads well."""
    for divisor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= divisor:
            return divisor, unit
    return 1.0, "B"


def size(number: float) -> str:
    """Bytes with a unit: 1012873742 -> ``1.01 GB``."""
    divisor, unit = scale_of(number)
    return f"{number:.0f} B" if divisor == 1.0 else f"{_three_digits(number / divisor)} {unit}"


def scaled(number: float, divisor: float) -> str:
    """A byte count in a unit chosen beforehand, for a table whose cells share it."""
    if number == 0:
        return "0"
    return f"{number:.0f}" if divisor == 1.0 else _three_digits(number / divisor)


def seconds(value: float) -> str:
    """0.0421 -> ``42.1 ms``; 1.234 -> ``1.23 s``; 75 -> ``1 min 15 s``."""
    if value < 0.9995:
        return f"{_three_digits(value * 1e3)} ms"
    if value < 59.95:
        return f"{_three_digits(value)} s"
    whole = round(value)
    return f"{whole // 60} min {whole % 60} s"


def rate(number_of_bytes: float, value: float) -> str:
    """GB/s as a bare number with three digits."""
    return _three_digits(number_of_bytes / value / 1e9) if value > 0 else "-"


def gbps(value: float) -> str:
    """A link's capacity: ``20 GB/s``, ``1.5 GB/s``."""
    return f"{value:.3g} GB/s" if value < 1000 else f"{value:,.0f} GB/s"


def median(values: list[float]) -> float:
    """The middle of the timed runs."""
    return statistics.median(values)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table as lines, the first row above a rule: the first column begins, the others end, where
    their longest do; the last one is as long as it is."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
        lines.append("  ".join([*cells, row[-1]]))
    lines.insert(1, "-" * (sum(widths) + 2 * (len(widths) - 1)))
    return lines
