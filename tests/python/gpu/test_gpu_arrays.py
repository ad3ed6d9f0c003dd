"""Tables in GPU memory: what comes in, what goes out, who keeps the memory."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import mgi
import numpy as np
import pyarrow as pa
import pytest
from gpu_support import DlArray, Driver, Interface, read

KINDS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrap", [Interface, DlArray])
def test_every_type_comes_in_and_goes_out(driver: Driver, kind: str, wrap: Any) -> None:
    values = np.arange(100).astype(kind)
    table = mgi.GpuTable({"a": wrap(driver.array(values, gpu=1))})
    assert (table.num_rows, table.device, table.nbytes) == (100, "cuda:1", values.nbytes)
    assert np.array_equal(read(table["a"]), values)
    assert table["a"].__cuda_array_interface__["typestr"] == values.dtype.str
    assert pa.array(values).type == table.to_arrow().schema.field("a").type
    assert table.to_arrow()["a"].to_pylist() == values.tolist()
    again = mgi.GpuTable({"a": table["a"]})
    assert again.schema == table.schema
    assert np.array_equal(read(again["a"].values), values)


@pytest.mark.parametrize("old", [False, True])
def test_dlpack_is_told_our_stream_and_our_version(driver: Driver, old: bool) -> None:
    array = DlArray(driver.array([1, 2, 3]), old=old)
    mgi.GpuTable({"a": array})
    assert array.streams == [mgi._mgi.stream_of_gpu(0)]
    assert array.versions == [None if old else (1, 0)]


def test_memory_is_kept_by_every_view(driver: Driver) -> None:
    gc.collect()
    before = driver.alive("memory")
    table: Any = mgi.GpuTable(
        {"a": DlArray(driver.array([1, 2])), "b": Interface(driver.array([3, 4]))}
    )
    assert driver.alive("memory") == before + 2
    capsule = table["a"].__dlpack__(max_version=(1, 0))
    arrow = table.__arrow_c_device_array__()
    column = table["b"]
    values = column.values
    del table, column
    gc.collect()
    assert driver.alive("memory") == before + 2
    assert read(values).tolist() == [3, 4]
    del capsule, values
    gc.collect()
    assert driver.alive("memory") == before + 2
    del arrow
    gc.collect()
    assert driver.alive("memory") == before


def test_a_stream_in_the_interface_is_waited_for(driver: Driver) -> None:
    memory = driver.array([0, 0])
    may_write = threading.Event()
    stream = driver.stream(0)
    done: list[str] = []

    def write() -> None:
        may_write.wait(10)
        done.append("written")

    threading.Timer(0.05, may_write.set).start()
    keep = driver.launch(stream, write)
    mgi.GpuTable({"a": Interface(memory, stream=stream)})
    assert done == ["written"]
    del keep


def interface(driver: Driver, **other: Any) -> Interface:
    return Interface(driver.array(np.arange(4, dtype="i8")), **other)


WRONG = [
    ({"mask": object()}, "column 'a' has a mask"),
    ({"strides": (16,)}, "gaps between its elements"),
    ({"shape": (2, 2)}, "2 dimensions"),
    ({"typestr": ">i8"}, "no column type on a GPU"),
    ({"typestr": "<c16"}, "no column type on a GPU"),
    ({"typestr": "|b1"}, "view('uint8')"),
    ({"version": 1}, "version 1"),
    ({"stream": 0}, "the stream 0"),
    ({"stream": True}, "the stream True"),
    ({"data": (4096, False)}, "memory that is no GPU's"),
    ({"data": None}, "is incomplete"),
    ({"shape": None}, "is incomplete"),
]


@pytest.mark.parametrize(("other", "message"), WRONG)
def test_what_the_interface_may_not_say(
    driver: Driver, other: dict[str, Any], message: str
) -> None:
    with pytest.raises(mgi.InvalidArgument) as caught:
        mgi.GpuTable({"a": interface(driver, **other)})
    assert message in str(caught.value)
    assert "column 'a'" in str(caught.value)


def test_contiguous_strides_and_a_single_element_are_fine(driver: Driver) -> None:
    assert mgi.GpuTable({"a": interface(driver, strides=(8,))}).num_rows == 4
    one = Interface(driver.array([7]), strides=(4096,))
    assert read(mgi.GpuTable({"a": one})["a"]).tolist() == [7]


def test_values_must_lie_at_multiples_of_their_width(driver: Driver) -> None:
    memory = driver.array(np.zeros(4, "i8"))
    array = Interface(memory, data=(memory.address + 4, False), shape=(3,))
    with pytest.raises(mgi.InvalidArgument, match="no multiple of its width"):
        mgi.GpuTable({"a": array})


def test_wrong_dlpack(driver: Driver) -> None:
    for values, message in [
        (np.zeros(4, "?"), "view('uint8')"),
        (np.zeros(4, "f2"), "float16"),
        (np.zeros(4, "c16"), "complex128"),
    ]:
        with pytest.raises(mgi.InvalidArgument) as caught:
            mgi.GpuTable({"a": DlArray(driver.array(values))})
        assert message in str(caught.value)

    class Gradient(DlArray):
        def __dlpack__(self, **how: Any) -> object:
            raise BufferError("Can't export tensors that require gradient")

    with pytest.raises(mgi.InvalidArgument, match="column 'a' cannot be shared: Can't export"):
        mgi.GpuTable({"a": Gradient(driver.array([1]))})

    class Used(DlArray):
        def __dlpack__(self, **how: Any) -> object:
            capsule = super().__dlpack__(**how)
            mgi._mgi.DlTensor.take(capsule)
            return capsule

    with pytest.raises(mgi.InvalidArgument, match="unused DLPack capsule"):
        mgi.GpuTable({"a": Used(driver.array([1]))})


def test_tables_that_do_not_fit_together(driver: Driver) -> None:
    here, there = Interface(driver.array([1, 2])), Interface(driver.array([1, 2], gpu=1))
    short = Interface(driver.array([1]))
    for table, message in [
        ({"a": here, "b": there}, "column 'a' on cuda:0 and column 'b' on cuda:1"),
        ({"a": here, "b": short}, "column 'b' has 1 values and column 'a' 2"),
        ({"a": here, "b": np.arange(2)}, "column 'b' is not in a GPU's memory"),
        ({"a": np.arange(2)}, "is no table in a GPU's memory"),
        (pa.table({"a": [1]}), "is no table in a GPU's memory"),
    ]:
        with pytest.raises(mgi.InvalidArgument) as caught:
            mgi.GpuTable(table)
        assert message in str(caught.value)


def test_empty_tables(driver: Driver) -> None:
    table = mgi.GpuTable({"a": Interface(driver.array(np.zeros(0, "i4")))})
    assert (len(table), table.to_arrow().num_rows) == (0, 0)
    assert read(table["a"]).tolist() == []


def rows_with_nulls(count: int) -> pa.RecordBatch:
    rng = np.random.default_rng(3)
    return pa.record_batch(
        {
            "i": pa.array(rng.integers(0, 99, count), mask=rng.random(count) < 0.3),
            "f": pa.array(rng.random(count).astype("f4")),
            "b": pa.array(rng.random(count) < 0.5, mask=rng.random(count) < 0.3),
            "p": pa.array(rng.random(count) < 0.5),
            "d": pa.array(rng.integers(0, 9999, count).astype("i4")).cast(pa.date32()),
            "m": pa.array(rng.integers(-99, 99, count)).cast(pa.decimal128(21, 2)),
            "w": pa.array([b"%05d" % i if i % 3 else None for i in range(count)], pa.binary(5)),
            "s": pa.array(
                [None if i % 5 == 0 else "x" * (i % 23) + str(i) for i in range(count)], pa.string()
            ),
            "z": pa.array([b"%d" % (i * i) for i in range(count)], pa.large_binary()),
            "t": pa.array(rng.integers(0, 9**9, count)).cast(pa.timestamp("us", "UTC")),
            "c": pa.array([f"kind {i % 3}" for i in range(count)]).dictionary_encode(),
        }
    )


@pytest.mark.parametrize("first", [0, 1, 7, 8, 13])
@pytest.mark.parametrize("count", [0, 1, 5, 64, 1001])
def test_copies_to_a_gpu_and_back_keep_nulls_and_bits(
    driver: Driver, first: int, count: int
) -> None:
    batch = rows_with_nulls(first + count).slice(first, count)
    table = mgi.GpuTable.from_host(batch, "cuda:1")
    assert table.device == "cuda:1"
    assert table.to_arrow() == pa.Table.from_batches([batch])
    again = mgi.GpuTable(table)
    assert again.to_arrow().equals(table.to_arrow())


def test_arrays_are_exported_on_their_gpu(driver: Driver) -> None:
    class Telling(DlArray):
        def __dlpack__(self, **how: Any) -> object:
            seen.append(driver.current())
            return super().__dlpack__(**how)

    seen: list[int] = []
    driver.enter(0)
    mgi.GpuTable({"a": Telling(driver.array([1, 2, 3], gpu=1))})
    mgi.GpuTable({"a": Telling(driver.array([1, 2, 3], gpu=0))})
    assert seen == [1, 0]


def test_columns_of_empty_tables_belong_together(driver: Driver) -> None:
    table = mgi.GpuTable.from_host(rows_with_nulls(0), "cuda:1")
    made = mgi.GpuTable({"a": Interface(driver.array([], gpu=1)), "s": table["s"]})
    assert (made.num_rows, made.device) == (0, "cuda:1")


def test_tables_of_other_tables_columns(driver: Driver) -> None:
    batch = rows_with_nulls(200).slice(3, 100)
    table = mgi.GpuTable.from_host(batch, "cuda:1")
    array = DlArray(driver.array(np.arange(100), gpu=1))
    made = mgi.GpuTable({"first": table["s"], "array": array, "i": table["i"], "d": table["d"]})
    del table
    expected = pa.table(
        {"first": batch["s"], "array": np.arange(100), "i": batch["i"], "d": batch["d"]}
    )
    assert made.device == "cuda:1"
    assert made.to_arrow().equals(expected.cast(made.to_arrow().schema))
    assert made.to_arrow().schema.types == [
        batch["s"].type,
        pa.int64(),
        batch["i"].type,
        batch["d"].type,
    ]


def test_columns_that_do_not_belong_together_are_refused(driver: Driver) -> None:
    table = mgi.GpuTable.from_host(rows_with_nulls(10), "cuda:1")
    with pytest.raises(mgi.InvalidArgument, match="column 'b' has 3 rows, and others have 10"):
        mgi.GpuTable({"a": table["i"], "b": DlArray(driver.array([1, 2, 3], gpu=1))})
    with pytest.raises(
        mgi.InvalidArgument, match="column 'a' is on cuda:0, and others are on cuda:1"
    ):
        mgi.GpuTable({"a": DlArray(driver.array(np.arange(10), gpu=0)), "b": table["i"]})


def test_columns_with_nulls_are_no_arrays(driver: Driver) -> None:
    table = mgi.GpuTable.from_host(rows_with_nulls(100))
    column = table["i"]
    assert column.nullable
    with pytest.raises(BufferError, match="column 'i' may hold nulls"):
        column.__dlpack__()
    with pytest.raises(AttributeError, match="column 'i' may hold nulls"):
        _ = column.__cuda_array_interface__
    bits = np.unpackbits(read(column.validity), bitorder="little")[:100].astype(bool)
    expected = table.to_arrow()["i"]
    assert bits.tolist() == [value.is_valid for value in expected]
    assert read(column.values)[bits].tolist() == expected.drop_null().to_pylist()
    with pytest.raises(BufferError, match="column 'p' is bool"):
        table["p"].__dlpack__()
    packed = np.unpackbits(read(table["p"].values), bitorder="little")[:100]
    assert packed.astype(bool).tolist() == table.to_arrow()["p"].to_pylist()
    assert read(table["d"]).tolist() == table.to_arrow()["d"].cast(pa.int32()).to_pylist()
    assert read(table["t"]).tolist() == table.to_arrow()["t"].cast(pa.int64()).to_pylist()


def test_arrow_device_arrays_go_round(driver: Driver) -> None:
    table = mgi.GpuTable.from_host(rows_with_nulls(77))

    class Theirs:
        """As cuDF's tables."""

        def __arrow_c_device_array__(self, requested_schema: object = None, **how: Any) -> Any:
            return table.__arrow_c_device_array__()

    ours = mgi.GpuTable(Theirs())
    # What lies there of a dictionary are its values.
    expected = table.to_arrow()
    column = expected.schema.get_field_index("c")
    expected = expected.set_column(column, "c", expected["c"].cast(pa.string()))
    assert ours.to_arrow().equals(expected)
    assert read(ours["f"]).tolist() == read(table["f"]).tolist()
    assert pa.schema(ours) == expected.schema
    with pytest.raises(NotImplementedError, match="new_thing"):
        ours.__arrow_c_device_array__(new_thing=1)


