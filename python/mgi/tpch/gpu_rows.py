"""An endpoint's rows in a GPU's memory: local steps are kernels made for them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import cupy
import polars as pl

import mgi
from mgi.gpu_table import GpuColumn
from mgi.tpch import cpu_rows
from mgi.tpch.cpu_rows import CpuRows
from mgi.tpch.expr import Expr, col
from mgi.tpch.gpu_code import Code, NotOnGpu
from mgi.tpch.gpu_first import GpuFirst
from mgi.tpch.gpu_fold import GpuFold
from mgi.tpch.gpu_work import Work


@dataclasses.dataclass
class GpuRows:
    """Rows with what is to be done to them, which :func:`run` does.

    All columns are plain numbers, which `means` explains, but texts, and what has nulls.
    """

    gpu: int
    columns: dict[str, Any]
    """Arrays of CuPy, and columns of MGI's tables that are none."""
    means: dict[str, pl.DataType]
    """By the column's name Date, Boolean, Enum, whose order is that of its texts, or String, of at
    most eight bytes in a number."""
    height: int
    conditions: list[Expr] = dataclasses.field(default_factory=list)
    values: dict[str, Expr] = dataclasses.field(default_factory=dict)
    """Of what is columns in the end."""

    on_gpu = True

    def __post_init__(self) -> None:
        self.values = self.values or {name: col(name) for name in self.columns}

    @classmethod
    def of(cls, table: mgi.GpuTable, gpu: int, means: Mapping[str, pl.DataType]) -> GpuRows:
        """A table of MGI's, whose columns mean what those of the same names meant."""
        with cupy.cuda.Device(gpu):
            columns = {name: _plain(column) for name, column in table.columns.items()}
        dates = {name: pl.Date() for name, one in table.columns.items() if "date32" in one.type}
        known = {name: means[name] for name in columns if name in means}
        return cls(gpu, columns, known | dates, len(table))

    @classmethod
    def uploaded(cls, rows: pl.DataFrame, gpu: int) -> GpuRows:
        """A copy of the host's rows; Enums are numbered in their order."""
        columns: dict[str, Any] = {}
        means: dict[str, pl.DataType] = {}
        with cupy.cuda.Device(gpu) as device:
            for name, values in zip(rows.columns, rows.iter_columns(), strict=True):
                nulls = values.null_count() > 0
                if nulls or values.dtype in (pl.String, pl.Boolean):
                    copied = CpuRows(rows.select(name)).table_for_gpus
                    columns[name] = mgi.GpuTable.from_host(copied, f"cuda:{gpu}")[name]
                    continue
                if isinstance(values.dtype, pl.Enum | pl.Date):
                    means[name] = values.dtype
                columns[name] = cupy.asarray(values.to_physical().to_numpy())
            device.synchronize()  # MGI does not wait for a copy, and the host's may go
        return cls(gpu, columns, means, rows.height)

    @property
    def ready(self) -> bool:
        """Nothing is to be done to them, but to leave columns away."""
        return not self.conditions and all(
            value.how == "col" and value.args[0] == name for name, value in self.values.items()
        )

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return list(self.values)

    @property
    def table_for_gpus(self) -> mgi.GpuTable:
        """What MGI takes."""
        return mgi.GpuTable({name: self.columns[name] for name in self.values})

    def where(self, conditions: Sequence[Expr]) -> GpuRows:
        """Rows for which all of these hold."""
        more = [condition.over(self.values) for condition in conditions]
        return dataclasses.replace(self, conditions=self.conditions + more)

    def select(self, values: Mapping[str, Expr]) -> GpuRows:
        """These values under their names."""
        chosen = {name: value.over(self.values) for name, value in values.items()}
        return dataclasses.replace(self, values=chosen)

    def fold(
        self, keys: Sequence[str], folds: Mapping[str, tuple[str, str | None]], exact: set[str]
    ) -> GpuFold | None:
        """A row for each group, as of :meth:`CpuRows.fold`; None where keys are not coded."""
        sizes = []
        for key in keys:
            value = self.values[key]
            kind = self.means.get(value.args[0]) if value.how == "col" else None
            if not isinstance(kind, pl.Enum):
                return None
            sizes.append(len(kind.categories))
        most = cupy.cuda.Device(self.gpu).attributes["MaxSharedMemoryPerBlockOptin"]
        if math.prod(sizes) * (len(folds) + 1) * 8 * 32 > most:
            return None
        return GpuFold(self, list(keys), sizes, dict(folds), exact)

    def first(self, names: Sequence[str], down: Sequence[bool], limit: int) -> GpuFirst:
        """The first rows in such an order, which come to the host."""
        return GpuFirst(self, list(names), list(down), limit)

    def on_host(self) -> CpuRows:
        """A copy in the host's memory; Polars does there what is still to be done."""
        used = set().union(*(one.names() for one in [*self.values.values(), *self.conditions]))
        kept = {name: self.columns[name] for name in self.columns if name in used}
        if not kept:
            name, column = next(iter(self.columns.items()))
            kept = {name: column}
        copied = pl.DataFrame(mgi.GpuTable(kept).to_arrow())
        casts = [
            # As wide as kernels compute.
            _meaning(name, self.means.get(name, pl.Int64()))
            for name in kept
            if name in self.means or copied[name].dtype.is_integer()
        ]
        rows = CpuRows(copied.with_columns(casts))
        return (rows.where(self.conditions) if self.conditions else rows).select(self.values)

    def meanings(self) -> dict[str, pl.DataType]:
        """What the columns' numbers stand for, of rows that are ready."""
        return {name: self.means[name] for name in self.values if name in self.means}

    def code(self) -> Code:
        """For a kernel over these rows."""
        return Code(self.columns, self.means, self.gpu)

    def begin(self) -> Work:
        """Starts the kernels; where rows are left out, those that count."""
        return Work(self)


