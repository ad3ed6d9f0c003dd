"""Bad input at channels: a clear error that names the offender, nothing lost, nothing hung."""

from __future__ import annotations

import time

import mgi
import numpy as np
import pytest

KEY_VALUE = {"key": "int64", "value": "float64"}
ROWS = {"key": np.arange(100), "value": np.zeros(100)}


@pytest.fixture
def ends(runtime):
    return runtime.create_endpoint("cpu"), runtime.create_endpoint("cpu")


@pytest.fixture
def channel(runtime, ends):
    source, destination = ends
    return runtime.create_channel(
        [source], [destination], KEY_VALUE, mgi.Partition("key"), name="orders"
    )


def test_channels_that_cannot_be(runtime, ends):
    source, destination = ends
    gone = runtime.create_endpoint("cpu")
    runtime.delete_endpoint(gone)
    stranger = mgi.Runtime.local().create_endpoint("cpu")

    def create(sources=(source,), destinations=(destination,), schema=KEY_VALUE, routing=None, **o):
        return runtime.create_channel(
            list(sources), list(destinations), schema, routing or mgi.Partition("key"), **o
        )

    wrong = [
        (lambda: create(sources=[]), "source"),
        (lambda: create(destinations=[]), "destination"),
        (lambda: create(sources=[source, source]), f"endpoint {source.id}"),
        (lambda: create(destinations=[destination] * 2), f"endpoint {destination.id}"),
        (lambda: create(sources=["cpu:0"]), "sources is 'cpu:0'"),
        (lambda: create(sources=[stranger]), f"{stranger.id} belongs to another runtime"),
        (lambda: runtime.create_channel(source, [destination], KEY_VALUE, mgi.Direct()), "list"),
        (lambda: create(routing=mgi.Partition("absent")), "absent"),
        (lambda: create(routing=mgi.Partition("key", hash="crc")), "no hash 'crc'"),
        (lambda: create(routing=mgi.Partition("value", hash="modulo")), "value"),
        (lambda: create(routing="partition"), "routing is 'partition'"),
        (lambda: create(schema=None), "schema"),
        (lambda: create(schema={}), "column"),
        (lambda: create(layout="diagonal"), "no layout 'diagonal'"),
        (lambda: create(layout="rows", schema={"key": "int64", "s": "string"}), "'s'"),
        (lambda: create(layout="rows", schema={"key": "int64", "n": "int8?"}), "'n'"),
        (lambda: create(segment_bytes=0), "segment_bytes is 0"),
        (lambda: create(segment_bytes=4), "segment_bytes 4"),
        (lambda: create(slots=0), "slots is 0"),
        (lambda: create(slots=2.5), "slots is 2.5"),
        (lambda: create(credits=0, by_reference=False), "credits is 0"),
        (lambda: create(slots=2**40), "slots"),
        (lambda: create(stall_limit=-1), "stall_limit is -1"),
        (lambda: create(weight=0), "a weight is from 0.001 to 1000, not 0"),
        (lambda: create(weight=float("nan")), "a weight is from 0.001 to 1000, not nan"),
        (lambda: create(weight="3"), "weight is '3'"),
        (lambda: mgi.Partition([]), "key is empty"),
        (lambda: mgi.Runtime.local(cpu_devices=0), "cpu_devices is 0"),
        (lambda: mgi.Runtime.local(memory_limit=-5), "memory_limit is -5"),
    ]
    for call, message in wrong:
        with pytest.raises(mgi.InvalidArgument, match=message):
            call()
    with pytest.raises(mgi.Error, match=f"endpoint {gone.id}") as error:
        create(sources=[gone])
    assert error.value.code in ("NotFound", "InvalidArgument")


def test_a_pool_beyond_the_memory_limit():
    runtime = mgi.Runtime.local(memory_limit=1 << 20)
    endpoint = runtime.create_endpoint("cpu")
    with pytest.raises(mgi.OutOfMemory, match=r"'big'.*memory limit"):
        runtime.create_channel(
            [endpoint], [endpoint], KEY_VALUE, mgi.Direct(), segment_bytes=1 << 20, name="big"
        )


