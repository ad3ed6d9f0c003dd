"""The streams and the allocator that operators on GPUs are given."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import weakref
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import mgi
import numpy as np
import pytest
from gpu_support import DlArray, Driver, Interface
from mgi import _mgi

Options = list[dict[str, Any]]


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> Options:
    """What the compiled operators were told beside their tables."""
    made: Options = []

    def call(runtime: _mgi.Runtime, pairs: Any, *rest: Any) -> Any:
        made.append(rest[-1])
        return list(rest[0]), {"seconds": 1.0}

    monkeypatch.setattr(_mgi, "gpu_operators", True)
    for name in ("exchange", "group_by", "join"):
        monkeypatch.setattr(_mgi, f"gpu_{name}", call, raising=False)
    return made


def values(driver: Driver, gpu: int = 0) -> DlArray:
    return DlArray(driver.array(np.arange(3, dtype="i8"), gpu))


class Work:
    """What is in a stream until it may end."""

    def __init__(self, driver: Driver, stream: int) -> None:
        self.may_end = threading.Event()
        self.log: list[str] = []
        self.driver = driver
        self.keep = [driver.launch(stream, lambda: self.end("first"))]

    def end(self, name: str) -> None:
        self.may_end.wait(10)
        self.log.append(name)

    def then(self, stream: int, name: str) -> None:
        self.keep.append(self.driver.launch(stream, lambda: self.log.append(name)))


def test_nothing_is_waited_for_where_there_is_a_stream(driver: Driver, options: Options) -> None:
    stream = driver.stream(0)
    work = Work(driver, stream)
    array = values(driver)
    mgi.exchange({"a": array}, key="a", stream=stream)
    mgi.group_by({"a": Interface(driver.array([1]))}, "a", [], stream=stream)
    mgi.join({"a": array}, {"a": array}, on="a", stream=stream)
    assert work.log == []
    assert [given["gpu_streams"] for given in options] == [{0: stream}] * 3
    assert [given["gpu_allocator"] for given in options] == [None] * 3
    # Their owner has been told to make it wait for what fills them.
    assert array.streams == [stream] * 3
    work.may_end.set()
    _mgi.wait_stream(0, stream)


def test_the_stream_waits_for_the_interfaces(driver: Driver, options: Options) -> None:
    stream, other = driver.stream(0), driver.stream(0)
    work = Work(driver, other)
    array = Interface(driver.array([1, 2]), stream=other)
    mgi.exchange({"a": array}, key="a", stream=stream)
    assert work.log == []
    work.then(stream, "second")
    work.may_end.set()
    _mgi.wait_stream(0, stream)
    assert work.log == ["first", "second"]
    with pytest.raises(mgi.InvalidArgument, match="names the stream 0"):
        mgi.exchange({"a": Interface(driver.array([1]), stream=0)}, key="a", stream=stream)


def test_arrays_of_nobody_in_particular_are_waited_for(driver: Driver, options: Options) -> None:
    array = values(driver)
    mgi.exchange({"a": array}, key="a")
    mgi.exchange(mgi.GpuTable({"a": array}), key="a")
    assert array.streams == [_mgi.stream_of_gpu(0)] * 2
    assert [given["gpu_streams"] for given in options] == [{}, {}]


def library(monkeypatch: pytest.MonkeyPatch, name: str, **cuda: Any) -> type[DlArray]:
    """Arrays of a library that has these functions."""
    made = ModuleType(name)
    made.cuda = SimpleNamespace(**cuda)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, made)
    return type("Array", (DlArray,), {"__module__": f"{name}.core"})


class Entered:
    """A context that does nothing."""

    def __init__(self, *_: object) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def test_the_current_stream_of_the_arrays_library(
    driver: Driver, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = driver.stream(0), driver.stream(1)
    cupy = library(
        monkeypatch,
        "cupy",
        Device=Entered,
        get_current_stream=lambda: SimpleNamespace(ptr=one),
    )
    torch = library(
        monkeypatch,
        "torch",
        current_stream=lambda gpu: SimpleNamespace(cuda_stream={0: 0, 1: two}[gpu]),
    )
    handle = ctypes.c_void_p(None)
    numba = library(monkeypatch, "numba", default_stream=lambda: SimpleNamespace(handle=handle))
    memory = [driver.array(np.arange(3, dtype="i8"), gpu) for gpu in (0, 1)]
    # Work goes behind the legacy default stream, not into it: the thread's own one waits for it.
    for kind, told, expected in [(cupy, one, one), (torch, 1, 2), (numba, 1, 2)]:
        array = kind(memory[0])
        mgi.exchange({"a": array}, key="a")
        assert options.pop()["gpu_streams"] == {0: expected}
        assert array.streams == [told]
    # Unless it is asked for.
    for given in (0, 1, SimpleNamespace(ptr=0), {0: 1}):
        mgi.exchange({"a": torch(memory[0])}, key="a", stream=given)
        assert options.pop()["gpu_streams"] == {0: 1}
    # On each GPU that of its first array, which the others' owners make wait.
    arrays = [torch(memory[0]), cupy(memory[0]), torch(memory[1])]
    mgi.exchange([{"a": arrays[0], "b": arrays[1]}, {"a": arrays[2], "b": arrays[2]}], key="a")
    assert options.pop()["gpu_streams"] == {0: 2, 1: two}
    assert [array.streams for array in arrays] == [[1], [1], [two, two]]


def test_each_threads_own_stream_is_waited_for(
    driver: Driver, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[tuple[int, int]] = []
    monkeypatch.setattr(_mgi, "wait_stream", lambda gpu, stream: waited.append((gpu, stream)))
    mgi.exchange(mgi.GpuTable({"a": values(driver)}), key="a", stream=2)
    assert options.pop()["gpu_streams"] == {}
    assert waited[-1] == (0, 2)


class Binding:
    """A handle as CUDA's Python bindings have it."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __int__(self) -> int:
        return self._handle


