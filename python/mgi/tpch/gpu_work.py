"""A filter and projection of rows on a GPU, on its way: kernels that were started."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import cupy
import numpy as np
import polars as pl

from mgi.tpch import kernels
from mgi.tpch.gpu_code import NotOnGpu, c_type

if TYPE_CHECKING:
    from mgi.tpch.gpu_rows import GpuRows

#: Types in C++ and CuPy, and what the numbers stand for.
_OUTPUTS: dict[str, tuple[str, str, pl.DataType | None]] = {
    "bool": ("unsigned char", "u1", pl.Boolean()),
    "i64": ("i64", "i8", None),
    "double": ("double", "f8", None),
    "text8": ("unsigned long long", "u8", pl.String()),
}


class Work:
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
            mark(*size, (*pointers(self.args), np.int64(rows.height), self.words, counts))
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
                compact(*self.size, (*pointers(self.args), self.words, self.ends, *made.values()))
            elif made and height:
                blocks = min(-(-height // kernels.THREADS), 32 * multiprocessors(rows.gpu))
                arguments = (*pointers(self.args), np.int64(height), *made.values())
                self.module.get_function("project")((blocks,), (kernels.THREADS,), arguments)
        columns = {name: self.kept.get(name, made.get(name)) for name in rows.values}
        return dataclasses.replace(
            rows, columns=columns, means=self.means, height=height, conditions=[], values={}
        )


def pointers(args: Sequence[Any]) -> Iterator[Any]:
    """As a kernel of CuPy's takes them."""
    for arg in args:
        if isinstance(arg, cupy.ndarray):
            yield arg
        else:
            interface = getattr(arg, "__cuda_array_interface__", None)
            yield np.uint64(arg if interface is None else interface["data"][0])


def multiprocessors(gpu: int) -> int:
    """Of a GPU."""
    return int(cupy.cuda.Device(gpu).attributes["MultiProcessorCount"])
