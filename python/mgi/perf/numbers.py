"""Numbers as the command line takes them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable

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
