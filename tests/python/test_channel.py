"""Channels: routings, both transfers, batches and their lifetime."""

from __future__ import annotations

import time

import mgi
import numpy as np
import pytest

KEY_VALUE = {"key": "int64", "value": "float64"}


def key_value(rows: int, seed: int = 1) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {"key": random.integers(0, rows, rows), "value": random.random(rows)}


def all_of(channel: mgi.Channel, destination: mgi.Endpoint) -> dict[str, np.ndarray]:
    """All columns that a destination receives, joined and copied."""
    parts: dict[str, list[np.ndarray]] = {name: [] for name in channel.schema.names}
    for batch in channel.batches(destination, timeout=60):
        for name, column in batch.to_numpy().items():
            parts[name].append(column.copy())
    return {name: np.concatenate([np.empty(0, "i8"), *part]) for name, part in parts.items()}


def same_rows(left: list[dict[str, np.ndarray]], right: list[dict[str, np.ndarray]]) -> bool:
    def rows(parts: list[dict[str, np.ndarray]]) -> list[tuple[float, ...]]:
        return sorted(
            row for part in parts for row in zip(*(part[n].tolist() for n in part), strict=True)
        )

    return rows(left) == rows(right)


@pytest.mark.parametrize("layout", ["columns", "rows"])
@pytest.mark.parametrize("hash_name", ["murmur3", "modulo"])
def test_partition(runtime, background, by_reference, layout, hash_name):
    sources = [runtime.create_endpoint("cpu") for _ in range(2)]
    destinations = [runtime.create_endpoint("cpu") for _ in range(3)]
    channel = runtime.create_channel(
        sources,
        destinations,
        KEY_VALUE,
        mgi.Partition("key", hash=hash_name),
        by_reference=by_reference,
        layout=layout,
    )
    sent = [key_value(50_000, seed) for seed in range(2)]

    def send(source: mgi.Endpoint, rows: dict[str, np.ndarray]) -> int:
        count = channel.send(rows, source=source)
        channel.flush(source)
        return count

    senders = [background(lambda s=s, r=r: send(s, r)) for s, r in zip(sources, sent, strict=True)]
    receivers = [background(lambda d=d: all_of(channel, d)) for d in destinations]
    assert [sender.join() for sender in senders] == [50_000, 50_000]
    got = [receiver.join() for receiver in receivers]
    assert same_rows(got, sent)
    owners = [set(part["key"].tolist()) for part in got]
    assert sum(map(len, owners)) == len(set().union(*owners)), "a key went to two destinations"
    if hash_name == "modulo":
        assert all((part["key"] % 3 == i).all() for i, part in enumerate(got))
    stats = channel.stats()
    assert stats["rows"] == 100_000
    assert sum(lane["rows"] for lane in stats["lanes"]) == 100_000
    assert {lane["source"] for lane in stats["lanes"]} == {source.id for source in sources}
    assert channel.plan()["transfer"] == ("by reference" if by_reference else "by copy")


def test_owners_say_whose_a_part_is(runtime, by_reference):
    source, *destinations = [runtime.create_endpoint("cpu") for _ in range(3)]
    routing = mgi.Partition("key", hash="modulo", owners=[1, 0, 1])
    channel = runtime.create_channel(
        [source], destinations, KEY_VALUE, routing, by_reference=by_reference
    )
    rows = key_value(1000)
    channel.send(rows)
    channel.flush()
    got = [all_of(channel, destination) for destination in destinations]
    assert same_rows(got, [rows])
    assert (got[0]["key"] % 3 == 1).all()
    assert (got[1]["key"] % 3 != 1).all()
    with pytest.raises(mgi.InvalidArgument, match="owners holds -1"):
        mgi.Partition("key", owners=[-1])
    with pytest.raises(mgi.InvalidArgument, match="destination 2"):
        runtime.create_channel([source], destinations, KEY_VALUE, mgi.Partition("key", owners=[2]))


def test_broadcast(runtime, by_reference):
    source, *destinations = [runtime.create_endpoint("cpu") for _ in range(3)]
    channel = runtime.create_channel(
        [source], destinations, KEY_VALUE, mgi.Broadcast(), by_reference=by_reference
    )
    rows = key_value(1000)
    assert channel.send(rows) == 1000
    channel.flush()
    for destination in destinations:
        assert same_rows([all_of(channel, destination)], [rows])


def test_direct(runtime, by_reference):
    source, *destinations = [runtime.create_endpoint("cpu") for _ in range(3)]
    channel = runtime.create_channel(
        [source], destinations, KEY_VALUE, mgi.Direct(), by_reference=by_reference
    )
    parts = [key_value(100, 1), key_value(200, 2)]
    for destination, rows in zip(destinations, parts, strict=True):
        assert channel.send_to(destination, rows) == len(rows["key"])
    channel.flush()
    for destination, rows in zip(destinations, parts, strict=True):
        assert same_rows([all_of(channel, destination)], [rows])


