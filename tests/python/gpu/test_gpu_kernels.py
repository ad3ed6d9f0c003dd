"""Kernels that the user starts himself: what they are given, and what becomes of their channels."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Iterator
from typing import Any

import mgi
import numpy as np
import pytest
from gpu_support import Driver, Interface, read

SCHEMA = {"key": "int32", "value": "int64"}


@pytest.fixture
def runtime(driver: Driver) -> Iterator[mgi.Runtime]:
    with mgi.Runtime.local() as made:
        yield made


def channel_on(runtime: mgi.Runtime, **options: Any) -> tuple[mgi.Channel, list[mgi.Endpoint]]:
    ends = [runtime.create_endpoint("cuda:0"), runtime.create_endpoint("cuda:1")]
    return runtime.create_channel(ends, ends, SCHEMA, mgi.Partition("key"), **options), ends


def test_gpus_are_devices(runtime: mgi.Runtime) -> None:
    assert [d["name"] for d in runtime.devices if d["name"].startswith("cuda")] == [
        "cuda:0",
        "cuda:1",
    ]


def test_what_a_kernel_is_given(runtime: mgi.Runtime) -> None:
    channel, ends = channel_on(runtime)
    groups = runtime.attach(ends[1], [channel], blocks=8, threads=128)
    assert (groups.blocks, groups.device, groups.done) == (8, "cuda:1", False)
    arg = groups.arg
    assert (arg.size, arg.itemsize) == (1, 24)
    number, first, count, blocks, shared = arg.item()
    assert (first, count, blocks, shared) == (0, 8, 8, groups.shared_bytes)
    assert groups.part(3, 2).item() == (number, 3, 2, 8, shared)
    state, source, destination = groups.channel_arg(channel).item()
    assert groups.channel_arg(channel).itemsize == 16
    assert (source, destination) == (1, 1)
    words = groups.words(channel)
    assert words == (number, 8 << 32, 8 | shared << 32, state, 1 | 1 << 32)
    with pytest.raises(mgi.InvalidArgument, match="blocks 7 to 9 of 8"):
        groups.part(7, 2)
    groups.abandon()
    assert channel.stats()["rows"] == 0


def test_words_are_signed_numbers_for_a_pure_source(runtime: mgi.Runtime) -> None:
    source, sink = runtime.create_endpoint("cuda:0"), runtime.create_endpoint("cuda:0")
    channel = runtime.create_channel([source], [sink], SCHEMA, mgi.Broadcast())
    groups = runtime.attach(source, [channel])
    none = 0xFFFFFFFF
    assert groups.channel_arg(channel).item()[1:] == (0, none)
    assert groups.words(channel)[4] == (none << 32) - (1 << 64)
    groups.abandon()


def test_few_tile_rows_take_little_shared_memory(runtime: mgi.Runtime) -> None:
    large, ends = channel_on(runtime)
    small = runtime.create_channel(
        ends, ends, SCHEMA, mgi.Partition("key"), tile_rows=1024, max_groups=4
    )
    sizes = []
    for channel in (large, small):
        groups = runtime.attach(ends[0], [channel])
        sizes.append(groups.shared_bytes)
        groups.abandon()
    # The calls of an endpoint may be on any of its channels.
    runtime.delete_channel(large)
    groups = runtime.attach(ends[0], [small])
    assert groups.shared_bytes < 48 << 10
    assert groups.shared_bytes < sizes[0]
    more = runtime.attach(ends[1], [small], shared_bytes=1000)
    assert more.shared_bytes == groups.shared_bytes + 1008
    assert more.shared_bytes % 16 == 0
    groups.abandon()
    more.abandon()


class Stream:
    """As CuPy's."""

    def __init__(self, ptr: int) -> None:
        self.ptr = ptr