def beside(parts: Sequence[GpuRows]) -> GpuRows:
    """The columns of rows that are equally many."""
    columns: dict[str, Any] = {}
    means: dict[str, pl.DataType] = {}
    for part in parts:
        columns |= part.columns
        means |= part.means
    return GpuRows(parts[0].gpu, columns, means, parts[0].height)


def _meaning(name: str, kind: pl.DataType) -> pl.Expr:
    """What a column's numbers stand for."""
    if kind == pl.String:
        return pl.col(name).map_batches(_unpacked, return_dtype=pl.String)
    return pl.col(name).cat.to(kind) if isinstance(kind, pl.Enum) else pl.col(name).cast(kind)


def _unpacked(packed: pl.Series) -> pl.Series:
    """Texts of at most eight bytes, of which the first are a number's highest."""
    texts = [bytes(text).decode() for text in packed.to_numpy().astype(">u8").view("S8")]
    return pl.Series(packed.name, texts, dtype=pl.String)


def _plain(column: GpuColumn) -> Any:
    """An array, where the column is one, in all parts of the result."""
    if column._may_hold_nulls():
        return column
    try:
        kind = column.__cuda_array_interface__["typestr"]
        return cupy.asarray(column) if len(column) else cupy.empty(0, kind)
    except (AttributeError, TypeError, ValueError, BufferError):
        return column


def run(parts: Sequence[Any]) -> list[Any]:
    """Does what is to be done to the rows of all endpoints: their GPUs at once, or, where no kernel
    can be made of it, Polars on the host."""
    if not all(part.on_gpu for part in parts):
        return list(cpu_rows.run([part.on_host() for part in parts]))
    try:
        started = [part.begin() for part in parts]
    except NotOnGpu:
        return run([part.on_host() for part in parts])
    done = [one.finish() for one in started]
    for part in done:
        if part.on_gpu:
            cupy.cuda.Device(part.gpu).synchronize()
    return done