def test_texts_and_decimals_are_no_arrays(driver: Driver) -> None:
    table = mgi.GpuTable.from_host(rows_with_nulls(20))
    assert read(table["w"].values).tobytes()[5:10] == b"00001"
    assert len(table["m"].values) == 16 * 20
    for column in ("m", "z"):
        with pytest.raises(BufferError, match=f"column '{column}' is .*arrays do not know"):
            table[column].__dlpack__()
    with pytest.raises(mgi.InvalidArgument, match="column 's' is string, whose values"):
        _ = table["s"].values


def test_views_come_from_the_host_by_offsets(driver: Driver) -> None:
    texts = ["a", None, "longer than any view holds in place", "", "another one that is long"]
    chunks = [texts, texts[::-1] * 9, []]  # of a buffer each
    binary = [[None if text is None else text.encode() for text in chunk] for chunk in chunks]
    views = pa.table(
        {
            "a": pa.chunked_array(chunks, pa.string_view()),
            "b": pa.chunked_array(binary, pa.binary_view()),
        }
    )
    for table in (views, views.slice(2, 31), views.combine_chunks(), views.slice(0, 0)):
        back = mgi.GpuTable.from_host(table).to_arrow()
        assert back.schema.types == table.schema.types
        assert back.to_pydict() == table.to_pydict()


