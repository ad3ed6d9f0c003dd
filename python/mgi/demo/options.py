"""The command line of ``mgi demo``: parsed and checked before any work starts."""

from __future__ import annotations

import argparse
import dataclasses
from decimal import Decimal, InvalidOperation
from pathlib import Path

from mgi.cli import Parser

#: Smallest scale factor that still gives both tables some rows.
SMALLEST_SF = Decimal("0.0001")
#: More endpoints than this make no sense on one machine and would only exhaust its memory.
MOST_ENDPOINTS = 1024


@dataclasses.dataclass(frozen=True)
class Options:
    """What the user asked for."""

    sf: str
    """TPC-H scale factor as written in folder names: ``1``, ``0.1``, ``2.5``."""
    endpoints: int
    data: Path
    report: Path
    by_copy: bool
    seed: int
    repeat: int

    @property
    def scale(self) -> float:
        """The scale factor as a number (1 is about one gigabyte of TPC-H text)."""
        return float(self.sf)

    def command(self) -> str:
        """The command line that repeats this run."""
        words = ["mgi demo", f"--sf {self.sf}", f"--endpoints {self.endpoints}"]
        words.append(f"--seed {self.seed}")
        if self.repeat != 3:
            words.append(f"--repeat {self.repeat}")
        if self.by_copy:
            words.append("--by-copy")
        return " ".join(words)


def scale_factor(text: str) -> str:
    """Checks a TPC-H scale factor and returns its shortest spelling (``1.0`` becomes ``1``)."""
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        number = None
    if number is None or not number.is_finite() or number <= 0:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a scale factor: give a number above 0, such as 1 or 0.1"
        )
    if number < SMALLEST_SF:
        raise argparse.ArgumentTypeError(
            f"scale factor {text} is too small: {SMALLEST_SF} is the least that makes rows"
        )
    if number > 100_000:
        raise argparse.ArgumentTypeError(f"scale factor {text} is beyond TPC-H's largest, 100000")
    spelling = format(number, "f")
    return spelling.rstrip("0").rstrip(".") if "." in spelling else spelling


def _whole_number(text: str, what: str, least: int, most: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = None
    if number is None or not least <= number <= most:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not {what}: give a whole number from {least} to {most}"
        )
    return number


def endpoint_count(text: str) -> int:
    """Checks the number of endpoints."""
    return _whole_number(text, "a number of endpoints", 1, MOST_ENDPOINTS)


def repeat_count(text: str) -> int:
    """Checks how often every operation is timed."""
    return _whole_number(text, "a number of repeats", 1, 1000)


def seed_number(text: str) -> int:
    """Checks the seed of the random spreading."""
    return _whole_number(text, "a seed", 0, 2**63 - 1)


def add_tables(parser: argparse.ArgumentParser) -> None:
    """``--sf`` and ``--data``: which tables, and where they are kept."""
    parser.add_argument(
        "--sf", type=scale_factor, default="1", metavar="SF", help="TPC-H scale factor (1)"
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path("data"),
        metavar="DIR",
        help="folder that keeps generated tables between runs (data)",
    )


def parse(argv: list[str] | None) -> Options:
    """Parses ``argv``; on bad input prints the usage and the offender, and exits with 2."""
    parser = Parser(
        prog="mgi demo",
        description="Exchange, group-by and join of TPC-H tables over MGI endpoints, every "
        "result compared in full with DuckDB. Writes a report page.",
    )
    add_tables(parser)
    parser.add_argument(
        "--endpoints", type=endpoint_count, default=4, metavar="N", help="endpoints (4)"
    )
    parser.add_argument(
        "--report",
        type=Path,
        default=Path("demo-report.html"),
        metavar="FILE",
        help="the page to write (demo-report.html)",
    )
    parser.add_argument(
        "--by-copy",
        action="store_true",
        help="carry segments through the copy transport even where memory is shared",
    )
    parser.add_argument(
        "--seed", type=seed_number, default=1, metavar="N", help="seed of the spreading (1)"
    )
    parser.add_argument(
        "--repeat",
        type=repeat_count,
        default=3,
        metavar="N",
        help="timed runs of each operation, the median counts (3)",
    )
    given = parser.parse_args(argv)
    return Options(
        sf=given.sf,
        endpoints=given.endpoints,
        data=given.data,
        report=given.report,
        by_copy=given.by_copy,
        seed=given.seed,
        repeat=given.repeat,
    )
