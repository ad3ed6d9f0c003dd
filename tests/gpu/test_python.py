"""The Python package on a real GPU: with PyTorch and CuPy, where they are, and the examples.

CUDA_MODULE_LOADING=EAGER python3 -m pytest tests/gpu/test_python.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")

import mgi
import numpy as np
import pyarrow as pa
import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(mgi._mgi.gpus() == 0, reason="needs a GPU")
ROWS = 300_000
RNG = np.random.default_rng(5)
KEYS = RNG.integers(0, 20_000, ROWS, dtype=np.int32)
VALUES = RNG.integers(-1000, 1000, ROWS, dtype=np.int64)
WEIGHTS = RNG.random(ROWS)
HOST = {"key": KEYS, "value": VALUES, "weight": WEIGHTS}


def of_torch() -> dict[str, Any]:
    torch = pytest.importorskip("torch")
    return {name: torch.from_numpy(values).cuda() for name, values in HOST.items()}


def of_cupy() -> dict[str, Any]:
    cupy = pytest.importorskip("cupy")
    return {name: cupy.asarray(values) for name, values in HOST.items()}


def of_numba() -> dict[str, Any]:
    cuda = pytest.importorskip("numba.cuda")
    return {name: cuda.to_device(values) for name, values in HOST.items()}


def of_arrow() -> mgi.GpuTable:
    return mgi.GpuTable.from_host(pa.table(HOST))


SOURCES = [of_torch, of_cupy, of_numba, of_arrow]


def rows_of(tables: Any) -> np.ndarray[Any, Any]:
    """All rows, sorted, as columns beside each other."""
    whole = pa.concat_tables([table.to_arrow() for table in tables])
    columns = np.array([column.to_numpy() for column in whole.columns])
    return columns[:, np.lexsort(columns[::-1])]


def expected_groups() -> np.ndarray[Any, Any]:
    keys, index, counts = np.unique(KEYS, return_inverse=True, return_counts=True)
    sums = np.bincount(index, VALUES)
    return np.array([keys, sums, counts])


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("endpoints", [None, 1, 4])
def test_exchange_keeps_every_row(source: Any, endpoints: int | None) -> None:
    parts = mgi.exchange(source(), key="key", endpoints=endpoints)
    assert len(parts) == (endpoints or 1)
    assert all(isinstance(part, mgi.GpuTable) for part in parts)
    order = np.lexsort((WEIGHTS, VALUES, KEYS))
    expected = np.array([KEYS[order], VALUES[order], WEIGHTS[order]])
    assert np.array_equal(rows_of(parts), expected)
    homes = [set(part.to_arrow()["key"].to_pylist()) for part in parts]
    assert sum(map(len, homes)) == len(set(KEYS.tolist()))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("endpoints", [1, 4])
@pytest.mark.parametrize("few", [None, 0])
def test_group_by(source: Any, endpoints: int, few: int | None) -> None:
    stats: dict[str, Any] = {}
    wanted = [("sum", "value", "sum"), ("count", None, "rows")]
    parts = mgi.group_by(
        source(), "key", wanted, endpoints=endpoints, stats=stats, one_endpoint_bytes=few
    )
    assert np.array_equal(rows_of(parts), expected_groups())
    assert stats["call_seconds"] > 0
    assert stats["at_one"] == (few is None and endpoints > 1)


def test_results_in_arrays_of_ones_own() -> None:
    torch = pytest.importorskip("torch")
    room = {
        "key": torch.zeros(30_000, dtype=torch.int32, device="cuda"),
        "sum": torch.zeros(30_000, dtype=torch.int64, device="cuda"),
        "rows": torch.zeros(30_000, dtype=torch.int64, device="cuda"),
    }
    wanted = [("sum", "value", "sum"), ("count", None, "rows")]
    (part,) = mgi.group_by(of_torch(), "key", wanted, out=room)
    expected = expected_groups()
    assert np.array_equal(rows_of([part]), expected)
    rows = expected.shape[1]
    assert len(part) == rows
    for name in room:
        column = torch.from_dlpack(part[name])
        assert column.data_ptr() == room[name].data_ptr()
        assert not room[name][rows:].any()
    small = {name: array[:100] for name, array in room.items()}
    with pytest.raises(mgi.InvalidArgument, match=f"room for 100 rows.*{rows}"):
        mgi.group_by(of_torch(), "key", wanted, out=small)
    with pytest.raises(mgi.InvalidArgument, match="are on the host"):
        mgi.exchange(pa.table(HOST), "key", endpoints=2, out=room)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("endpoints", [1, 4])
@pytest.mark.parametrize("few", [None, 0])
def test_sort(source: Any, endpoints: int, few: int | None) -> None:
    stats: dict[str, Any] = {}
    by = [("key", "desc"), "value", "weight"]
    parts = mgi.sort(source(), by, endpoints=endpoints, stats=stats, one_endpoint_bytes=few)
    assert all(isinstance(part, mgi.GpuTable) for part in parts)
    whole = pa.concat_tables([part.to_arrow() for part in parts])
    order = np.lexsort((WEIGHTS, VALUES, -KEYS))
    for name, values in HOST.items():
        assert np.array_equal(whole[name].to_numpy(), values[order])
    assert {"sort", "gather"} <= stats["phases"].keys()


@pytest.mark.parametrize("endpoints", [1, 3])
@pytest.mark.parametrize("nulls", ["first", "last"])
def test_sort_as_on_cpus(endpoints: int, nulls: Any) -> None:
    names = [None if key % 7 == 0 else f"name {key % 1000}" for key in KEYS.tolist()]
    floats = np.where(VALUES % 9 == 0, np.nan, VALUES / 4)
    table = pa.table({"name": names, "x": floats, "row": np.arange(ROWS)})
    by = [("name", "desc"), "x", ("row", "desc")]
    with mgi.Runtime.local() as runtime:
        places = [runtime.create_endpoint("cuda:0") for _ in range(endpoints)]
        results = [
            pa.concat_tables(part.to_arrow() for part in parts)
            for parts in (
                mgi.sort(mgi.GpuTable.from_host(table), by, nulls, endpoints=endpoints),
                mgi.sort(table, by, nulls, endpoints=places, runtime=runtime),
                mgi.sort(table, by, nulls, endpoints=endpoints),
            )
        ]
    for result in results[:2]:
        assert result["row"].to_pylist() == results[2]["row"].to_pylist()
        assert result["name"].to_pylist() == results[2]["name"].to_pylist()


@pytest.mark.parametrize("endpoints", [1, 4])
def test_aggregates_as_on_cpus(endpoints: int) -> None:
    table = pa.table({"key": KEYS % 1000, "value": VALUES % 77, "x": VALUES / 4 + 1e9})
    wanted = [("count_distinct", "value", "different"), ("first", "value", "any")]
    wanted += [("count_distinct", "x", "xs"), ("var", "x", "var"), ("std", "value", "std")]
    results = [
        pa.concat_tables(part.to_arrow() for part in parts).sort_by("key")
        for parts in (
            mgi.group_by(mgi.GpuTable.from_host(table), "key", wanted, endpoints=endpoints),
            mgi.group_by(table, "key", wanted, endpoints=endpoints),
        )
    ]
    for name in results[0].column_names:
        on_gpu, on_cpu = (result[name].to_numpy() for result in results)
        assert np.allclose(on_gpu, on_cpu, rtol=1e-9, atol=0, equal_nan=True), name


# Of texts some share their first characters, and some are empty, null, or have zeros.
@pytest.mark.parametrize("limit", [None, 8 << 20])
@pytest.mark.parametrize("groups", [3, 100_000])
@pytest.mark.parametrize("endpoints", [1, 4])
def test_extremes_of_long_values_as_on_cpus(endpoints: int, groups: int, limit: int | None) -> None:
    words = [None, "", "\0", "a text", "a text\0", *(f"a text with {n}" for n in range(500))]
    texts = [words[value] for value in VALUES % len(words)]
    table = pa.table(
        {
            "key": VALUES * 7919 % groups,
            "text": pa.array(texts, pa.string_view()),
            "bytes": pa.array([text and text.encode() for text in texts], pa.large_binary()),
            "code": pa.array([b"%04d" % (value % 3000) for value in KEYS], pa.binary(4)),
            "price": pa.array(KEYS * 1000 - 7_000_000).cast(pa.decimal128(38, 18)),
        }
    )
    columns = ("text", "bytes", "code", "price")
    wanted = [(f, c, f"{f} {c}") for f in ("min", "max", "first") for c in columns]
    if limit is None:  # else all rows of a key would have to fit
        wanted.append(("count_distinct", "code", "codes"))

    def by_key(parts: Any) -> dict[int, tuple[Any, ...]]:
        whole = [row for part in parts for row in part.to_arrow().to_pylist()]
        return {row["key"]: tuple(row.values()) for row in whole}

    expected = by_key(mgi.group_by(table, "key", wanted, endpoints=endpoints))
    assert len(expected) == min(groups, 2000)
    with mgi.Runtime.local() as runtime:
        gpus = [runtime.create_endpoint("cuda:0") for _ in range(endpoints)]
        given = {"endpoints": gpus, "runtime": runtime, "receive_limit": limit}
        for source in [table] if limit else [table, mgi.GpuTable.from_host(table)]:
            assert by_key(mgi.group_by(source, "key", wanted, **given)) == expected


@pytest.mark.parametrize("endpoints", [1, 4])
def test_join(endpoints: int) -> None:
    keys = np.arange(0, 20_000, 2, dtype=np.int32)
    right = mgi.GpuTable.from_host({"key": keys, "other": keys * 3})
    parts = mgi.join(of_arrow(), right, on="key", left_columns=["value"], right_columns=["other"],
                     endpoints=endpoints)  # fmt: skip
    hit = KEYS % 2 == 0
    order = np.lexsort((KEYS[hit] * 3, VALUES[hit]))
    expected = np.array([VALUES[hit][order], KEYS[hit][order] * 3])
    assert np.array_equal(rows_of(parts), expected)


@pytest.mark.parametrize("limit", [None, 4 << 20])
@pytest.mark.parametrize("endpoints", [1, 3])
def test_tables_in_host_memory(endpoints: int, limit: int | None) -> None:
    host = pa.table(HOST)
    keys = np.arange(0, 20_000, 2, dtype=np.int64)
    right = pa.table({"key": keys, "other": keys * 3})
    stats: dict[str, Any] = {}
    with mgi.Runtime.local() as runtime:
        gpus = [runtime.create_endpoint("cuda:0") for _ in range(endpoints)]
        given = {"endpoints": gpus, "runtime": runtime, "receive_limit": limit, "stats": stats}
        order = np.lexsort((WEIGHTS, VALUES, KEYS))
        moved = mgi.exchange(host, key="key", **given)
        assert all(isinstance(part, mgi.Table) for part in moved)
        assert np.array_equal(rows_of(moved), np.array([KEYS, VALUES, WEIGHTS])[:, order])
        wanted = [("sum", "value", "sum"), ("count", None, "rows")]
        groups = mgi.group_by(host, "key", wanted, **given)
        assert np.array_equal(rows_of(groups), expected_groups())
        assert stats["rounds"] > 1 or limit is None
        joined = mgi.join(
            host,
            right,
            on="key",
            how="left",
            left_columns=["key"],
            right_columns=["other"],
            **given,
        )
        result = pa.concat_tables(part.to_arrow() for part in joined).to_pydict()
        assert sorted(result["key"]) == sorted(KEYS.tolist())
        assert all(
            other == (None if key % 2 else 3 * key)
            for key, other in zip(result["key"], result["other"], strict=True)
        )
        assert stats["rounds"] > 1 or limit is None or endpoints > 1
        assert {"upload", "download", "join"} <= set(stats["phases"])
        given = {"endpoints": gpus[:1], "runtime": runtime}
        (beside,) = mgi.join(of_arrow(), right, on="key", left_columns=["value"], **given)
        assert isinstance(beside, mgi.GpuTable)


def test_tables_on_gpus_spill() -> None:
    stats: dict[str, Any] = {}
    wanted = [("sum", "value", "sum"), ("count", None, "rows")]
    given = {"receive_limit": 1 << 20, "stats": stats}
    (groups,) = mgi.group_by(of_arrow(), "key", wanted, **given)
    assert isinstance(groups, mgi.GpuTable)
    assert np.array_equal(rows_of([groups]), expected_groups())
    assert stats["rounds"] > 1
    assert "spill" in stats["phases"]
    with pytest.raises(mgi.OutOfMemory, match="spill_limit"):
        mgi.group_by(of_arrow(), "key", wanted, spill_limit=1, **given)


@pytest.mark.parametrize("endpoints", [1, 2, 3, 5])
def test_nulls_and_bits_come_through(endpoints: int) -> None:
    table = pa.table(
        {
            "key": pa.array(KEYS[:1000] % 10, mask=VALUES[:1000] > 500),
            "flag": pa.array(VALUES[:1000] > 0, mask=VALUES[:1000] < -500),
        }
    )
    parts = mgi.exchange(mgi.GpuTable.from_host(table), key="key", endpoints=endpoints)
    whole = pa.concat_tables([part.to_arrow() for part in parts])
    order = [("key", "ascending"), ("flag", "ascending")]
    assert whole.sort_by(order).equals(table.sort_by(order))


def test_results_are_arrays_of_others_without_a_copy() -> None:
    totals = mgi.group_by(of_arrow(), "key", [("sum", "value", "sum")])[0]
    expected = np.sort(expected_groups()[1])
    column = totals["sum"]
    values = column.values if column.nullable else column
    address = values.__cuda_array_interface__["data"][0]
    torch = pytest.importorskip("torch")
    tensor = torch.from_dlpack(values)
    cupy = pytest.importorskip("cupy")
    array = cupy.from_dlpack(values)
    assert tensor.data_ptr() == array.data.ptr == cupy.asarray(values).data.ptr == address
    del totals, column, values
    assert np.array_equal(np.sort(tensor.cpu().numpy()), expected)
    assert np.array_equal(np.sort(array.get()), expected)


def test_work_in_a_stream_of_theirs_is_waited_for() -> None:
    torch = pytest.importorskip("torch")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        keys = torch.arange(ROWS, device="cuda", dtype=torch.int64)
        assert mgi.GpuTable({"key": keys})["key"].values is not None
        assert stream.query()
    cupy = pytest.importorskip("cupy")
    other = cupy.cuda.Stream(non_blocking=True)
    with other:
        values = cupy.arange(10_000_000, dtype=cupy.int64) * 3
        table = mgi.GpuTable({"key": values})
    assert table.to_arrow()["key"][9_999_999].as_py() == 29_999_997


def test_operators_work_behind_pytorchs_stream() -> None:
    torch = pytest.importorskip("torch")
    source = of_torch()
    for stream in (torch.cuda.Stream(), torch.cuda.default_stream()):
        with torch.cuda.stream(stream):
            late = {name: torch.zeros_like(values) for name, values in source.items()}
            torch.cuda.synchronize()
            torch.cuda._sleep(200_000_000)
            for name, values in source.items():
                late[name].copy_(values)
            parts = mgi.group_by(late, "key", [("sum", "value", "sum"), ("count", None, "rows")])
        assert np.array_equal(rows_of(parts), expected_groups())


def test_operators_work_behind_cupys_stream() -> None:
    cupy = pytest.importorskip("cupy")
    source = of_cupy()
    sleep = cupy.RawKernel(
        'extern "C" __global__ void nap() { long long t = clock64();'
        " while (clock64() - t < 200000000); }",
        "nap",
    )
    sleep.compile()
    late = {name: cupy.zeros_like(values) for name, values in source.items()}
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True):
        sleep((1,), (1,), ())
        for name, values in source.items():
            late[name].data.copy_from_device_async(
                values.data, values.nbytes, cupy.cuda.get_current_stream()
            )
        parts = mgi.group_by(late, "key", [("sum", "value", "sum"), ("count", None, "rows")])
    assert np.array_equal(rows_of(parts), expected_groups())


@pytest.mark.parametrize("endpoints", [1, 4])
@pytest.mark.parametrize("name", ["cupy", "torch", "rmm"])
def test_memory_is_the_librarys(name: str, endpoints: int) -> None:
    library = pytest.importorskip(name)
    of_library = getattr(mgi, f"{name}_allocator")()
    out: set[int] = set()
    asked = []

    class Counting:
        def allocate(self, gpu: int, size: int) -> int:
            asked.append(size)
            address = of_library.allocate(gpu, size)
            out.add(address)
            return address

        def deallocate(self, gpu: int, address: int, size: int) -> None:
            out.remove(address)
            of_library.deallocate(gpu, address, size)

    if hasattr(of_library, "allocate_in_stream"):

        def allocate(self: Any, gpu: int, size: int, stream: int) -> int:
            asked.append(size)
            address = of_library.allocate_in_stream(gpu, size, stream)
            out.add(address)
            return address

        def deallocate(self: Any, gpu: int, address: int, size: int, stream: int) -> None:
            out.remove(address)
            of_library.deallocate_in_stream(gpu, address, size, stream)

        Counting.allocate_in_stream = allocate  # type: ignore[attr-defined]
        Counting.deallocate_in_stream = deallocate  # type: ignore[attr-defined]
    source = of_torch() if library.__name__ == "torch" else of_cupy()
    wanted = [("sum", "value", "sum"), ("count", None, "rows")]
    for _ in range(3):
        parts = mgi.group_by(source, "key", wanted, endpoints=endpoints, allocator=Counting())
        assert asked
        assert len(out) == sum(part.num_rows > 0 for part in parts)
        assert np.array_equal(rows_of(parts), expected_groups())
        del parts
        assert not out


def test_host_sends_what_lies_on_a_gpu_and_kernels_are_not_needed() -> None:
    with mgi.Runtime.local() as runtime:
        a, b = runtime.create_endpoint("cpu:0"), runtime.create_endpoint("cpu:0")
        schema = {"key": "int32", "value": "int64", "weight": "float64"}
        with runtime.create_channel([a], [b], schema, mgi.Broadcast()) as channel:
            sent = {name: values[:1000] for name, values in of_cupy().items()}
            assert channel.send(sent) == 1000
            channel.flush()
            rows = pa.Table.from_batches([pa.record_batch(x) for x in channel.batches()])
    assert rows["value"].to_pylist() == VALUES[:1000].tolist()


def test_views_and_bool_are_refused_with_a_word() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(mgi.InvalidArgument, match="gaps between"):
        mgi.GpuTable({"a": torch.arange(10, device="cuda")[::2]})
    with pytest.raises(mgi.InvalidArgument, match="is bool"):
        mgi.GpuTable({"a": torch.zeros(3, device="cuda", dtype=torch.bool)})
    with pytest.raises(mgi.InvalidArgument, match="requires? grad"):
        mgi.GpuTable({"a": torch.zeros(3, device="cuda", requires_grad=True)})


@pytest.mark.parametrize("name", ["cupy_kernel", "numba_kernel"])
def test_examples(name: str) -> None:
    if name == "numba_kernel":
        probe = "from numba import cuda; cuda.jit('void(int64[::1])')(lambda a: None)"
        if subprocess.run([sys.executable, "-c", probe], capture_output=True).returncode != 0:
            pytest.skip("Numba compiles no kernel here")
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
    ended = subprocess.run(command, timeout=120, capture_output=True, text=True)
    print(ended.stdout, ended.stderr)
    assert ended.returncode == 0
    assert "every sum is right" in ended.stdout or "not installed" in ended.stdout
