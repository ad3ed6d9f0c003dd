"""A channel's calls for kernels that Numba compiles.

    from mgi import numba as device

    @cuda.jit
    def kernel(channel, columns, rows):
        sent = device.send(channel, columns, 0, rows)
        ...

    groups = runtime.attach(endpoint, [channel], blocks=8, threads=256)
    views = mgi.column_views(table)
    kernel[8, 256, stream, groups.shared_bytes](
        groups.words(channel), device.address(views), len(table)
    )
    groups.launched(stream)

All threads of a block make each call alike, but for ``integer``, ``floating`` and ``valid``, which
any thread makes by itself. A block has one received batch at a time. Numba gives a block at most 48
KiB of shared memory: make channels with `tile_rows` that need no more.

``send``, ``push``, ``flush`` and ``recv`` return :data:`END` or an error (:func:`is_error`) as
negative numbers. Importing this needs Numba and its CUDA target; the first use compiles MGI's
device code with NVRTC, for the GPU that is the thread's then.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, types

from mgi.gpu_table import GpuArray
from mgi.nvrtc import compile_ptx

#: What ``recv`` returns when nothing will come any more.
END = -1

_SOURCE = "#include <mgi/device/c_api.hpp>\n"


@functools.cache
def _ptx(major: int, minor: int) -> bytes:
    return compile_ptx(_SOURCE, f"compute_{major}{minor}", ["-rdc=true"], "mgi.cu")


class _Calls(cuda.PTXSource):
    """The device code, compiled when a kernel is linked that calls it."""

    def __init__(self) -> None:
        super().__init__(b"", name="mgi.ptx")

    @property
    def data(self) -> bytes:
        """PTX for the current GPU."""
        return _ptx(*cuda.get_current_device().compute_capability)


_calls = _Calls()
_WORDS = (types.uint64,) * 5


def _declare(name: str, result: Any, *arguments: Any) -> Any:
    return cuda.declare_device(name, result(*_WORDS, *arguments), link=_calls)


_send = _declare("mgi_send", types.int64, types.uint64, types.uint64, types.uint64)
_push = _declare("mgi_push", types.int64)
_flush = _declare("mgi_flush", types.int64)
_recv = _declare("mgi_recv", types.int64)
_release = _declare("mgi_release", types.int64)
_integer = _declare("mgi_integer", types.int64, types.uint32, types.uint32)
_float = _declare("mgi_float", types.float64, types.uint32, types.uint32)
_valid = _declare("mgi_valid", types.int64, types.uint32, types.uint32)
_backoff = cuda.declare_device("mgi_backoff", types.int64(types.uint32), link=_calls)


@cuda.jit(device=True)
def send(channel: Any, columns: Any, first: Any, rows: Any) -> Any:
    """Offers rows [first, first + rows) of `columns` (:func:`address`); how many were accepted.

    Always a prefix; 0 is no room now. Negative: an error.
    """
    return _send(channel[0], channel[1], channel[2], channel[3], channel[4], columns, first, rows)


@cuda.jit(device=True)
def push(channel: Any) -> Any:
    """Publishes what is buffered: 0 is done, 1 is not yet, negative an error."""
    return _push(channel[0], channel[1], channel[2], channel[3], channel[4])


@cuda.jit(device=True)
def flush(channel: Any) -> Any:
    """The block sends no more: 0 is delivered, 1 is not yet: call it again. Negative: an error."""
    return _flush(channel[0], channel[1], channel[2], channel[3], channel[4])


@cuda.jit(device=True)
def recv(channel: Any) -> Any:
    """Rows of the batch that has come and must be released; 0 is nothing yet, END is the end."""
    return _recv(channel[0], channel[1], channel[2], channel[3], channel[4])


@cuda.jit(device=True)
def release(channel: Any) -> None:
    """The block is done with its batch."""
    _release(channel[0], channel[1], channel[2], channel[3], channel[4])


@cuda.jit(device=True)
def integer(channel: Any, column: Any, row: Any) -> Any:
    """A value of the block's batch, of a column of integers, dates or bool."""
    return _integer(channel[0], channel[1], channel[2], channel[3], channel[4], column, row)


@cuda.jit(device=True)
def floating(channel: Any, column: Any, row: Any) -> Any:
    """A value of the block's batch, of a column of floats."""
    return _float(channel[0], channel[1], channel[2], channel[3], channel[4], column, row)


@cuda.jit(device=True)
def valid(channel: Any, column: Any, row: Any) -> Any:
    """Whether a value of the block's batch is there: 0 is a null."""
    return _valid(channel[0], channel[1], channel[2], channel[3], channel[4], column, row)


@cuda.jit(device=True)
def backoff(tries: Any) -> None:
    """Lets the other side run while a block waits; `tries` counts what was in vain."""
    _backoff(tries)


@cuda.jit(device=True)
def is_error(result: Any) -> Any:
    """Whether a call failed: the channel says why on the host."""
    return result < END


def address(views: GpuArray) -> int:
    """`columns` of :func:`send`, of what :func:`mgi.column_views` returned; keep that meanwhile."""
    return views._address
