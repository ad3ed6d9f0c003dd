"""The first rows in an order of rows on a GPU."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import cupy

from mgi.tpch import cpu_rows
from mgi.tpch.cpu_rows import CpuRows

if TYPE_CHECKING:
    from mgi.tpch.gpu_rows import GpuRows

#: From so many rows on the GPU finds the first ones.
_SORTED_ON_GPU = 100_000


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

    def begin(self) -> GpuFirst:
        """Starts what is still to be done to the rows."""
        self.work = self.rows.begin()
        return self

    def finish(self) -> CpuRows:
        rows = self.work.finish()
        plain = all(isinstance(column, cupy.ndarray) for column in rows.columns.values())
        if rows.height > max(_SORTED_ON_GPU, 4 * self.limit) and plain:
            rows = self._best(rows)
        return cpu_rows.run([rows.on_host().first(self.names, self.down, self.limit)])[0]

    def _best(self, rows: GpuRows) -> GpuRows:
        """Those that the first key lets in; Polars looks at the others."""
        with cupy.cuda.Device(rows.gpu):
            key = rows.columns[self.names[0]].astype("i8")
            key = -key if self.down[0] else key
            last = cupy.partition(key, self.limit - 1)[self.limit - 1]
            chosen = cupy.flatnonzero(key <= last)
            columns = {name: column[chosen] for name, column in rows.columns.items()}
        return dataclasses.replace(rows, columns=columns, height=len(chosen), values={})
