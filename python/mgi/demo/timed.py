"""Runs by turns with DuckDB, and what differs from it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from mgi.demo import units

if TYPE_CHECKING:
    from mgi.demo.progress import Progress
    from mgi.demo.verify import Verdict


class Timed:
    """Of what was run several times, by turns with DuckDB."""

    seconds: list[float]
    """MGI's timed runs: from the call to all results being Arrow tables."""
    duckdb_seconds: list[float]

    @property
    def median(self) -> float:
        """MGI's seconds."""
        return units.median(self.seconds)

    @property
    def duckdb_median(self) -> float:
        """DuckDB's seconds."""
        return units.median(self.duckdb_seconds)


def complain(name: str, verdict: Verdict, progress: Progress) -> None:
    """Prints what differs to the errors."""
    print(f"{name} differs from DuckDB:", file=sys.stderr)
    for difference in verdict.differences:
        print(f"  {progress.plain(difference)}", file=sys.stderr)
