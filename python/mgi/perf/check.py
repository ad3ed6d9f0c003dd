"""Whether MGI's result is DuckDB's, every row and column."""

from __future__ import annotations

import dataclasses

import pyarrow as pa

from mgi.demo.verify import Verdict, compare

#: Sums of doubles depend on the order of their rows.
TOLERANCE = 1e-9


def verify(
    parts: list[pa.Table],
    truth: pa.Table,
    keys: list[str] | None,
    order: list[str] | None = None,
) -> Verdict:
    """Compares the rows of all `parts` with `truth`'s.

    `keys` identify a row; the other columns' doubles may differ by rounding. Without `keys` whole
    rows are compared, to the bit. The columns of `order` must come in the same order of rows, too.
    """
    verdict = _compared(parts, truth, keys)
    if not verdict.ok or not order:
        return verdict
    if pa.concat_tables(parts).select(order).equals(truth.select(order)):
        return verdict
    wrong = [f"the rows are not in the order of {', '.join(order)}"]
    return dataclasses.replace(verdict, ok=False, differences=wrong)


def _compared(parts: list[pa.Table], truth: pa.Table, keys: list[str] | None) -> Verdict:
    if keys is not None:
        return compare(parts, truth, keys, tolerance=TOLERANCE)
    return compare([_bits(part) for part in parts], _bits(truth), truth.column_names)


def _bits(table: pa.Table) -> pa.Table:
    """Numbers as integers: doubles by their bits, decimals by their digits."""
    for place, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            column = _viewed(table.column(place), pa.int64())
        elif pa.types.is_decimal(field.type):
            digits = pa.decimal128(18, 0)
            scaled = _viewed(table.column(place), pa.decimal128(field.type.precision, 0))
            column = scaled.cast(digits).cast(pa.int64())
        else:
            continue
        table = table.set_column(place, pa.field(field.name, pa.int64()), column)
    return table


def _viewed(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([chunk.view(type_) for chunk in column.chunks], type=type_)