def test_a_kernel_that_ends_without_a_flush_fails_its_channel(
    driver: Driver, runtime: mgi.Runtime
) -> None:
    channel, ends = channel_on(runtime)
    groups = runtime.attach(ends[0], [channel], blocks=2)
    may_end = threading.Event()
    stream = driver.stream(0)
    keep = driver.launch(stream, may_end.wait)
    groups.launched(Stream(stream))
    with pytest.raises(mgi.Timeout, match="2 of 2 groups"):
        groups.wait(timeout=0.05)
    assert not groups.done
    may_end.set()
    with pytest.raises(mgi.Error):
        groups.wait(timeout=10)
    assert groups.done
    with pytest.raises(mgi.Error):
        channel.stats()
        runtime.attach(ends[1], [channel]).wait(timeout=10)
    del keep


def test_groups_that_go_unlaunched_fail_their_channel(runtime: mgi.Runtime) -> None:
    source, sink = runtime.create_endpoint("cuda:0"), runtime.create_endpoint("cpu:0")
    channel = runtime.create_channel([source], [sink], SCHEMA, mgi.Broadcast())
    groups: Any = runtime.attach(source, [channel])
    del groups
    gc.collect()
    with pytest.raises(mgi.GroupFailed, match="launched was not called"):
        channel.recv(timeout=10)


def test_wrong_calls(driver: Driver, runtime: mgi.Runtime) -> None:
    channel, ends = channel_on(runtime)
    other, _ = channel_on(runtime)
    on_cpu = runtime.create_endpoint("cpu:0")
    groups = runtime.attach(ends[0], [channel], blocks=2)
    for call in (
        lambda: runtime.attach(on_cpu, [channel]),
        lambda: runtime.attach(ends[0], []),
        lambda: runtime.attach(ends[0], ["channel"]),  # type: ignore[list-item]
        lambda: runtime.attach(ends[0], [channel], threads=33),
        lambda: runtime.attach(ends[0], [channel], blocks=0),
        lambda: groups.channel_arg(other),
        lambda: groups.launched(driver.stream(0), first=1, count=2),
        lambda: groups.launched("stream"),
    ):
        with pytest.raises(mgi.InvalidArgument):
            call()
    groups.abandon()


class Protocol:
    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 77


class Torch:
    cuda_stream = 78


class Numba:
    handle = ctypes.c_void_p(79)


def test_streams_of_all_libraries() -> None:
    from mgi.kernels import stream_handle

    given = [None, 5, Protocol(), Torch(), Numba(), Stream(0)]
    assert [stream_handle(one) for one in given] == [0, 5, 77, 78, 79, 0]
    with pytest.raises(mgi.InvalidArgument, match="stream is True"):
        stream_handle(True)


def test_column_views_lie_as_the_device_headers_say(driver: Driver) -> None:
    key, value = driver.array([1, 2], gpu=1), driver.array([3.0, 4.0], gpu=1)
    table = mgi.GpuTable({"key": Interface(key), "value": Interface(value)})
    views = mgi.column_views(table)
    assert (views.device, len(views)) == ("cuda:1", 12)
    assert read(views).tolist() == [key.address, 0, 0, 0, 0, 0, value.address, 0, 0, 0, 0, 0]
    before = driver.alive("memory")
    del table, key, value
    gc.collect()
    assert driver.alive("memory") == before
    del views
    gc.collect()
    assert driver.alive("memory") == before - 3


def test_a_host_feeds_and_hears_of_gpus(driver: Driver, runtime: mgi.Runtime) -> None:
    """A channel between a CPU device and a GPU exists, and the host's side takes arrays of GPUs."""
    cpu, gpu = runtime.create_endpoint("cpu:0"), runtime.create_endpoint("cuda:0")
    channel = runtime.create_channel([cpu], [gpu], SCHEMA, mgi.Broadcast())
    rows = {
        "key": Interface(driver.array(np.arange(10, dtype="i4"))),
        "value": Interface(driver.array(np.arange(10))),
    }
    assert channel.send(rows) == 10
