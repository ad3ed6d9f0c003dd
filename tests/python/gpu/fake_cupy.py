"""What `mgi tpch` uses of CuPy, on the made-up driver's GPUs.

Kernels are compiled for the host and run there, a thread for each of a block's, block by block.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from gpu_support import Driver

# Headers of C: those of C++'s threads would take most of the time to compile.
_HOST = r"""
#include <pthread.h>
struct Place { unsigned x; };
static thread_local Place threadIdx;
static Place blockIdx, blockDim, gridDim;
constexpr int kMostThreads = 256;
struct Warp { pthread_barrier_t barrier; unsigned words[32]; };
static pthread_barrier_t block_barrier;
static Warp warps[kMostThreads / 32];
static void* dynamic_shared;
static void __syncthreads() { pthread_barrier_wait(&block_barrier); }
static unsigned of_lane(unsigned word, int lane, bool all) {
    Warp& warp = warps[threadIdx.x / 32];
    warp.words[threadIdx.x % 32] = word;
    pthread_barrier_wait(&warp.barrier);
    unsigned found = 0;
    for (int k = 0; all && k < 32; ++k) found |= (warp.words[k] != 0) << k;
    if (!all) found = warp.words[lane < 0 ? threadIdx.x % 32 : lane];
    pthread_barrier_wait(&warp.barrier);
    return found;
}
static unsigned __ballot_sync(unsigned, bool holds) { return of_lane(holds, 0, true); }
static unsigned __shfl_sync(unsigned, unsigned v, int lane) { return of_lane(v, lane, false); }
static unsigned __shfl_up_sync(unsigned, unsigned v, int d) {
    return of_lane(v, int(threadIdx.x % 32) - d, false);
}
static int __popc(unsigned word) { return __builtin_popcount(word); }
static void atomicAdd(unsigned* at, unsigned v) { __atomic_fetch_add(at, v, __ATOMIC_RELAXED); }
#define __global__
#define __device__
#define __shared__ static
"""

_MOST_ARGUMENTS = 24
_LAUNCH = r"""
using Kernel = void (*)(ARGUMENTS);
struct Call { unsigned thread; Kernel kernel; unsigned long long* a; };
static void* run_thread(void* given) {
    Call const& call = *static_cast<Call*>(given);
    unsigned long long* const a = call.a;
    threadIdx.x = call.thread;
    call.kernel(VALUES);
    return nullptr;
}
extern "C" void launch_kernel(void* kernel, unsigned grid, unsigned block, unsigned long long* a,
                              void* shared) {
    pthread_barrier_init(&block_barrier, nullptr, block);
    for (Warp& warp : warps) pthread_barrier_init(&warp.barrier, nullptr, 32);
    dynamic_shared = shared, blockDim.x = block, gridDim.x = grid;
    for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x) {
        pthread_t threads[kMostThreads];
        Call calls[kMostThreads];
        for (unsigned t = 0; t < block; ++t) {
            calls[t] = {t, reinterpret_cast<Kernel>(kernel), a};
            pthread_create(&threads[t], nullptr, run_thread, &calls[t]);
        }
        for (unsigned t = 0; t < block; ++t) pthread_join(threads[t], nullptr);
    }
}
""".replace("ARGUMENTS", ", ".join(["unsigned long long"] * _MOST_ARGUMENTS)).replace(
    "VALUES", ", ".join(f"a[{k}]" for k in range(_MOST_ARGUMENTS))
)


class ndarray:  # noqa: N801
    """Memory of such a GPU."""

    def __init__(self, driver: Driver, values: np.ndarray[Any, Any], gpu: int) -> None:
        values = np.ascontiguousarray(values)
        self._driver, self.device = driver, gpu
        self.address = driver.allocate(values.nbytes, gpu)
        memory = (ctypes.c_char * values.nbytes).from_address(self.address)
        self.host = np.frombuffer(memory, values.dtype).reshape(values.shape)
        self.host[...] = values
        self.dtype, self.nbytes = values.dtype, values.nbytes

    def __del__(self) -> None:
        self._driver.free(self.address)

    def _of(self, values: np.ndarray[Any, Any]) -> ndarray:
        return ndarray(self._driver, values, self.device)

    def __len__(self) -> int:
        return len(self.host)

    def __getitem__(self, at: Any) -> Any:
        found = self.host[at.host if isinstance(at, ndarray) else at]
        return self._of(found) if isinstance(found, np.ndarray) else found

    def __neg__(self) -> ndarray:
        return self._of(-self.host)

    def __le__(self, other: Any) -> ndarray:
        return self._of(self.host <= other)

    def astype(self, kind: str) -> ndarray:
        return self._of(self.host.astype(kind))

    def get(self) -> np.ndarray[Any, Any]:
        return self.host.copy()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.host.shape,
            "typestr": self.dtype.str,
            "data": (self.address if self.nbytes else 0, False),
            "strides": None,
            "version": 3,
        }


class _Kernel:
    max_dynamic_shared_size_bytes = 48 << 10

    def __init__(self, library: ctypes.CDLL, name: str) -> None:
        self._library, self._kernel = library, getattr(library, name)

    def __call__(self, grid: Any, block: Any, arguments: Any, shared_mem: int = 0) -> None:
        assert shared_mem <= self.max_dynamic_shared_size_bytes
        words = [one.address if isinstance(one, ndarray) else int(one) for one in arguments]
        assert len(words) <= _MOST_ARGUMENTS
        self._library.launch_kernel(
            self._kernel,
            *(ctypes.c_uint(size) for (size,) in (grid, block)),
            (ctypes.c_ulonglong * _MOST_ARGUMENTS)(*words),
            ctypes.create_string_buffer(max(shared_mem, 1)),
        )


class _Module:
    def __init__(self, code: str, options: Any) -> None:
        dynamic = "i64* const slots = static_cast<i64*>(dynamic_shared);"
        code = _HOST + code.replace("extern __shared__ i64 slots[];", dynamic) + _LAUNCH
        with tempfile.TemporaryDirectory() as folder:
            source, library = Path(folder) / "kernel.cpp", Path(folder) / "kernel.so"
            source.write_text(code)
            compiler = os.environ.get("CXX", "c++")
            flags = ["-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-pthread"]
            subprocess.run([compiler, *flags, str(source), "-o", str(library)], check=True)
            self._library = ctypes.CDLL(str(library))

    def get_function(self, name: str) -> _Kernel:
        return _Kernel(self._library, name)


class FakeCupy:
    """The module."""

    ndarray = ndarray

    def __init__(self, driver: Driver) -> None:
        self._driver, self._gpu = driver, 0
        self.cuda = SimpleNamespace(Device=self._device)

    def _device(self, gpu: int) -> Any:
        module = self

        class Device:
            attributes = {  # noqa: RUF012
                "MultiProcessorCount": 1,
                "MaxSharedMemoryPerBlockOptin": 227 << 10,
            }

            def __enter__(self) -> Any:
                self._before, module._gpu = module._gpu, gpu
                return self

            def __exit__(self, *_: object) -> None:
                module._gpu = self._before

            def synchronize(self) -> None:
                """Kernels have ended when their call returns."""

        return Device()

    def _array(self, values: Any) -> ndarray:
        return ndarray(self._driver, np.asarray(values), self._gpu)

    def empty(self, shape: Any, kind: str) -> ndarray:
        return self._array(np.empty(shape, kind))

    def asarray(self, given: Any) -> ndarray:
        interface = getattr(given, "__cuda_array_interface__", None)
        if interface is None:
            return self._array(given)
        address, kind = interface["data"][0], np.dtype(interface["typestr"])
        size = int(np.prod(interface["shape"])) * kind.itemsize
        return self._array(np.frombuffer((ctypes.c_char * size).from_address(address), kind))

    def cumsum(self, given: ndarray, dtype: str) -> ndarray:
        return self._array(np.cumsum(given.host, dtype=dtype))

    def partition(self, given: ndarray, place: int) -> ndarray:
        return self._array(np.partition(given.host, place))

    def flatnonzero(self, given: ndarray) -> ndarray:
        return self._array(np.flatnonzero(given.host))

    RawModule = staticmethod(lambda code, options: _Module(code, options))
