"""Allocators of GPU memory: CuPy's, PyTorch's and RMM's pools, or the caller's own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Protocol

from mgi.errors import InvalidArgument


class GpuAllocator(Protocol):
    """Provides GPU memory.

    For a runtime's channels and operators (``Runtime.local(gpu_allocator=...)``), or for one
    operator's call (``exchange(..., allocator=...)``).

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
        """Takes it back, which nothing of MGI's uses any more; called once for each allocation.

        Of a result that is when its table dies: what reads it has ended before.
        """


class GpuStreamAllocator(GpuAllocator, Protocol):
    """One that works in the order of streams as well, as operators do, so that nobody waits.

    A stream is CUDA's handle: that of the operator's call (``stream=``), 1 the legacy default one.
    A call that has no stream to work in, but one to wait behind, uses the other two methods.
    """

    def allocate_in_stream(self, gpu: int, size: int, stream: int) -> int:
        """As `allocate`, for use behind what is in the stream."""

    def deallocate_in_stream(self, gpu: int, address: int, size: int, stream: int) -> None:
        """Takes it back behind what is in the stream.

        Of a result that may be long after the call: what reads it in other streams comes before.
        """


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

    def allocate_in_stream(self, gpu: int, size: int, stream: int) -> int:
        with self._cuda.Device(gpu), self._current(stream):
            memory = self._cuda.alloc(size)
        self._memory[memory.ptr] = memory
        return memory.ptr

    def deallocate_in_stream(self, gpu: int, address: int, size: int, stream: int) -> None:
        with self._cuda.Device(gpu), self._current(stream):
            del self._memory[address]

    def _current(self, stream: int) -> Any:
        null = self._cuda.Stream.null
        return null if stream <= 1 else self._cuda.ExternalStream(stream)


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

    def allocate_in_stream(self, gpu: int, size: int, stream: int) -> int:
        # PyTorch's own handle of the legacy default stream is 0.
        return self._cuda.caching_allocator_alloc(size, gpu, 0 if stream == 1 else stream)

    def deallocate_in_stream(self, gpu: int, address: int, size: int, stream: int) -> None:
        # It goes to the stream that it was allocated for, which is this one.
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


class _Handle:
    """A stream as CUDA's Python libraries agree on it."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


class _RmmStreamAllocator(_RmmAllocator):
    """With an RMM that takes streams of others by that agreement."""

    def __init__(self) -> None:
        super().__init__()
        from rmm.pylibrmm.stream import Stream

        self._stream_of = Stream

    def allocate_in_stream(self, gpu: int, size: int, stream: int) -> int:
        resource = self._resource_of(gpu)
        address = resource.allocate(size, self._stream_of(_Handle(stream)))
        self._resources[address] = resource
        return address

    def deallocate_in_stream(self, gpu: int, address: int, size: int, stream: int) -> None:
        resource = self._resources.pop(address)
        resource.deallocate(address, size, self._stream_of(_Handle(stream)))


def cupy_allocator() -> GpuStreamAllocator:
    """Takes GPU memory from CuPy's current pool."""
    return _CupyAllocator()


def torch_allocator() -> GpuStreamAllocator:
    """Takes GPU memory from PyTorch's caching allocator."""
    return _TorchAllocator()


def rmm_allocator() -> GpuAllocator:
    """Takes GPU memory from RMM's resource of each GPU.

    In the order of an operator's stream where RMM's streams have ``__cuda_stream__``.
    """
    import rmm.pylibrmm.stream as streams

    agreed = hasattr(getattr(streams, "Stream", None), "__cuda_stream__")
    return _RmmStreamAllocator() if agreed else _RmmAllocator()


_METHODS = ("allocate", "deallocate")
_IN_STREAMS = ("allocate_in_stream", "deallocate_in_stream")


def checked(allocator: GpuAllocator | None, argument: str = "gpu_allocator") -> GpuAllocator | None:
    """The same, if it has both methods, and both or none for streams."""
    if allocator is None:
        return None
    in_streams = any(hasattr(allocator, method) for method in _IN_STREAMS)
    for method in _METHODS + (_IN_STREAMS if in_streams else ()):
        if not callable(getattr(allocator, method, None)):
            raise InvalidArgument(
                f"{argument} is {allocator!r}, which has no method {method}: give an object "
                "with allocate(gpu, size) and deallocate(gpu, address, size), and for streams with "
                "both allocate_in_stream(gpu, size, stream) and deallocate_in_stream(gpu, address, "
                "size, stream), or neither"
            )
    return allocator


def holding(allocator: GpuAllocator | None, streams: list[object]) -> Any:
    """The same; it keeps the streams for whoever gives memory back in them."""
    if allocator is None or not streams or not hasattr(allocator, _IN_STREAMS[0]):
        return allocator
    methods = {name: getattr(allocator, name) for name in _METHODS + _IN_STREAMS}
    return SimpleNamespace(**methods, streams=streams)