def test_devices_and_endpoints_that_do_not_exist(runtime, channel, ends):
    with pytest.raises(mgi.NotFound, match=r"cpu:7.*cpu:0") as error:
        runtime.create_endpoint("cpu:7")
    assert isinstance(error.value, LookupError)
    with pytest.raises(mgi.InvalidArgument, match="device is 7"):
        runtime.create_endpoint(7)
    with pytest.raises(mgi.InvalidArgument, match=f"{ends[0].id}"):
        runtime.delete_endpoint(ends[0])  # the channel uses it
    runtime.delete_channel(channel)
    runtime.delete_endpoint(ends[0])
    with pytest.raises(mgi.NotFound, match=f"{ends[0].id}"):
        runtime.delete_endpoint(ends[0])


def test_the_wrong_end(channel, ends):
    source, destination = ends
    with pytest.raises(mgi.InvalidArgument, match=f"'orders'.*endpoint {source.id}.*destination"):
        channel.recv(source)
    with pytest.raises(mgi.InvalidArgument, match=f"'orders'.*endpoint {destination.id}.*source"):
        channel.send(ROWS, source=destination)
    with pytest.raises(mgi.InvalidArgument, match=f"'orders'.*endpoint {destination.id}.*source"):
        channel.flush(destination)
    with pytest.raises(mgi.InvalidArgument, match="source is 'a'"):
        channel.send(ROWS, source="a")


def test_which_end_must_be_said(runtime):
    ends = [runtime.create_endpoint("cpu") for _ in range(2)]
    channel = runtime.create_channel(ends, ends, KEY_VALUE, mgi.Partition("key"), name="both")
    with pytest.raises(mgi.InvalidArgument, match="'both' has 2 sources"):
        channel.send(ROWS)
    with pytest.raises(mgi.InvalidArgument, match="'both' has 2 destinations"):
        channel.recv()


def test_send_to(runtime, channel, ends):
    source, destination = ends
    other = runtime.create_endpoint("cpu")
    direct = runtime.create_channel(
        [source], [destination], KEY_VALUE, mgi.Direct(), name="letters"
    )
    with pytest.raises(mgi.InvalidArgument, match=f"'letters'.*endpoint {other.id}"):
        direct.send_to(other, ROWS)
    with pytest.raises(mgi.InvalidArgument, match=r"'letters'.*send_to"):
        direct.send(ROWS)
    with pytest.raises(mgi.InvalidArgument, match=f"'orders'.*endpoint {other.id}"):
        channel.send_to(other, ROWS)
    to_all = runtime.create_channel(
        [source], [destination], KEY_VALUE, mgi.Broadcast(), name="news"
    )
    with pytest.raises(mgi.InvalidArgument, match=f"'news'.*endpoint {other.id}"):
        to_all.send_to(other, ROWS)
    to_any = runtime.create_channel([source], [destination], KEY_VALUE, mgi.Balance(), name="work")
    with pytest.raises(mgi.InvalidArgument, match=r"'work'.*Balance.*Direct channel"):
        to_any.send_to(destination, ROWS)
    with pytest.raises(mgi.InvalidArgument, match=r"'orders' .*schema"):
        channel.send_bytes(b"raw")


def test_another_schema(channel):
    pa = pytest.importorskip("pyarrow")
    wrong = [
        pa.record_batch({"key": [1], "worth": [1.0]}),
        pa.record_batch({"key": [1]}),
        pa.record_batch({"value": [1.0], "key": [1]}),
        pa.record_batch({"key": pa.array([1], pa.int32()), "value": [1.0]}),
        pa.table({"key": [1], "worth": [1.0]}),
        pa.table({"key": [1], "worth": [1.0]}).schema.empty_table(),
        pa.RecordBatchReader.from_batches(pa.schema({"worth": pa.int64()}), iter([])),
    ]
    for rows in wrong:
        with pytest.raises(mgi.InvalidArgument, match="key: int64, value: double"):
            channel.send(rows)
    with pytest.raises(mgi.InvalidArgument, match="'value' is not nullable"):
        channel.send(pa.record_batch({"key": [1], "value": pa.array([None], pa.float64())}))
    with pytest.raises(mgi.Error, match=r"struct|record batch"):
        channel.send(pa.array([1, 2, 3]))
    assert channel.send(ROWS) == 100, "a refused batch leaves the channel as it was"


def test_send_after_flush(channel, ends):
    assert channel.send(ROWS) == 100
    channel.flush()
    with pytest.raises(mgi.Closed, match=r"'orders'.*flush") as error:
        channel.send(ROWS)
    assert error.value.rows_accepted == 0
    assert sum(batch.num_rows for batch in channel.batches(timeout=60)) == 100


