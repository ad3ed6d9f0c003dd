"""DuckDB and Polars beside MGI: their own in-memory tables, all cores, their best settings."""

from __future__ import annotations

import importlib
import os
import sys
import time
from typing import Any

import pyarrow as pa

from mgi.demo.truth import threads
from mgi.errors import NotFound
from mgi.perf.workload import Workload


def check_packages() -> None:
    """Raises an error that names what is not installed."""
    missing = []
    for package in ("numpy", "pyarrow", "duckdb", "polars"):
        try:
            importlib.import_module(package)
        except ModuleNotFoundError:
            missing.append(package)
    if missing:
        raise NotFound(
            f"the comparison needs the Python package{'s' if len(missing) > 1 else ''} "
            f"{', '.join(missing)}: run '{sys.executable} -m pip install {' '.join(missing)}'"
        )


class DuckDB:
    """Its own tables, filled before any timing, and no promise to keep the order of rows."""

    name = "DuckDB"

    def __init__(self, workload: Workload) -> None:
        from mgi.demo.truth import Stopwatch

        self._query = workload.sql
        self._stopwatch = Stopwatch({name: [rows] for name, rows in workload.tables.items()})

    def run(self) -> float:
        """Seconds of one run, its result an Arrow table."""
        return self._stopwatch.seconds([self._query])

    def answer(self) -> pa.Table:
        """The query's result."""
        return self._stopwatch.answer(self._query)


class Polars:
    """Data frames made before any timing; whichever of its two engines is faster for the query."""

    name = "Polars"
    ENGINES = ("in-memory", "streaming")

    def __init__(self, workload: Workload) -> None:
        # Read once, when Polars is imported.
        os.environ.setdefault("POLARS_MAX_THREADS", str(threads()))
        import polars

        frames = {name: polars.from_arrow(rows) for name, rows in workload.tables.items()}
        self._frames = frames
        self._query = workload.polars
        self.engine = self.ENGINES[0]
        self.engine = min(self.ENGINES, key=self._best_of_two)

    def run(self) -> float:
        """Seconds of one run, its result a data frame."""
        return self._seconds(self.engine)

    def _best_of_two(self, engine: str) -> float:
        return min(self._seconds(engine) for _ in range(2))

    def _seconds(self, engine: str) -> float:
        frames = {name: frame.lazy() for name, frame in self._frames.items()}
        start = time.perf_counter()
        result: Any = self._query(frames).collect(engine=engine)
        seconds = time.perf_counter() - start
        del result
        return seconds