class Spoken:
    """A stream that says what it is as those libraries have agreed."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


STREAMS: list[Callable[[int], Any]] = [
    lambda handle: handle,
    Spoken,
    lambda handle: SimpleNamespace(ptr=handle),
    lambda handle: SimpleNamespace(cuda_stream=handle),
    lambda handle: SimpleNamespace(handle=ctypes.c_void_p(handle)),
    lambda handle: SimpleNamespace(handle=Binding(handle)),
    lambda handle: {1: 7, 0: Spoken(handle)},
]


@pytest.mark.parametrize("make", STREAMS)
def test_streams_of_all_kinds(driver: Driver, options: Options, make: Any) -> None:
    stream = driver.stream(0)
    mgi.exchange({"a": values(driver)}, key="a", stream=make(stream))
    assert options.pop()["gpu_streams"] == {0: stream}


def test_what_is_no_stream(driver: Driver, options: Options) -> None:
    for given in ("fast", True, -1, SimpleNamespace(ptr=None), {0: 1.5}):
        with pytest.raises(mgi.InvalidArgument, match="stream is .*give a stream of CuPy"):
            mgi.exchange({"a": values(driver)}, key="a", stream=given)
    tables = [{"a": values(driver, gpu)} for gpu in (0, 1)]
    with pytest.raises(mgi.InvalidArgument, match="cuda:0 and cuda:1: give a mapping"):
        mgi.exchange([mgi.GpuTable(table) for table in tables], key="a", stream=driver.stream(0))
    with pytest.raises(mgi.InvalidArgument, match="tables are on cuda:0: its keys"):
        mgi.exchange({"a": values(driver)}, key="a", stream={1: driver.stream(1)})
    streams = {gpu: driver.stream(gpu) for gpu in (0, 1)}
    mgi.exchange(tables, key="a", stream=streams)
    assert options.pop()["gpu_streams"] == streams


class Pool:
    """An allocator that is never asked."""

    def allocate(self, gpu: int, size: int) -> int:
        raise AssertionError

    def deallocate(self, gpu: int, address: int, size: int) -> None:
        raise AssertionError


class Sized(Pool):
    """One that says how many blocks are out."""

    def __len__(self) -> int:
        return 0


class StreamPool(Pool):
    def allocate_in_stream(self, gpu: int, size: int, stream: int) -> int:
        return stream

    def deallocate_in_stream(self, gpu: int, address: int, size: int, stream: int) -> None: ...


def test_the_allocator_is_the_calls_or_the_runtimes(driver: Driver, options: Options) -> None:
    of_call, of_runtime = Pool(), Pool()
    mgi.exchange({"a": values(driver)}, key="a", allocator=of_call)
    assert options.pop()["gpu_allocator"] is of_call
    with mgi.Runtime.local(gpu_allocator=of_runtime) as runtime:
        mgi.exchange({"a": values(driver)}, key="a", runtime=runtime)
        mgi.exchange({"a": values(driver)}, key="a", runtime=runtime, allocator=of_call)
        empty = Sized()
        mgi.exchange({"a": values(driver)}, key="a", runtime=runtime, allocator=empty)
    assert [given["gpu_allocator"] for given in options] == [of_runtime, of_call, empty]


def test_streams_live_as_long_as_memory_may_come_back_in_them(
    driver: Driver, options: Options
) -> None:
    stream = Spoken(driver.stream(0))
    alive = weakref.ref(stream)
    mgi.exchange({"a": values(driver)}, key="a", stream=stream, allocator=StreamPool())
    del stream
    gc.collect()
    assert alive() is not None
    allocator = options.pop()["gpu_allocator"]
    assert allocator.allocate_in_stream(0, 8, 77) == 77
    del allocator
    gc.collect()
    assert alive() is None


def test_streams_live_as_long_as_their_call(driver: Driver, options: Options) -> None:
    stream = Spoken(driver.stream(0))
    alive = weakref.ref(stream)
    for allocator in (None, Pool()):
        mgi.exchange({"a": values(driver)}, key="a", stream=stream, allocator=allocator)
        assert options[-1]["gpu_stream_owners"] == [stream]
    del stream
    gc.collect()
    assert alive() is not None
    options.clear()
    gc.collect()
    assert alive() is None


def test_a_compiled_call_that_has_ended_holds_no_stream() -> None:
    from mgi.table import as_table

    native = as_table({"a": np.arange(3)})
    stream = Spoken(7)
    references = sys.getrefcount(stream)
    with mgi.Runtime.local() as runtime:
        pairs = [runtime.create_endpoint("cpu:0")._pair]
        options = {"gpu_streams": {0: 7}, "gpu_stream_owners": [stream]}
        _mgi.exchange(runtime._native, pairs, [native], ["a"], options)
        del options
        _mgi.exchange(runtime._native, pairs, [native], ["a"], {})  # drops what is queued
        assert sys.getrefcount(stream) == references


def test_an_allocator_has_all_methods(driver: Driver, options: Options) -> None:
    half = SimpleNamespace(allocate=print, deallocate=print, allocate_in_stream=print)
    for given, missing in [
        (half, "deallocate_in_stream"),
        (SimpleNamespace(allocate=print), "deallocate"),
    ]:
        with pytest.raises(mgi.InvalidArgument, match=f"allocator is .*no method {missing}"):
            mgi.exchange({"a": values(driver)}, key="a", allocator=given)
    with pytest.raises(mgi.InvalidArgument, match="no method deallocate_in_stream"):
        mgi.Runtime.local(gpu_allocator=half)


def test_cupys_pool_works_in_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[Any] = []

    class Current:
        def __init__(self, stream: int) -> None:
            self.stream = stream

        def __enter__(self) -> None:
            log.append(("in", self.stream))

        def __exit__(self, *_: object) -> None:
            log.append("out")

    class Memory:
        ptr = 512

        def __init__(self, size: int) -> None:
            log.append(size)

        def __del__(self) -> None:
            log.append("freed")

    library(
        monkeypatch,
        "cupy",
        Device=Entered,
        alloc=Memory,
        ExternalStream=Current,
        Stream=SimpleNamespace(null=Current(0)),
    )
    allocator = mgi.cupy_allocator()
    assert allocator.allocate_in_stream(1, 1000, 77) == 512
    allocator.deallocate_in_stream(1, 512, 1000, 77)
    assert log == [("in", 77), 1000, "out", ("in", 77), "freed", "out"]
    allocator.allocate_in_stream(1, 1000, 1)
    assert log[6] == ("in", 0)


def test_pytorchs_pool_works_in_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[Any] = []

    def alloc(*what: Any) -> int:
        log.append(what)
        return 512

    library(
        monkeypatch, "torch", caching_allocator_alloc=alloc, caching_allocator_delete=log.append
    )
    allocator = mgi.torch_allocator()
    assert allocator.allocate_in_stream(1, 1000, 77) == 512
    allocator.allocate_in_stream(1, 1000, 1)
    allocator.deallocate_in_stream(1, 512, 1000, 77)
    assert log == [(1000, 1, 77), (1000, 1, 0), 512]


def test_rmms_resources_work_in_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[Any] = []

    class Stream:
        def __init__(self, given: Any) -> None:
            self.handle = given.__cuda_stream__()[1]

        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, self.handle

    class Resource:
        def __init__(self, gpu: int) -> None:
            self.gpu = gpu

        def allocate(self, size: int, stream: Stream) -> int:
            log.append((self.gpu, size, stream.handle))
            return 512

        def deallocate(self, address: int, size: int, stream: Stream) -> None:
            log.append((self.gpu, address, size, stream.handle))

    mr = SimpleNamespace(get_per_device_resource=Resource)
    modules: dict[str, dict[str, Any]] = {
        "rmm": {"mr": mr},
        "rmm.mr": vars(mr),
        "rmm.pylibrmm": {},
        "rmm.pylibrmm.stream": {"DEFAULT_STREAM": None, "Stream": Stream},
    }
    for name, content in modules.items():
        made = ModuleType(name)
        vars(made).update(content)
        monkeypatch.setitem(sys.modules, name, made)
    allocator: Any = mgi.rmm_allocator()
    assert allocator.allocate_in_stream(1, 1000, 77) == 512
    allocator.deallocate_in_stream(1, 512, 1000, 77)
    assert log == [(1, 1000, 77), (1, 512, 1000, 77)]


def test_the_compiled_operators_take_them() -> None:
    from mgi.table import as_table

    native = as_table({"a": np.arange(3)})
    with mgi.Runtime.local() as runtime:
        pairs = [runtime.create_endpoint("cpu:0")._pair]
        for allocator in (Pool(), StreamPool(), None):
            options = {"gpu_streams": {0: 1 << 40}, "gpu_allocator": allocator}
            tables, _ = _mgi.exchange(runtime._native, pairs, [native], ["a"], options)
            assert len(tables) == 1
        with pytest.raises(mgi.InvalidArgument, match="gpu_streams is "):
            _mgi.exchange(runtime._native, pairs, [native], ["a"], {"gpu_streams": {0: -1}})