def test_broadcast_with_a_named_destination(runtime, by_reference):
    source, *destinations = [runtime.create_endpoint("cpu") for _ in range(3)]
    channel = runtime.create_channel(
        [source], destinations, KEY_VALUE, mgi.Broadcast(), by_reference=by_reference
    )
    to_all, named = key_value(100, 1), key_value(200, 2)
    assert channel.send(to_all) == 100
    assert channel.send_to(destinations[1], named) == 200
    channel.flush()
    first, second = [all_of(channel, destination) for destination in destinations]
    assert same_rows([first], [to_all])
    assert same_rows([second], [to_all, named])


def test_partition_with_a_named_destination(runtime, by_reference):
    source, *destinations = [runtime.create_endpoint("cpu") for _ in range(3)]
    channel = runtime.create_channel(
        [source], destinations, KEY_VALUE, mgi.Partition("key"), by_reference=by_reference
    )
    by_key, named = key_value(100, 1), key_value(200, 2)
    assert channel.send(by_key) == 100
    assert channel.send_to(destinations[1], named) == 200
    channel.flush()
    first, second = [all_of(channel, destination) for destination in destinations]
    assert len(second["key"]) >= 200
    assert same_rows([first, second], [by_key, named])


def test_balance(runtime, background, by_reference):
    source, *destinations = [runtime.create_endpoint("cpu") for _ in range(3)]
    channel = runtime.create_channel(
        [source], destinations, KEY_VALUE, mgi.Balance(), by_reference=by_reference
    )
    rows = key_value(300_000)
    receivers = [background(lambda d=d: all_of(channel, d)) for d in destinations]
    channel.send(rows)
    channel.flush()
    assert same_rows([receiver.join() for receiver in receivers], [rows])


def test_ordered(runtime, background, by_reference):
    source, destination = runtime.create_endpoint("cpu"), runtime.create_endpoint("cpu")
    channel = runtime.create_channel(
        [source],
        [destination],
        {"n": "int64"},
        mgi.Partition("n"),
        ordered=True,
        by_reference=by_reference,
        segment_rows=64,
    )
    receiver = background(lambda: all_of(channel, destination)["n"])
    channel.send(np.arange(20_000))
    channel.flush()
    assert (receiver.join() == np.arange(20_000)).all()


def test_messages(runtime, by_reference):
    source, *destinations = [runtime.create_endpoint("cpu") for _ in range(3)]
    channel = runtime.create_channel(
        [source], destinations, None, mgi.Direct(), by_reference=by_reference
    )
    messages = [b"", b"short", bytes(range(256)) * 10]
    for message in messages:
        assert channel.send_bytes(message, destination=destinations[1])
    assert channel.send_bytes(np.arange(3), destination=destinations[0])
    channel.flush()
    received = [
        text for b in channel.batches(destinations[1], timeout=60) for text in b.strings("message")
    ]
    assert received == messages
    (array,) = channel.recv(destinations[0], timeout=60).strings("message")
    assert np.frombuffer(array, "i8").tolist() == [0, 1, 2]


def test_push_publishes_half_full_segments(runtime, by_reference):
    endpoint = runtime.create_endpoint("cpu")
    channel = runtime.create_channel(
        [endpoint], [endpoint], {"n": "int32"}, mgi.Broadcast(), by_reference=by_reference
    )
    channel.send(np.arange(3, dtype="i4"))
    with pytest.raises(mgi.Timeout, match=f"endpoint {endpoint.id}"):
        channel.recv(timeout=0.05)
    channel.push()
    assert channel.recv(timeout=60).to_numpy()["n"].tolist() == [0, 1, 2]


def test_send_without_waiting_accepts_a_prefix(runtime):
    source, destination = runtime.create_endpoint("cpu"), runtime.create_endpoint("cpu")
    channel = runtime.create_channel(
        [source], [destination], {"n": "int64"}, mgi.Broadcast(), segment_rows=64, slots=2
    )
    numbers = np.arange(10_000)
    first = channel.send(numbers, timeout=0)
    assert 0 < first < len(numbers)
    received: list[int] = []
    while len(received) < first and (batch := channel.recv(timeout=0.5)) is not None:
        received += batch.to_numpy()["n"].tolist()
        channel.push()
    assert received == list(range(first))


def test_kept_batches_do_not_stop_the_senders(runtime, background, by_reference):
    source, destination = runtime.create_endpoint("cpu"), runtime.create_endpoint("cpu")
    channel = runtime.create_channel(
        [source], [destination], KEY_VALUE, mgi.Partition("key"), by_reference=by_reference
    )
    rows = key_value(500_000)
    sender = background(lambda: (channel.send(rows), channel.flush()))
    batches = list(channel.batches(timeout=60))
    sender.join()
    assert same_rows([batch.to_numpy() for batch in batches], [rows])
    assert channel.stats()["detached_bytes"] > 0


