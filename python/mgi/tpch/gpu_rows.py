"""An endpoint's rows in a GPU's memory: local steps are kernels made for them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import cupy
import numpy as np
import polars as pl

import mgi
from mgi.gpu_table import GpuColumn
from mgi.tpch import cpu_rows, kernels
from mgi.tpch.cpu_rows import WIDE, CpuRows
from mgi.tpch.expr import Expr, col
from mgi.tpch.gpu_code import Code, NotOnGpu, c_type

#: Bytes of shared memory that a block's slots should take; that a kernel has without asking.
_GOOD_SLOTS, _FREE_SLOTS = 64 << 10, 48 << 10
#: From so many rows on the GPU finds the first ones.
_SORTED_ON_GPU = 100_000
#: Types in C++ and CuPy, and what the numbers stand for.
_OUTPUTS: dict[str, tuple[str, str, pl.DataType | None]] = {
    "bool": ("unsigned char", "u1", pl.Boolean()),
    "i64": ("i64", "i8", None),
    "double": ("double", "f8", None),
    "text8": ("unsigned long long", "u8", pl.String()),
}


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

    def first(self, names: Sequence[str], down: Sequence[bool], limit: int) -> Any:
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

    def begin(self) -> _Work:
        """Starts the kernels; where rows are left out, those that count."""
        return _Work(self)


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
        return cupy.asarray(column) if len(column) else cupy.empty(0, _type_string(column))
    except (AttributeError, TypeError, ValueError, BufferError):
        return column


def _type_string(column: GpuColumn) -> str:
    return str(column.__cuda_array_interface__["typestr"])


class _Work:
    """A filter and projection on its way."""

    def __init__(self, rows: GpuRows) -> None:
        self.rows = rows
        code = rows.code()
        self.kept: dict[str, Any] = {}
        """Columns that stay where they are."""
        self.means: dict[str, pl.DataType] = {}
        self.outputs: dict[str, tuple[str, str]] = {}
        """NumPy's type and the kernel's text of each new column."""
        declared = []
        for name, expression in rows.values.items():
            source = expression.args[0] if expression.how == "col" else None
            if source is not None and source in rows.means:
                self.means[name] = rows.means[source]
            if source is not None and not rows.conditions:
                self.kept[name] = rows.columns[source]
                continue
            value = code.value(expression)
            if value.type not in _OUTPUTS:
                raise NotOnGpu(f"'{name}' of {value.type}")
            kind, numpy_type, meaning = _OUTPUTS[value.type]
            if source is not None:
                array = rows.columns[source]
                kind, numpy_type = c_type(array), array.dtype.str
            elif meaning is not None:
                self.means[name] = meaning
            self.outputs[name] = (numpy_type, value.text)
            declared.append((kind, value.text))
        condition = code.condition(rows.conditions)
        self.args = code.args
        self.module = None
        if rows.conditions:
            text = kernels.filter_text(code.param_text, condition, declared)
        else:
            text = kernels.project_text(code.param_text, declared)
        if (rows.conditions or self.outputs) and rows.height:
            self.module = kernels.module(text, rows.gpu)
            self._start()

    def _start(self) -> None:
        rows = self.rows
        if not rows.conditions:
            return
        with cupy.cuda.Device(rows.gpu):
            tiles = -(-rows.height // kernels.TILE)
            self.words = cupy.empty(tiles * kernels.TILE // 32, "u4")
            counts = cupy.empty(tiles, "u4")
            mark = self.module.get_function("mark")
            size = (tiles,), (kernels.THREADS,)
            mark(*size, (*_pointers(self.args), np.int64(rows.height), self.words, counts))
            self.ends = cupy.cumsum(counts, dtype="i8")
            self.size = size

    def finish(self) -> GpuRows:
        rows = self.rows
        with cupy.cuda.Device(rows.gpu):
            height = rows.height
            if rows.conditions and height:
                height = int(self.ends[-1])
            made = {name: cupy.empty(height, kind) for name, (kind, _) in self.outputs.items()}
            if rows.conditions and height:
                compact = self.module.get_function("compact")
                compact(*self.size, (*_pointers(self.args), self.words, self.ends, *made.values()))
            elif made and height:
                blocks = min(-(-height // kernels.THREADS), 32 * _multiprocessors(rows.gpu))
                arguments = (*_pointers(self.args), np.int64(height), *made.values())
                self.module.get_function("project")((blocks,), (kernels.THREADS,), arguments)
        columns = {name: self.kept.get(name, made.get(name)) for name in rows.values}
        return GpuRows(rows.gpu, columns, self.means, height)


@dataclasses.dataclass
class GpuFold:
    """Groups of coded keys, of which there are few, folded by one kernel."""

    rows: GpuRows
    keys: list[str]
    sizes: list[int]
    folds: dict[str, tuple[str, str | None]]
    exact: set[str]

    on_gpu, ready = True, False

    def on_host(self) -> CpuRows:
        """By Polars."""
        return self.rows.on_host().fold(self.keys, self.folds, self.exact)

    def begin(self) -> GpuFold:
        """Starts the kernel."""
        rows, code = self.rows, self.rows.code()
        values = [("sum", "1")]
        for function, column in self.folds.values():
            if function == "count" and column is None:
                continue
            given = rows.values[str(column)]
            value = code.value(given)
            if function == "count":
                continue  # of values that are never null
            if given.how == "col" and given.args[0] in rows.means:
                raise NotOnGpu(f"{function} of {given}")
            if value.type not in ("i64", "bool") or function not in ("sum", "min", "max"):
                raise NotOnGpu(f"{function} of {value.type}")
            values.append((function, value.text))
        group = "0"
        for key, size in zip(self.keys, self.sizes, strict=True):
            group = f"({group} * {size} + (int){code.value(rows.values[key]).text})"
        self.groups = math.prod(self.sizes)
        self.width = len(values)
        slots = self.groups * self.width * 8
        threads = next((t for t in (256, 128, 64) if t * slots <= _GOOD_SLOTS), 32)
        blocks = min(-(-rows.height // threads), 8 * _multiprocessors(rows.gpu))
        condition = code.condition(rows.conditions)
        with cupy.cuda.Device(rows.gpu):
            self.out = cupy.empty((blocks, self.groups, self.width, 2), "u8")
            if blocks:
                text = kernels.fold_text(code.param_text, condition, group, self.groups, values)
                fold = kernels.module(text, rows.gpu).get_function("fold")
                if threads * slots > _FREE_SLOTS:
                    fold.max_dynamic_shared_size_bytes = threads * slots
                arguments = (*_pointers(code.args), np.int64(rows.height), self.out)
                fold((blocks,), (threads,), arguments, shared_mem=threads * slots)
        return self

    def finish(self) -> CpuRows:
        """What the blocks have, put together."""
        with cupy.cuda.Device(self.rows.gpu):
            out = self.out.get()
        counts = _sums(out[:, :, 0])
        there = [g for g in range(self.groups) if counts[g] or not self.keys]
        columns: dict[str, pl.Series] = {}
        step = self.groups
        for key, size in zip(self.keys, self.sizes, strict=True):
            step //= size
            kind = self.rows.means[self.rows.values[key].args[0]]
            texts = kind.categories  # type: ignore[attr-defined]
            columns[key] = pl.Series([texts[g // step % size] for g in there], dtype=pl.String)
        place = 1
        for name, (function, column) in self.folds.items():
            if function == "count":
                columns[name] = pl.Series([counts[g] for g in there], dtype=pl.Int64)
                continue
            found = out[:, :, place]
            place += 1
            if function == "sum":
                totals: list[int] = _sums(found)
            else:
                ends = found[:, :, 0].astype("i8")
                totals = getattr(ends, function)(axis=0).tolist() if len(ends) else [0]
            exact = function == "sum" and column in self.exact
            if not exact and any(not -(2**63) <= total < 2**63 for total in totals):
                raise mgi.Error(f"the sum '{name}' of a group does not fit 64 bits")
            kind = WIDE if exact else pl.Int64()
            columns[name] = pl.Series(
                [totals[g] if counts[g] else None for g in there], dtype=kind, strict=False
            )
        return CpuRows(pl.DataFrame(columns))


def _sums(words: np.ndarray[Any, Any]) -> list[int]:
    """Of numbers of 128 bits, of each group: blocks, groups, lower and upper half."""
    lower, upper = words[..., 0], words[..., 1].astype("i8")
    parts = (lower & 0xFFFFFFFF, lower >> 32, upper)
    low, middle, high = (part.astype("i8").sum(axis=0).tolist() for part in parts)
    return [a + (b << 32) + (c << 64) for a, b, c in zip(low, middle, high, strict=True)]


@dataclasses.dataclass
class GpuFirst:
    """The first rows in an order; all of few rows, which are sorted on the host."""

    rows: GpuRows
    names: list[str]
    down: list[bool]
    limit: int

    on_gpu, ready = True, False

    def on_host(self) -> CpuRows:
        """By Polars."""
        return self.rows.on_host().first(self.names, self.down, self.limit)

    def begin(self) -> _Work:
        """Starts what is still to be done to the rows."""
        self.work = self.rows.begin()
        return self  # type: ignore[return-value]

    def finish(self) -> CpuRows:
        rows = self.work.finish()
        plain = all(isinstance(column, cupy.ndarray) for column in rows.columns.values())
        if rows.height > max(_SORTED_ON_GPU, 4 * self.limit) and plain:
            rows = self._best(rows)
        return run([rows.on_host().first(self.names, self.down, self.limit)])[0]

    def _best(self, rows: GpuRows) -> GpuRows:
        """Those that the first key lets in; Polars looks at the others."""
        with cupy.cuda.Device(rows.gpu):
            key = rows.columns[self.names[0]].astype("i8")
            key = -key if self.down[0] else key
            last = cupy.partition(key, self.limit - 1)[self.limit - 1]
            chosen = cupy.flatnonzero(key <= last)
            columns = {name: column[chosen] for name, column in rows.columns.items()}
        return GpuRows(rows.gpu, columns, rows.means, len(chosen))


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


def _pointers(args: Sequence[Any]) -> Iterator[Any]:
    """As a kernel of CuPy's takes them."""
    for arg in args:
        if isinstance(arg, cupy.ndarray):
            yield arg
        else:
            interface = getattr(arg, "__cuda_array_interface__", None)
            yield np.uint64(arg if interface is None else interface["data"][0])


def _multiprocessors(gpu: int) -> int:
    return int(cupy.cuda.Device(gpu).attributes["MultiProcessorCount"])
