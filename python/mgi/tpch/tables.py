"""TPC-H's tables: each process reads its endpoints' share, the columns that queries ask for."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from mgi.tpch.cpu_rows import CpuRows
from mgi.tpch.frame import Cluster, Frame, Step

#: Columns of few values, which are dictionary-coded.
CODED = {
    "l_returnflag",
    "l_linestatus",
    "l_shipinstruct",
    "l_shipmode",
    "o_orderstatus",
    "o_orderpriority",
    "c_mktsegment",
    "p_mfgr",
    "p_brand",
    "p_type",
    "p_container",
    "n_name",
    "r_name",
}


@dataclasses.dataclass
class _Table:
    """What was read of a table."""

    parts: list[Any]
    """The columns of each own endpoint: Polars' series by name, or rows on GPUs."""
    bytes: dict[str, int] = dataclasses.field(default_factory=dict)
    """Of each column in this process."""
    scales: dict[str, int] = dataclasses.field(default_factory=dict)


class Tables:
    """Columns in memory, once they were asked for; the rows of endpoint *i* of *n* are the *i*-th
    *n*-th of the file's.

    On CPUs whole numbers have 64 bits, as in DuckDB, and on GPUs as many as the file's greatest
    needs.
    """

    def __init__(self, cluster: Cluster, files: dict[str, Path], sf: float) -> None:
        self.cluster, self._files = cluster, files
        self.sf = sf
        """The scale factor."""
        self._tables: dict[str, _Table] = {}

    def read(self, table: str, *columns: str) -> Frame:
        """A table with these columns."""
        have = self._tables.setdefault(table, _Table([{} for _ in self.cluster.own]))
        missing = [name for name in columns if name not in have.bytes]
        if missing:
            self._load(table, missing, have)
        own: list[Any]
        if self.cluster.gpu_endpoints is None:
            own = [CpuRows(pl.DataFrame([part[name] for name in columns])) for part in have.parts]
        else:
            from mgi.tpch.gpu_rows import beside

            own = [beside([part[name] for name in columns]) for part in have.parts]
        scales = {name: scale for name, scale in have.scales.items() if name in columns}
        step = Step("read", table, rows=sum(part.height for part in own))
        step.bytes = sum(have.bytes[name] for name in columns)
        return Frame(self.cluster, own, scales, step)

    def _load(self, table: str, columns: list[str], have: _Table) -> None:
        source = pl.scan_parquet(self._files[table])
        schema = source.collect_schema()
        rows = source.select(pl.len()).collect().item()
        on_gpu = self.cluster.gpu_endpoints is not None
        widths = _widths(self._files[table]) if on_gpu else {}
        wanted = []
        for name in columns:
            column = pl.col(name)
            if isinstance(schema[name], pl.Decimal):
                have.scales[name] = schema[name].scale
                column = column.to_physical().cast(pl.Int64)
            if name in CODED and (on_gpu or self.cluster.flow is not None):
                texts = source.select(column.unique().sort()).collect()[name]
                column = column.cast(pl.Enum(texts))
            elif name in CODED:
                column = column.cast(pl.Categorical)
            wanted.append(column.cast(widths[name]) if name in widths else column)
        share = len(self.cluster.endpoints)
        for index, place in enumerate(self.cluster.own):
            first, end = (rows * (place + i) // share for i in (0, 1))
            found = source.slice(first, end - first).select(wanted).collect().rechunk()
            for name in columns:
                have.parts[index][name] = self._kept(found.select(name), index)
                size = int(found[name].estimated_size())
                have.bytes[name] = have.bytes.get(name, 0) + size

    def _kept(self, column: pl.DataFrame, index: int) -> Any:
        if self.cluster.gpu_endpoints is None:
            return column.to_series()
        from mgi.tpch.gpu_rows import GpuRows

        return GpuRows.uploaded(column, self.cluster.gpus[index])


def _widths(file: Path) -> dict[str, type[pl.DataType]]:
    """Of columns of whole numbers and decimals the narrowest type that holds all values.

    By the file's statistics, which all processes see alike.
    """
    about = pq.ParquetFile(file).metadata
    groups = [about.row_group(group) for group in range(about.num_row_groups)]
    found = {}
    for place, name in enumerate(about.schema.names):
        ends = [end for group in groups for end in _ends(group.column(place).statistics)]
        if ends and len(ends) == 2 * len(groups):
            fits = (kind for kind, most in _MOST.items() if -most <= min(ends) <= max(ends) <= most)
            found[name] = next(fits, pl.Int64)
    return found


def _ends(about: Any) -> list[int]:
    """The least and the greatest value of a column's part, if they are known and whole numbers."""
    whole = about is not None and about.logical_type.type in ("NONE", "INT", "DECIMAL")
    if not whole or not about.has_min_max or about.physical_type not in ("INT32", "INT64"):
        return []
    return [int(about.min_raw), int(about.max_raw)]


_MOST = {pl.Int8: 2**7 - 1, pl.Int16: 2**15 - 1, pl.Int32: 2**31 - 1}
