"""Channels whose GPU memory an allocator of the caller's provides, in Python."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import mgi
import pytest
from gpu_support import Driver

SCHEMA = {"key": "int32", "value": "int64"}


class Pool:
    """Takes memory from the driver, and knows what is out."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.out: dict[int, tuple[int, int]] = {}
        self.calls = 0

    def allocate(self, gpu: int, size: int) -> int:
        self.calls += 1
        address = self.driver.allocate(size, gpu)
        self.out[address] = (gpu, size)
        return address

    def deallocate(self, gpu: int, address: int, size: int) -> None:
        assert self.out.pop(address) == (gpu, size)
        self.driver.free(address)


def channel_on(runtime: mgi.Runtime) -> mgi.Channel:
    ends = [runtime.create_endpoint("cuda:0"), runtime.create_endpoint("cuda:1")]
    return runtime.create_channel(ends, ends, SCHEMA, mgi.Partition("key"), expected_bytes=1 << 16)


def test_a_pool_provides_channels_and_gets_all_back(driver: Driver) -> None:
    pool = Pool(driver)
    with mgi.Runtime.local(gpu_allocator=pool) as runtime:
        channel = channel_on(runtime)
        assert {gpu for gpu, _ in pool.out.values()} == {0, 1}
        runtime.delete_channel(channel)
        del channel
        assert not pool.out
        channel_on(runtime)
        assert pool.out
    gc.collect()
    assert not pool.out


def test_the_pool_lives_as_long_as_it_is_needed(driver: Driver) -> None:
    with mgi.Runtime.local(gpu_allocator=Pool(driver)) as runtime:
        gc.collect()
        channel_on(runtime)


def test_what_an_allocator_raises_is_the_errors_text(driver: Driver) -> None:
    class Dry(Pool):
        def allocate(self, gpu: int, size: int) -> int:
            raise MemoryError("the pool is dry")

    with (
        mgi.Runtime.local(gpu_allocator=Dry(driver)) as runtime,
        pytest.raises(mgi.OutOfMemory, match="cuda:.*gpu_allocator.*MemoryError: the pool is dry"),
    ):
        channel_on(runtime)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (None, mgi.OutOfMemory, "null"),
        ("here", mgi.OutOfMemory, "'here', which is no address"),
        (-1, mgi.OutOfMemory, "-1, which is no address"),
        (4096, mgi.InvalidArgument, "0x1000, which is memory that the driver does not know"),
    ],
)
def test_what_is_no_memory_is_refused(
    driver: Driver, given: Any, error: type[Exception], text: str
) -> None:
    back: list[int] = []
    allocator = SimpleNamespace(
        allocate=lambda gpu, size: given,
        deallocate=lambda gpu, address, size: back.append(address),
    )
    with (
        mgi.Runtime.local(gpu_allocator=allocator) as runtime,
        pytest.raises(error, match=text),
    ):
        channel_on(runtime)
    assert back == ([given] if error is mgi.InvalidArgument else [])


def test_an_allocator_has_two_methods() -> None:
    with pytest.raises(mgi.InvalidArgument, match="no method deallocate"):
        mgi.Runtime.local(gpu_allocator=SimpleNamespace(allocate=print))
    with pytest.raises(mgi.InvalidArgument, match="no method allocate"):
        mgi.Runtime.local(gpu_allocator=7)


def test_what_deallocate_raises_is_reported_and_ends_nothing(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Leaky(Pool):
        def deallocate(self, gpu: int, address: int, size: int) -> None:
            super().deallocate(gpu, address, size)
            raise ValueError("not mine")

    reported: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: reported.append(raised.exc_type))
    with mgi.Runtime.local(gpu_allocator=Leaky(driver)) as runtime:
        channel_on(runtime)
    gc.collect()
    assert reported
    assert set(reported) == {ValueError}


def test_threads_make_and_drop_channels_at_a_time(driver: Driver) -> None:
    pool = Pool(driver)
    failures: list[BaseException] = []

    def churn(runtime: mgi.Runtime) -> None:
        try:
            for _ in range(20):
                channel = channel_on(runtime)
                runtime.delete_channel(channel)
        except BaseException as error:
            failures.append(error)

    with mgi.Runtime.local(gpu_allocator=pool) as runtime:
        threads = [threading.Thread(target=churn, args=(runtime,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    gc.collect()
    assert not failures
    assert not pool.out


def test_an_interpreter_ends_with_channels_that_are_there() -> None:
    program = """
        import mgi
        from gpu_support import Driver
        from test_gpu_allocator import Pool, channel_on

        runtime = mgi.Runtime.local(gpu_allocator=Pool(Driver()))
        channel = channel_on(runtime)
        print("made")
    """
    here = Path(__file__).parent
    path = [str(here), str(here.parent), os.environ.get("PYTHONPATH", "")]
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout) == (0, "made\n"), ended.stderr


class Stream:
    """Says what was done behind it."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def synchronize(self) -> None:
        self.log.append("synchronized")


def module(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    made = ModuleType(name)
    vars(made).update(content)
    monkeypatch.setitem(sys.modules, name, made)


def test_cupys_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[Any] = []

    class Device:
        def __init__(self, gpu: int) -> None:
            self.gpu = gpu

        def __enter__(self) -> None:
            log.append(("on", self.gpu))

        def __exit__(self, *_: object) -> None:
            log.append("left")

    class Memory:
        ptr = 512

        def __init__(self, size: int) -> None:
            log.append(size)

        def __del__(self) -> None:
            log.append("freed")

    cuda = SimpleNamespace(Device=Device, alloc=Memory, get_current_stream=lambda: Stream(log))
    module(monkeypatch, "cupy", cuda=cuda)
    allocator = mgi.cupy_allocator()
    assert allocator.allocate(1, 1000) == 512
    assert log == [("on", 1), 1000, "synchronized", "left"]
    allocator.deallocate(1, 512, 1000)
    assert log[-1] == "freed"


def test_pytorchs_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[Any] = []
    stream = Stream(log)

    def alloc(*what: Any) -> int:
        log.append(what)
        return 512

    cuda = SimpleNamespace(
        current_stream=lambda gpu: stream,
        caching_allocator_alloc=alloc,
        caching_allocator_delete=log.append,
    )
    module(monkeypatch, "torch", cuda=cuda)
    allocator = mgi.torch_allocator()
    assert allocator.allocate(1, 1000) == 512
    allocator.deallocate(1, 512, 1000)
    assert log == [(1000, 1, stream), "synchronized", 512]


def test_rmms_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[Any] = []
    stream = Stream(log)

    class Resource:
        def __init__(self, gpu: int) -> None:
            self.gpu = gpu

        def allocate(self, size: int, stream: Stream) -> int:
            log.append((self.gpu, size, stream))
            return 512

        def deallocate(self, address: int, size: int, stream: Stream) -> None:
            log.append((self.gpu, address, size, stream))

    mr = ModuleType("rmm.mr")
    vars(mr)["get_per_device_resource"] = Resource
    monkeypatch.setitem(sys.modules, "rmm.mr", mr)
    module(monkeypatch, "rmm", mr=mr)
    module(monkeypatch, "rmm.pylibrmm")
    module(monkeypatch, "rmm.pylibrmm.stream", DEFAULT_STREAM=stream)
    allocator = mgi.rmm_allocator()
    assert allocator.allocate(1, 1000) == 512
    allocator.deallocate(1, 512, 1000)
    assert log == [(1, 1000, stream), "synchronized", (1, 512, 1000, stream)]
