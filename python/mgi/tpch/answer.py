"""A query's result in one place, and whether it is DuckDB's."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import polars as pl
import pyarrow as pa

from mgi.demo.verify import Verdict
from mgi.tpch.frame import Frame

#: Of a double's size, by which sums in another order may differ.
TOLERANCE = 1e-9
#: Differing rows that a verdict shows.
SHOWN = 5
_PLACE = "its place in the result"


def collect(frame: Frame) -> pa.Table:
    """All rows in their order, at the process of the first endpoint; elsewhere none."""
    cluster = frame.cluster
    if len(cluster.own) < len(cluster.endpoints):
        places = iter(cluster.own)

        def numbered(part: pl.LazyFrame) -> pl.LazyFrame:
            index = pl.int_range(pl.len(), dtype=pl.Int64) + (next(places) << 40)
            return part.with_columns(index.alias(_PLACE))

        frame = frame.local(numbered).gather().local(lambda part: part.sort(_PLACE).drop(_PLACE))
    table = pl.concat([part for part in frame.rows().parts if part is not None]).to_arrow()
    return as_decimals(table, frame.scales)


def as_decimals(table: pa.Table, scales: dict[str, int]) -> pa.Table:
    """Whole numbers of a unit as the decimals that they stand for."""
    for name, scale in scales.items():
        place = table.schema.get_field_index(name)
        if place < 0:
            continue
        whole = table.column(place).cast(pa.decimal128(38, 0)).combine_chunks()
        kind = pa.decimal128(38, scale)
        fixed = pa.Array.from_buffers(kind, len(whole), whole.buffers(), offset=whole.offset)
        table = table.set_column(place, name, fixed)
    return table


@dataclasses.dataclass(frozen=True)
class _Row:
    """Values as they are compared: texts as such, numbers as numbers."""

    values: tuple[Any, ...]

    def is_near(self, other: _Row) -> bool:
        return all(map(_are_near, self.values, other.values))

    def key(self) -> tuple[tuple[bool, str], ...]:
        """For an order in which near rows lie beside each other."""
        return tuple(
            (value is None, f"{value:.6e}" if isinstance(value, float) else str(value))
            for value in self.values
        )


def _are_near(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=TOLERANCE)
    return bool(one == other)


def _rows(table: pa.Table) -> list[_Row]:
    return [_Row(tuple(row.values())) for row in table.to_pylist()]


def compare(result: pa.Table, truth: pa.Table, sql: str) -> Verdict:
    """Every row and column. Rows that SQL's ORDER BY leaves in any order may come in any."""
    shape = (truth.num_rows, truth.num_columns)
    if result.column_names != truth.column_names:
        text = f"columns are {result.column_names}, not {truth.column_names}"
        return Verdict(False, *shape, [text])
    if result.num_rows != truth.num_rows:
        text = f"the result has {result.num_rows} rows, DuckDB's {truth.num_rows}"
        return Verdict(False, *shape, [text])
    ours, theirs = _rows(result), _rows(truth)
    keys = [truth.column_names.index(name) for name in order_of(sql)]
    differences = [
        f"row {place}: {one.values}, DuckDB has {other.values} in ORDER BY's order"
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True))
        if not all(_are_near(one.values[key], other.values[key]) for key in keys)
    ]
    if not differences:
        ours, theirs = sorted(ours, key=_Row.key), sorted(theirs, key=_Row.key)
        differences = [
            f"{one.values}, DuckDB has {other.values}"
            for one, other in zip(ours, theirs, strict=True)
            if not one.is_near(other)
        ]
    return Verdict(not differences, *shape, differences[:SHOWN])


def order_of(sql: str) -> list[str]:
    """The columns of a query's last ORDER BY."""
    found = re.search(r"\bORDER BY\b([^()]*)$", sql.strip(), re.IGNORECASE)
    if found is None:
        return []
    keys = re.split(r"\bLIMIT\b", found[1], flags=re.IGNORECASE)[0].split(",")
    return [key.split()[0].strip() for key in keys]
