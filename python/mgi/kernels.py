"""Kernels of one's own on GPUs: what CuPy, Numba and others start is given groups and channels."""

from __future__ import annotations

import functools
import os
import shutil
import site
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgi import _mgi
from mgi.errors import InvalidArgument, NotFound
from mgi.gpu_table import GpuArray, GpuTable, gpu_table_of

if TYPE_CHECKING:
    import numpy as np

    from mgi.channel import Channel


class KernelGroups:
    """Thread blocks of kernels that you start yourself; :meth:`Runtime.attach` makes them.

    Launch the kernel, then call :meth:`launched` at once. C++ kernels (CuPy's RawModule) take
    :attr:`arg` as ``mgi::device::KernelGroups`` and :meth:`channel_arg` as
    ``mgi::device::Channel``, both by value; Numba's take :meth:`words`.

    The channels fail if this goes before the launch was told of. Until it is, the blocks are not
    there: whom they keep waiting fails after the channel's ``gone_limit``.
    """

    def __init__(self, native: _mgi.Attachment, device: str) -> None:
        self._native = native
        self._device = device

    @property
    def device(self) -> str:
        """Where the kernels run: ``cuda:0``."""
        return self._device

    @property
    def blocks(self) -> int:
        """Thread blocks of all kernels together."""
        return self._native.numbers()[3]

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory that every block must be launched with."""
        return self._native.numbers()[4]

    @property
    def arg(self) -> np.ndarray[Any, Any]:
        """The C++ kernel's ``mgi::device::KernelGroups``, for CuPy: a struct that goes by value."""
        return self._struct(self._native.numbers(), ("u8", "u4", "u4", "u4", "u4"))

    def part(self, first: int, count: int) -> np.ndarray[Any, Any]:
        """The same for one of several kernels, which has blocks [`first`, `first` + `count`)."""
        number, _, _, blocks, shared = self._native.numbers()
        if first < 0 or count <= 0 or first + count > blocks:
            raise InvalidArgument(
                f"blocks {first} to {first + count} of {blocks}: they are not all there"
            )
        return self._struct((number, first, count, blocks, shared), ("u8", "u4", "u4", "u4", "u4"))

    def channel_arg(self, channel: Channel) -> np.ndarray[Any, Any]:
        """The C++ kernel's ``mgi::device::Channel``, for CuPy: a struct that goes by value."""
        return self._struct(self._native.channel_numbers(channel._native), ("u8", "u4", "u4"))

    def words(self, channel: Channel) -> tuple[int, int, int, int, int]:
        """Groups and channel as five whole numbers, for Numba (:mod:`mgi.numba`)."""
        number, first, count, blocks, shared = self._native.numbers()
        state, source, destination = self._native.channel_numbers(channel._native)
        return (
            number,
            first | count << 32,
            blocks | shared << 32,
            state,
            _ends(source, destination),
        )

    def launched(self, stream: Any = None, first: int = 0, count: int | None = None) -> None:
        """To be called as soon as a kernel with these blocks was launched in `stream`.

        By the thread that launched it, before anything else is put into the stream. A stream is
        CuPy's, PyTorch's, Numba's, anything with ``__cuda_stream__``, its handle as a number, or
        None for the default stream. Never waits.
        """
        self._native.launched(stream_handle(stream), first, count)

    def abandon(self) -> None:
        """The kernel never comes, since its launch failed."""
        self._native.abandon()

    def wait(self, timeout: float | None = None) -> None:
        """Waits until the kernels are over.

        Raises what they failed with: :class:`mgi.GroupFailed` where one has ended without having
        flushed, or has faulted. :class:`mgi.Timeout` leaves them running. Ctrl-C fails the
        channels, so that the kernels' calls end.
        """
        self._native.wait(timeout)

    @property
    def done(self) -> bool:
        """Whether all kernels are over."""
        return self._native.done()

    @staticmethod
    def _struct(values: tuple[int, ...], kinds: tuple[str, ...]) -> np.ndarray[Any, Any]:
        from mgi.arrays import _numpy

        numpy = _numpy()
        dtype = numpy.dtype([(f"f{i}", kind) for i, kind in enumerate(kinds)])
        return numpy.array(values, dtype)

    def __repr__(self) -> str:
        return f"<mgi.KernelGroups of {self.blocks} blocks on {self._device}>"


