"""Few groups of rows on a GPU, folded by one kernel."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import cupy
import numpy as np
import polars as pl

import mgi
from mgi.tpch import kernels
from mgi.tpch.cpu_rows import WIDE, CpuRows
from mgi.tpch.gpu_code import NotOnGpu
from mgi.tpch.gpu_work import multiprocessors, pointers

if TYPE_CHECKING:
    from mgi.tpch.gpu_rows import GpuRows

#: Bytes of shared memory that a block's slots should take; that a kernel has without asking.
_GOOD_SLOTS, _FREE_SLOTS = 64 << 10, 48 << 10


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
        blocks = min(-(-rows.height // threads), 8 * multiprocessors(rows.gpu))
        condition = code.condition(rows.conditions)
        with cupy.cuda.Device(rows.gpu):
            self.out = cupy.empty((blocks, self.groups, self.width, 2), "u8")
            if blocks:
                text = kernels.fold_text(code.param_text, condition, group, self.groups, values)
                fold = kernels.module(text, rows.gpu).get_function("fold")
                if threads * slots > _FREE_SLOTS:
                    fold.max_dynamic_shared_size_bytes = threads * slots
                arguments = (*pointers(code.args), np.int64(rows.height), self.out)
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
