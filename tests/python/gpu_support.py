"""GPUs that are made up: the driver of tests/gpu_driver, whose GPUs' memory is the host's."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = "libmgi_fake_cuda.so"


def driver_library() -> Path | None:
    """The driver, where a build of the tests has made it; ``$MGI_BUILD`` names another one."""
    built = Path(os.environ.get("MGI_BUILD", "build/release"))
    found = (ROOT / built / LIBRARY).resolve()
    return found if found.exists() else None


def driver_environment() -> dict[str, str]:
    """This process' environment, with two GPUs that are made up."""
    return os.environ | {
        "MGI_CUDA_LIBRARY": str(driver_library()),
        "MGI_FAKE_CUDA_DEVICES": "2",
        "MGI_FAKE_CUDA_STREAMS": "threads",
        "MGI_FAKE_CUDA_LOADING": "EAGER",
    }


class Driver:
    """The made-up driver, as whoever allocates GPU memory calls it."""

    def __init__(self) -> None:
        path = os.environ["MGI_CUDA_LIBRARY"]
        self._library = ctypes.CDLL(path)
        self._library.mgi_fake_cuda_alive.restype = ctypes.c_size_t
        self._call("cuInit", ctypes.c_uint(0))

    def _call(self, name: str, *arguments: Any) -> None:
        result = getattr(self._library, name)(*arguments)
        assert result == 0, f"{name}: {result}"

    def enter(self, gpu: int) -> None:
        """Makes a GPU the thread's."""
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), gpu)
        self._call("cuCtxSetCurrent", context)

    def current(self) -> int:
        """N of the thread's "cuda:N"."""
        here, of_gpu = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuCtxGetCurrent", ctypes.byref(here))
        for gpu in range(2):
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(of_gpu), gpu)
            if of_gpu.value == here.value:
                return gpu
        return -1

    def allocate(self, size: int, gpu: int) -> int:
        self.enter(gpu)
        address = ctypes.c_ulonglong()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size, 1)))
        return address.value

    def free(self, address: int) -> None:
        self.enter(0)
        self._call("cuMemFree_v2", ctypes.c_ulonglong(address))

    def stream(self, gpu: int) -> int:
        self.enter(gpu)
        made = ctypes.c_void_p()
        self._call("cuStreamCreate", ctypes.byref(made), ctypes.c_uint(1))
        return made.value or 0

    def launch(self, stream: int, body: Callable[[], None]) -> Callable[..., None]:
        """Puts work into a stream; keep what this returns until it has run."""
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: body())
        self._call("cuLaunchHostFunc", ctypes.c_void_p(stream), call, None)
        return call

    def alive(self, what: str) -> int:
        return self._library.mgi_fake_cuda_alive(what.encode())

    def array(self, values: Any, gpu: int = 0) -> GpuMemory:
        return GpuMemory(self, np.asarray(values), gpu)


class GpuMemory:
    """An array on a GPU, without any interface; its memory goes with it."""

    def __init__(self, driver: Driver, values: np.ndarray[Any, Any], gpu: int) -> None:
        self.driver = driver
        self.gpu = gpu
        self.values = values
        self.address = driver.allocate(values.nbytes, gpu)
        ctypes.memmove(self.address, np.ascontiguousarray(values).ctypes.data, values.nbytes)

    def __del__(self) -> None:
        self.driver.free(self.address)


class Interface:
    """An array as Numba's: ``__cuda_array_interface__`` and nothing else."""

    def __init__(self, memory: GpuMemory, **other: Any) -> None:
        self.memory = memory
        self.__cuda_array_interface__ = {
            "shape": memory.values.shape,
            "typestr": memory.values.dtype.str,
            "data": (memory.address, False),
            "strides": None,
            "stream": None,
            "version": 3,
        } | other


class DlArray:
    """An array as CuPy's and PyTorch's: DLPack."""

    CODES: dict[str, int] = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # noqa: RUF012

    def __init__(self, memory: GpuMemory, old: bool = False, kind: int = 2) -> None:
        self.memory = memory
        self.old = old
        self.kind = kind
        self.streams: list[int | None] = []
        self.versions: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, self.memory.gpu

    def __dlpack__(self, *, stream: int | None = None, **how: Any) -> object:
        if self.old and how:
            raise TypeError("unexpected keyword argument 'max_version'")
        self.streams.append(stream)
        self.versions.append(how.get("max_version"))
        from mgi import _mgi

        dtype = self.memory.values.dtype
        return _mgi.dlpack_capsule(
            self.memory.address,
            self.memory.gpu,
            self.CODES[dtype.kind],
            8 * dtype.itemsize,
            len(self.memory.values),
            self.memory,
            not self.old,
        )


def read(array: Any) -> np.ndarray[Any, Any]:
    """What an array on a made-up GPU holds, by its ``__cuda_array_interface__``."""
    interface = array.__cuda_array_interface__
    assert interface["version"] == 3
    dtype = np.dtype(interface["typestr"])
    size = interface["shape"][0] * dtype.itemsize
    return np.frombuffer(ctypes.string_at(interface["data"][0], size), dtype)