def test_kept_batches_without_a_receive_limit_hold_up_the_sender(runtime, background):
    source, destination = runtime.create_endpoint("cpu"), runtime.create_endpoint("cpu")
    channel = runtime.create_channel(
        [source], [destination], KEY_VALUE, mgi.Partition("key"), receive_limit=0
    )
    rows = key_value(500_000)
    sender = background(lambda: (channel.send(rows), channel.flush()))
    kept: list[mgi.RecordBatch] = []
    with pytest.raises(mgi.Timeout):
        kept.extend(iter(lambda: channel.recv(timeout=0.5), None))
    copies = [{name: column.copy() for name, column in batch.to_numpy().items()} for batch in kept]
    kept.clear()
    copies.append(all_of(channel, destination))
    sender.join()
    assert same_rows(copies, [rows])


def test_kept_batches_have_a_limit(runtime, background):
    source, destination = runtime.create_endpoint("cpu"), runtime.create_endpoint("cpu")
    channel = runtime.create_channel(
        [source],
        [destination],
        {"n": "int64"},
        mgi.Broadcast(),
        receive_limit=1 << 20,
        segment_bytes=1 << 16,
        name="kept",
    )
    sender = background(lambda: (channel.send(np.arange(1_000_000)), channel.flush()))
    kept: list[mgi.RecordBatch] = []
    with pytest.raises(mgi.OutOfMemory, match=r"'kept'.*receive_limit"):
        kept.extend(channel.batches(timeout=60))
    assert kept
    rows = [batch.to_numpy()["n"].copy() for batch in kept]
    kept.clear()
    rows += [batch.to_numpy()["n"].copy() for batch in channel.batches(timeout=60)]
    sender.join()
    assert sorted(np.concatenate(rows).tolist()) == list(range(1_000_000)), "nothing was lost"


def test_batches_outlive_their_channel_and_runtime():
    with mgi.Runtime.local() as runtime:
        endpoint = runtime.create_endpoint("cpu")
        with runtime.create_channel(
            [endpoint], [endpoint], {"n": "int64"}, mgi.Broadcast()
        ) as channel:
            channel.send(np.arange(1000))
            channel.flush()
            array = channel.recv().to_numpy()["n"]
    assert (array == np.arange(1000)).all()
    assert not array.flags.writeable


def test_a_slow_consumer_is_no_failure(runtime, background):
    source, destination = runtime.create_endpoint("cpu"), runtime.create_endpoint("cpu")
    channel = runtime.create_channel(
        [source], [destination], {"n": "int64"}, mgi.Broadcast(), gone_limit=0.2, receive_limit=0
    )
    sender = background(lambda: (channel.send(np.arange(1_000_000)), channel.flush()))
    rows = channel.recv(timeout=60).num_rows
    time.sleep(1)
    rows += sum(batch.num_rows for batch in channel.batches(timeout=60))
    sender.join()
    assert rows == 1_000_000


def test_two_threads_share_an_endpoint(runtime, background, by_reference):
    source, destination = runtime.create_endpoint("cpu"), runtime.create_endpoint("cpu")
    channel = runtime.create_channel(
        [source], [destination], KEY_VALUE, mgi.Partition("key"), by_reference=by_reference
    )
    parts = [key_value(100_000, seed) for seed in range(4)]
    receivers = [background(lambda: all_of(channel, destination)) for _ in range(2)]
    senders = [background(lambda p=p: channel.send(p)) for p in parts]
    assert [sender.join() for sender in senders] == [100_000] * 4
    channel.flush()
    assert same_rows([receiver.join() for receiver in receivers], parts)


def test_runtime_describes_itself(runtime):
    (device, *_) = runtime.devices
    assert device["name"] == "cpu:0"
    assert device["cores"]
    assert device["memory_bytes"] > 0
    graph = runtime.graph()
    names = {vertex["name"] for vertex in graph["vertices"] if vertex["managed"]}
    assert {device["name"] for device in runtime.devices} <= names
    assert all(edge["gbps"] > 0 for edge in graph["edges"])
    two = mgi.Runtime.local(cpu_devices=2)
    assert [device["name"] for device in two.devices] == ["cpu:0", "cpu:1"]
    assert [two.create_endpoint("cpu").device for _ in range(3)] == ["cpu:0", "cpu:1", "cpu:0"]


def test_endpoints_are_deleted_and_numbers_never_used_twice(runtime):
    first = runtime.create_endpoint("cpu:0")
    runtime.delete_endpoint(first)
    assert runtime.create_endpoint("cpu:0").id != first.id


def test_plan_names_the_ways(runtime):
    endpoint = runtime.create_endpoint("cpu")
    plan = runtime.create_channel(
        [endpoint], [endpoint], KEY_VALUE, mgi.Broadcast(), segment_rows=128, slots=4
    ).plan()
    assert (plan["segment_rows"], plan["slots"], plan["lanes"]) == (128, 4, 1)
    assert plan["tables"][0]["entries"][0].keys() == {"destination", "next", "path", "gbps"}


def test_log_levels():
    mgi.set_log_level("off")
    mgi.set_log_level("warn")
    with pytest.raises(mgi.InvalidArgument, match="loud"):
        mgi.set_log_level("loud")
