"""Allocators of GPU memory for channels: CuPy's, PyTorch's and RMM's pools, or the caller's own."""

from __future__ import annotations

from typing import Any, Protocol

from mgi.errors import InvalidArgument


class GpuAllocator(Protocol):
    """Provides the GPUs' memory for a runtime's channels (``Runtime.local(gpu_allocator=...)``).

    MGI calls both methods with the GIL, from threads of its own too. During a call the GPU is the
    thread's. The methods must not call MGI.
    """

    def allocate(self, gpu: int, size: int) -> int:
        """The address of `size` bytes of ``cuda:{gpu}``, at a multiple of 256.

        It is device memory that every stream can use at once: wait for the stream in whose order it
        was allocated. GPUs that are peers must reach it. What this raises is the text of
        :class:`mgi.OutOfMemory`.
        """

    def deallocate(self, gpu: int, address: int, size: int) -> None:
        """Takes it back, which nothing of MGI's uses any more; called once for each allocation."""


class _CupyAllocator:
    def __init__(self) -> None:
        import cupy

        self._cuda = cupy.cuda
        self._memory: dict[int, Any] = {}

    def allocate(self, gpu: int, size: int) -> int:
        with self._cuda.Device(gpu):
            memory = self._cuda.alloc(size)  # goes back if the wait raises
            self._cuda.get_current_stream().synchronize()
        self._memory[memory.ptr] = memory
        return memory.ptr

    def deallocate(self, gpu: int, address: int, size: int) -> None:
        del self._memory[address]


class _TorchAllocator:
    def __init__(self) -> None:
        import torch

        self._cuda = torch.cuda

    def allocate(self, gpu: int, size: int) -> int:
        stream = self._cuda.current_stream(gpu)
        address = self._cuda.caching_allocator_alloc(size, gpu, stream)
        try:
            stream.synchronize()
        except BaseException:
            self.deallocate(gpu, address, size)
            raise
        return address

    def deallocate(self, gpu: int, address: int, size: int) -> None:
        self._cuda.caching_allocator_delete(address)


class _RmmAllocator:
    def __init__(self) -> None:
        import rmm.mr
        from rmm.pylibrmm.stream import DEFAULT_STREAM

        self._resource_of = rmm.mr.get_per_device_resource
        self._stream = DEFAULT_STREAM
        self._resources: dict[int, Any] = {}

    def allocate(self, gpu: int, size: int) -> int:
        resource = self._resource_of(gpu)
        address = resource.allocate(size, self._stream)
        self._resources[address] = resource
        try:
            self._stream.synchronize()
        except BaseException:
            self.deallocate(gpu, address, size)
            raise
        return address

    def deallocate(self, gpu: int, address: int, size: int) -> None:
        self._resources.pop(address).deallocate(address, size, self._stream)


def cupy_allocator() -> GpuAllocator:
    """Takes channels' GPU memory from CuPy's current pool."""
    return _CupyAllocator()


def torch_allocator() -> GpuAllocator:
    """Takes channels' GPU memory from PyTorch's caching allocator."""
    return _TorchAllocator()


def rmm_allocator() -> GpuAllocator:
    """Takes channels' GPU memory from RMM's resource of each GPU."""
    return _RmmAllocator()


def checked(allocator: GpuAllocator | None) -> GpuAllocator | None:
    """The same, if it has both methods."""
    if allocator is None:
        return None
    for method in ("allocate", "deallocate"):
        if not callable(getattr(allocator, method, None)):
            raise InvalidArgument(
                f"gpu_allocator is {allocator!r}, which has no method {method}: give an object "
                "with allocate(gpu, size) and deallocate(gpu, address, size)"
            )
    return allocator
