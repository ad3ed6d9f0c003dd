"""A query that MGI, DuckDB and Polars all run: its tables, and how each of them is asked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pyarrow as pa


@dataclasses.dataclass(frozen=True)
class Workload:
    """One query over named tables."""

    title: str
    """What it is, for people."""
    facts: dict[str, Any]
    """Fields of the JSON file that say which query it is."""
    tables: dict[str, pa.Table]
    """The rows, in the order in which all three have them."""
    call: Callable[..., list[Any]]
    """``call(tables, **options)`` runs it on MGI and returns a table per endpoint."""
    sql: str
    """The query for DuckDB."""
    polars: Callable[[dict[str, Any]], Any]
    """The query for Polars: from data frames by name to a lazy frame."""
    keys: list[str] | None
    """Columns of the result that identify a row; None: all columns together."""
    order: list[str] = dataclasses.field(default_factory=list)
    """Columns in whose order the result's rows are."""

    def rows(self) -> int:
        """Rows of all tables."""
        return sum(table.num_rows for table in self.tables.values())