def test_host_tables_go_their_way_on_a_machine_with_gpus(driver: Driver) -> None:
    table = pa.table({"a": [1, 2, 3]})
    for host in (table, table.to_batches()[0], {"a": np.arange(3)}):
        parts = mgi.exchange(host, key="a", endpoints=2)
        assert sum(part.num_rows for part in parts) == 3
        assert isinstance(parts[0], mgi.Table)


def test_dlpack_goes_only_where_the_array_is(driver: Driver) -> None:
    column = mgi.GpuTable({"a": Interface(driver.array([1], gpu=1))})["a"]
    assert column.__dlpack_device__() == (2, 1)
    tensor = mgi._mgi.DlTensor.take(column.__dlpack__(stream=1, dl_device=(2, 1), copy=False))
    assert (tensor.device, tensor.shape, tensor.strides) == ((2, 1), [1], [1])
    assert (tensor.code, tensor.bits, tensor.lanes) == (0, 64, 1)
    with pytest.raises(BufferError, match="does not copy"):
        column.__dlpack__(dl_device=(1, 0))
    with pytest.raises(BufferError, match="copy it where"):
        column.__dlpack__(copy=True)


def test_sending_from_a_gpu_copies_to_the_host(driver: Driver) -> None:
    with mgi.Runtime.local() as runtime:
        source, sink = runtime.create_endpoint("cpu:0"), runtime.create_endpoint("cpu:0")
        schema = {"key": "int64", "value": "float64"}
        with runtime.create_channel([source], [sink], schema, mgi.Broadcast()) as channel:
            key = DlArray(driver.array(np.arange(1000)))
            value = Interface(driver.array(np.arange(1000) / 2))
            assert channel.send({"value": value, "key": key}) == 1000
            table = mgi.GpuTable({"key": key, "value": value})
            assert channel.send(table) == 1000
            with pytest.raises(mgi.InvalidArgument, match="column 'key' is int64.*double"):
                channel.send({"key": value, "value": value})
            channel.flush()
            rows = pa.Table.from_batches([pa.record_batch(b) for b in channel.batches()])
        assert rows["key"].to_pylist() == [*range(1000)] * 2
        assert rows["value"].to_pylist() == [k / 2 for k in range(1000)] * 2
        with runtime.create_channel([source], [sink], {"one": "int64"}, mgi.Broadcast()) as channel:
            assert channel.send(key) == 1000


