"""The streams of GPUs that a call of an operator works behind."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from mgi import _mgi
from mgi.errors import InvalidArgument

#: CUDA's handles of streams that are not made: the legacy default stream, and each thread's own.
LEGACY, PER_THREAD = 1, 2


class CallStreams:
    """Of one call, by GPU: the caller's, else the current one of whose arrays come first there."""

    def __init__(self, stream: Any = None) -> None:
        self._given = stream
        self._found: dict[int, int | None] = {}
        self.keep: list[object] = []
        """The streams as they were given; they go when nobody has them any more."""

    def of(self, gpu: int, array: object = None) -> int | None:
        """The stream's handle; None where there is none, and whoever fills arrays is waited for."""
        if self._found.get(gpu) is None:
            stream = self._stream(gpu, array)
            self._found[gpu] = None if stream is None else self._handle(gpu, stream)
        return self._found[gpu]

    def handles(self, gpus: set[int]) -> dict[int, int]:
        """Of all these GPUs' streams that there are."""
        if self._given is not None and not isinstance(self._given, Mapping) and len(gpus) > 1:
            where = " and ".join(f"cuda:{gpu}" for gpu in sorted(gpus))
            raise InvalidArgument(
                f"stream is {self._given!r} for tables on {where}: give a mapping of GPUs to "
                "streams, {0: ..., 1: ...}"
            )
        if isinstance(self._given, Mapping) and self._given and gpus.isdisjoint(self._given):
            where = " and ".join(f"cuda:{gpu}" for gpu in sorted(gpus))
            raise InvalidArgument(
                f"stream is {self._given!r}, and the tables are on {where}: its keys are the "
                "numbers of these GPUs, {0: ...}"
            )
        handles = {gpu: self.of(gpu) for gpu in sorted(gpus)}
        return {gpu: self._behind(handle) for gpu, handle in handles.items() if handle is not None}

    def _behind(self, handle: int) -> int:
        """The stream to work behind, where arrays wait for their owners in `handle`.

        Nobody has asked for the legacy default stream where it is a library's by default: kernels
        there would wait for other threads' calls, and hold up all streams that it waits for. A
        thread's own stream comes behind the legacy one, and MGI works in another stream behind it.
        """
        return PER_THREAD if self._given is None and handle == LEGACY else handle

    def _stream(self, gpu: int, array: object) -> Any:
        if self._given is None:
            return _current(gpu, array)
        return self._given.get(gpu) if isinstance(self._given, Mapping) else self._given

    def _handle(self, gpu: int, stream: Any) -> int | None:
        handle = _handle_of(stream)
        if handle == PER_THREAD:
            # It is another one in the thread that will do the work.
            _mgi.wait_stream(gpu, PER_THREAD)
            return None
        self.keep.append(stream)
        return handle or LEGACY


def _current(gpu: int, array: object) -> Any:
    """The stream in which an array's library works now; None of a library that is not known."""
    name = type(array).__module__.partition(".")[0]
    library = sys.modules.get(name)
    if name == "cupy" and library is not None:
        with library.cuda.Device(gpu):
            return library.cuda.get_current_stream()
    if name == "torch" and library is not None:
        return library.cuda.current_stream(gpu)
    if name == "numba" and library is not None:
        return library.cuda.default_stream()
    return None


def _handle_of(stream: Any) -> int:
    """Of a number, or of a stream of CuPy, PyTorch, Numba, or whatever has ``__cuda_stream__``."""
    handle = stream
    if hasattr(stream, "__cuda_stream__"):
        handle = stream.__cuda_stream__()[1]
    else:
        for name in ("ptr", "cuda_stream", "handle"):
            if hasattr(stream, name):
                handle = getattr(stream, name)
                break
    if handle is not stream and not isinstance(handle, int | str | float):
        # Numba's is a pointer of ctypes, or of CUDA's Python bindings.
        if hasattr(handle, "value"):
            handle = handle.value or 0
        elif hasattr(handle, "__int__"):
            handle = int(handle)
    if isinstance(handle, bool) or not isinstance(handle, int) or handle < 0:
        raise InvalidArgument(
            f"stream is {stream!r}: give a stream of CuPy, PyTorch or Numba, an object with "
            "__cuda_stream__, or a stream's handle"
        )
    return handle
