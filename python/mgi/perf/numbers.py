"""Numbers as the command line takes them, and the options that all patterns take alike."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable

_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}


def count(least: int) -> Callable[[str], int]:
    """Reads a whole number of at least `least`, which may end in k, m or g."""

    def read(text: str) -> int:
        match = re.fullmatch(r"(\d+)([kmg]?)", text.lower())
        if match is None:
            raise argparse.ArgumentTypeError(f"'{text}' is no whole number")
        number = int(match[1]) * _FACTORS[match[2]]
        if number < least:
            raise argparse.ArgumentTypeError(f"{number} is too small: give {least} or more")
        return number

    return read


def peers_among(known: Iterable[str]) -> Callable[[str], list[str]]:
    """Reads names of peers with commas between, each of which must be known; each counts once."""

    def read(text: str) -> list[str]:
        names = [word for word in text.split(",") if word]
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(
                    f"there is no peer '{name}'; give some of {', '.join(known)}"
                )
        return list(dict.fromkeys(names))

    return read


def add_number(
    parser: argparse.ArgumentParser,
    name: str,
    what: str,
    default: int | None = None,
    *,
    least: int = 1,
    metavar: str = "N",
) -> None:
    """Adds an option that takes a whole number of at least `least`; `what` is its help."""
    parser.add_argument(name, type=count(least), default=default, metavar=metavar, help=what)


def add_repeat(parser: argparse.ArgumentParser) -> None:
    """Adds how often a measurement is repeated."""
    add_number(parser, "--repeat", "runs; the median counts", 5)