def test_a_row_that_fits_no_segment(runtime):
    pa = pytest.importorskip("pyarrow")
    endpoint = runtime.create_endpoint("cpu")
    schema = pa.schema({"s": pa.string()})
    channel = runtime.create_channel(
        [endpoint], [endpoint], schema, mgi.Broadcast(), segment_bytes=4096, name="texts"
    )
    texts = ["short", "a text that is longer", "x" * 100_000, "last"]
    with pytest.raises(mgi.Refused, match=r"'texts'.*row 2") as error:
        channel.send(pa.record_batch({"s": texts}))
    assert error.value.rows_accepted == 2
    channel.flush()
    got = [text for batch in channel.batches(timeout=60) for text in batch.strings("s")]
    assert got == texts[:2]


def test_timeouts(channel, ends):
    with pytest.raises(TimeoutError, match=f"'orders'.*endpoint {ends[1].id}"):
        channel.recv(timeout=0)
    started = time.monotonic()
    with pytest.raises(mgi.Timeout) as error:
        channel.recv(timeout=0.2)
    assert 0.15 < time.monotonic() - started < 5
    assert error.value.code == "Timeout"
    for wrong in (-1, float("nan")):
        with pytest.raises(mgi.InvalidArgument, match="timeout is"):
            channel.recv(timeout=wrong)


def test_a_table_larger_than_the_pools_without_a_consumer(runtime, ends, by_reference):
    source, destination = ends
    channel = runtime.create_channel(
        [source],
        [destination],
        KEY_VALUE,
        mgi.Partition("key"),
        by_reference=by_reference,
        gone_limit=0.3,
        name="unread",
    )
    rows = {"key": np.arange(2_000_000), "value": np.zeros(2_000_000)}
    with pytest.raises(mgi.Timeout, match=rf"'unread'.*endpoint {source.id}") as late:
        channel.send(rows, timeout=0.1)
    assert 0 < late.value.rows_accepted < 2_000_000
    with pytest.raises(mgi.Stalled, match=f"'unread'.*endpoint {destination.id}"):
        channel.send(rows)
    with pytest.raises(mgi.Stalled):
        channel.recv(destination)


def test_a_source_that_never_flushes(runtime, ends, by_reference):
    source, destination = ends
    channel = runtime.create_channel(
        [source],
        [destination],
        KEY_VALUE,
        mgi.Partition("key"),
        by_reference=by_reference,
        stall_limit=0.3,
        name="open",
    )
    channel.send(ROWS)
    channel.push()
    assert channel.recv(timeout=60).num_rows == 100
    with pytest.raises(mgi.Stalled, match=r"'open'.*stall_limit"):
        channel.recv()
    with pytest.raises(mgi.Stalled):
        channel.send(ROWS)


def test_deleted_while_in_use(runtime, channel, background):
    receiver = background(channel.recv)
    time.sleep(0.1)
    runtime.delete_channel(channel)
    with pytest.raises(mgi.Deleted, match="'orders'"):
        receiver.join()
    with pytest.raises(mgi.Deleted, match="'orders'"):
        channel.send(ROWS)
    with pytest.raises(mgi.NotFound, match=r"'orders'|channel"):
        runtime.delete_channel(channel)


def test_a_closed_runtime(runtime, channel, ends, background):
    receiver = background(channel.recv)
    time.sleep(0.1)
    runtime.close()
    with pytest.raises(mgi.Deleted):
        receiver.join()
    with pytest.raises(mgi.Deleted):
        channel.send(ROWS)
    with pytest.raises(mgi.Deleted, match="closed"):
        runtime.create_endpoint("cpu")
    runtime.close()


def test_a_second_consumer_of_an_ordered_channel_takes_turns(runtime, ends, background):
    source, destination = ends
    channel = runtime.create_channel(
        [source], [destination], {"n": "int64"}, mgi.Partition("n"), ordered=True
    )
    receivers = [
        background(lambda: sum(batch.num_rows for batch in channel.batches(timeout=60)))
        for _ in range(2)
    ]
    channel.send(np.arange(100_000))
    channel.flush()
    assert sum(receiver.join() for receiver in receivers) == 100_000


def test_errors_say_their_code():
    kinds = [
        "InvalidArgument",
        "NotFound",
        "OutOfMemory",
        "Refused",
        "Closed",
        "Timeout",
        "Stalled",
        "GroupFailed",
        "Deleted",
        "Interrupted",
        "Internal",
    ]
    for name in kinds:
        kind = getattr(mgi, name)
        assert issubclass(kind, mgi.Error)
        assert issubclass(kind, RuntimeError)
        assert kind("text").code == name