def test_operators_say_what_is_missing(driver: Driver) -> None:
    if mgi._mgi.gpu_operators:
        return
    with pytest.raises(mgi.NotFound, match="tables are on GPUs.*without nvcc.*MGI_BUILD_CUDA=ON"):
        mgi.exchange({"a": Interface(driver.array([1, 2]))}, key="a")


def test_tables_of_several_batches_come_from_the_host(driver: Driver) -> None:
    whole = pa.Table.from_batches([rows_with_nulls(rows) for rows in (20, 1001, 7)])
    assert whole.column(0).num_chunks > 1
    there = mgi.GpuTable.from_host(whole, "cuda:1")
    assert there.to_arrow().equals(whole.combine_chunks())
    assert mgi.GpuTable.from_host(whole.slice(0, 0)).to_arrow().num_rows == 0


def test_without_a_driver_the_error_says_so(tmp_path: Path) -> None:
    program = """
import mgi, pytest
class Array:
    __cuda_array_interface__ = {"shape": (1,), "typestr": "<i8", "data": (8, False), "version": 3}
for call in (lambda: mgi.GpuTable({"a": Array()}), lambda: mgi.exchange({"a": Array()}, key="a"),
             lambda: mgi.GpuTable.from_host({"a": [1]})):
    with pytest.raises(mgi.NotFound, match="no NVIDIA driver"):
        call()
"""
    environment = {"MGI_CUDA_LIBRARY": "libno-such-driver.so.1", "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=60)
