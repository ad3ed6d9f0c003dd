"""An endpoint's rows in the host's memory, and what Polars does with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from mgi.tpch.expr import Expr, to_polars

#: Whole numbers of 128 bits.
WIDE = pl.Decimal(38, 0)


class CpuRows:
    """Rows with what is to be done to them, which :func:`run` does."""

    on_gpu = False

    def __init__(self, rows: pl.LazyFrame | pl.DataFrame) -> None:
        self._rows = rows

    @classmethod
    def of(cls, table: Any) -> CpuRows:
        """A table that speaks Arrow."""
        return cls(pl.DataFrame(table))

    @property
    def ready(self) -> bool:
        """Nothing is to be done to them."""
        return isinstance(self._rows, pl.DataFrame)

    @property
    def rows(self) -> pl.LazyFrame:
        """As Polars takes them."""
        return self._rows.lazy()

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return self._rows.collect_schema().names()

    @property
    def height(self) -> int:
        """Number of rows, which are there already."""
        return self.table.height

    @property
    def table(self) -> pl.DataFrame:
        """What MGI takes."""
        return self._rows if isinstance(self._rows, pl.DataFrame) else self._rows.collect()

    @property
    def table_for_gpus(self) -> pa.Table:
        """The same, whose columns say that they hold no nulls where they do not."""
        found = self.table.to_arrow()
        fields = [
            field.with_nullable(found[name].null_count > 0)
            for name, field in zip(found.column_names, found.schema, strict=True)
        ]
        return found.cast(pa.schema(fields))

    def where(self, conditions: Sequence[Expr]) -> CpuRows:
        """Rows for which all of these hold."""
        return CpuRows(self.rows.filter(*map(to_polars, conditions)))

    def select(self, values: Mapping[str, Expr]) -> CpuRows:
        """These values under their names."""
        return CpuRows(
            self.rows.select([to_polars(value).alias(name) for name, value in values.items()])
        )

    def fold(
        self, keys: Sequence[str], folds: Mapping[str, tuple[str, str | None]], exact: set[str]
    ) -> CpuRows:
        """A row for each group, of `folds`: function and column by the result's name.

        Sums of the `exact` columns have 128 bits. Without keys there is a row also of no rows.
        """
        values = [_folded(name, *fold, fold[1] in exact) for name, fold in folds.items()]
        return CpuRows(self.rows.group_by(keys).agg(values) if keys else self.rows.select(values))

    def first(self, names: Sequence[str], down: Sequence[bool], limit: int) -> CpuRows:
        """The first rows in such an order."""
        return CpuRows(self.rows.sort(names, descending=list(down)).head(limit))

    def on_host(self) -> CpuRows:
        """Itself."""
        return self


def _folded(name: str, function: str, column: str | None, exact: bool) -> pl.Expr:
    """An aggregate; null where there are no values."""
    if function == "count":
        rows = pl.len() if column is None else pl.col(column).count()
        return rows.cast(pl.Int64).alias(name)
    value = pl.col(column)
    if function == "sum" and exact:
        value = value.cast(pl.Int128).sum().cast(WIDE)
    else:
        value = getattr(value, function)()
    return pl.when(pl.col(column).count() > 0).then(value).alias(name)


def run(parts: Sequence[CpuRows]) -> list[CpuRows]:
    """Does what is to be done to the rows of all endpoints, in Polars' threads."""
    return [CpuRows(rows) for rows in pl.collect_all([part.rows for part in parts])]
