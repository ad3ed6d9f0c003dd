"""TPC-H's queries, a file each: what it asks in SQL, and a physical plan for it."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

#: Of MGI's paper, and Q1, which its load-balancing flow is about.
PAPER = (1, 3, 5, 10, 12, 14, 19)


def numbers() -> tuple[int, ...]:
    """All queries that there are."""
    names = (path.stem for path in Path(__file__).parent.glob("q[0-9][0-9].py"))
    return tuple(sorted(int(name[1:]) for name in names))


def query(number: int) -> ModuleType:
    """A query's module, with `SQL`, in which ``{sf}`` stands for the scale factor, and
    `plan(tables)`."""
    return importlib.import_module(f"mgi.tpch.queries.q{number:02}")