def _ends(source: int, destination: int) -> int:
    """One number of 64 bits with a sign, which Numba takes for an int64."""
    both = source | destination << 32
    return both - (1 << 64) if both >> 63 else both


def stream_handle(stream: Any) -> int:
    """A stream's handle, of whatever library it is."""
    if stream is None:
        return 0
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        found = protocol() if callable(protocol) else protocol
        return int(found[1])
    for name in ("ptr", "cuda_stream", "handle"):
        handle = getattr(stream, name, None)
        if handle is None:
            continue
        handle = getattr(handle, "value", handle)
        return int(handle or 0)
    raise InvalidArgument(
        f"stream is {stream!r}: give a stream of CuPy, PyTorch or Numba, its handle, or None"
    )


def column_views(table: Any) -> GpuArray:
    """What a kernel sends from: a ``mgi::device::ColumnView`` for each column, in the GPU's memory.

    `table` is one on a GPU, its columns in the order of the channel's. Both are kept alive by the
    array that is returned; to be made before kernels run.
    """
    from mgi.arrays import _numpy

    numpy = _numpy()
    native = gpu_table_of(table)
    words: list[int] = []
    for index in range(len(native.schema.widths())):
        values, validity, offset = native.column(index)
        words += [values, validity, 0, 0, offset, 0]  # no characters; Plain
    host = {"word": numpy.array(words, "u8")}
    copied = GpuTable.from_host(host, f"cuda:{native.gpu}")["word"].values
    copied._owner = (copied._owner, native)
    return copied


def include_dirs() -> list[str]:
    """Folders for the compiler of kernels: MGI's device headers and those of CCCL (libcu++).

    For NVRTC through CuPy: ``options=("-std=c++20", *(f"-I{d}" for d in mgi.include_dirs()))``.
    Raises :class:`mgi.NotFound` where there is no CCCL 3.
    """
    return [str(_headers()), str(_cccl())]


def _headers() -> Path:
    here = Path(__file__).resolve().parent
    for folder in (here / "include", here.parents[1] / "include"):
        if (folder / "mgi" / "device.hpp").exists():
            return folder
    raise NotFound(f"this installation has no headers in {here / 'include'}: install it again")


def _candidates() -> Iterator[Path]:
    told = os.environ.get("MGI_CCCL_INCLUDE_DIR")
    if told:
        yield Path(told)
    roots = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT")]
    nvcc = shutil.which("nvcc")
    if nvcc:
        roots.append(str(Path(nvcc).resolve().parents[1]))
    for root in (*filter(None, roots), "/usr/local/cuda"):
        yield Path(root) / "include" / "cccl"
        yield Path(root) / "include"
    for folder in nvidia_packages():
        yield folder / "include" / "cccl"
        yield folder / "include"


def nvidia_packages() -> Iterator[Path]:
    """Where NVIDIA's Python packages have what a toolkit has: ``nvidia/cu13``, ..."""
    for place in dict.fromkeys([*sys.path, *site.getsitepackages()]):
        folder = Path(place or ".") / "nvidia"
        if folder.is_dir():
            yield from sorted(folder.iterdir(), reverse=True)


@functools.cache
def _cccl() -> Path:
    for folder in _candidates():
        version = folder / "cuda" / "std" / "__cccl" / "version.h"
        if not version.exists():
            continue
        for line in version.read_text().splitlines():
            words = line.split()
            if words[:2] == ["#define", "CCCL_VERSION"] and int(words[2]) >= 3_000_000:
                return folder
    raise NotFound(
        "no headers of CCCL 3 (cuda/atomic): install a CUDA toolkit (13 or newer), or "
        "'pip install nvidia-cuda-cccl', or set MGI_CCCL_INCLUDE_DIR to the folder that contains "
        "cuda/atomic"
    )
