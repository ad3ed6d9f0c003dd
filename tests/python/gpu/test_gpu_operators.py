"""Which endpoints and tables the operators on GPUs are given; what they do runs on GPUs alone."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import mgi
import numpy as np
import pytest
from gpu_support import DlArray, Driver, Interface, read
from mgi import _mgi
from mgi.operator_inputs import ELSEWHERE

Calls = list[tuple[str, list[str], list[list[list[int]]]]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What the compiled operators were called with: name, devices, rows of each side's tables."""
    made: Calls = []

    def fake(name: str, sides: int) -> Callable[..., Any]:
        def call(runtime: _mgi.Runtime, pairs: Any, *rest: Any) -> Any:
            names = {i: device["name"] for i, device in enumerate(runtime.devices())}
            names[ELSEWHERE] = "elsewhere"
            tables = [[rows_of(t) for t in side] for side in rest[:sides]]
            made.append((name, [names[place] for _, place in pairs], tables))
            return list(rest[0]), {"seconds": 1.0}

        return call

    monkeypatch.setattr(_mgi, "gpu_operators", True)
    for name, sides in (("exchange", 1), ("group_by", 1), ("join", 2)):
        monkeypatch.setattr(_mgi, f"gpu_{name}", fake(name, sides), raising=False)
        host = f"{name}_on_gpus"
        monkeypatch.setattr(_mgi, host, fake(f"{name} from host", sides), raising=False)
    return made


def rows_of(table: _mgi.Table | _mgi.GpuTable) -> list[int]:
    if isinstance(table, _mgi.Table):
        rows = mgi.Table(table).to_arrow()
        return rows["a"].to_pylist() if rows.num_rows else []
    return read(mgi.GpuTable._of(table)["a"]).tolist() if table.rows else []


def table(driver: Driver, values: Any, gpu: int = 0) -> dict[str, Any]:
    return {"a": DlArray(driver.array(np.asarray(values, "i8"), gpu))}


def test_one_table_has_one_endpoint_where_it_lies(driver: Driver, calls: Calls) -> None:
    stats: dict[str, Any] = {}
    (result,) = mgi.exchange(table(driver, [1, 2], gpu=1), key="a", stats=stats)
    assert isinstance(result, mgi.GpuTable)
    assert calls == [("exchange", ["cuda:1"], [[[1, 2]]])]
    assert stats["seconds"] == 1.0
    assert "vertices" in stats["graph"]


def test_one_table_is_dealt_out_to_endpoints_on_its_gpu(driver: Driver, calls: Calls) -> None:
    wanted = [("sum", "a", "sum")]
    mgi.group_by(table(driver, range(10), gpu=1), "a", wanted, endpoints=3)
    assert calls == [("group_by", ["cuda:1"] * 3, [[[0, 1, 2], [3, 4, 5], [6, 7, 8, 9]]])]


def test_a_list_has_an_endpoint_where_each_table_lies(driver: Driver, calls: Calls) -> None:
    tables = [table(driver, [1], gpu=1), mgi.GpuTable(table(driver, [2])), table(driver, [3])]
    mgi.exchange(tables, key="a")
    assert calls == [("exchange", ["cuda:1", "cuda:0", "cuda:0"], [[[1], [2], [3]]])]


def test_a_join_has_the_endpoints_of_its_list(driver: Driver, calls: Calls) -> None:
    left = [table(driver, [1]), table(driver, [2])]
    mgi.join(left, table(driver, [3, 4, 5]), on="a")
    assert calls == [("join", ["cuda:0", "cuda:0"], [[[1], [2]], [[3], [4, 5]]])]


def test_endpoints_that_are_given(driver: Driver, calls: Calls) -> None:
    with mgi.Runtime.local() as runtime:
        ends = [runtime.create_endpoint(f"cuda:{gpu}") for gpu in (1, 0)]
        tables = [table(driver, [1], gpu=1), table(driver, [2])]
        mgi.exchange(tables, key="a", endpoints=ends, runtime=runtime)
        assert calls == [("exchange", ["cuda:1", "cuda:0"], [[[1], [2]]])]
        host = [runtime.create_endpoint("cpu:0")]
        for given, ends_given, message in [
            (tables[::-1], ends, r"tables\[0\] lies on cuda:0, and endpoint 0 is on cuda:1"),
            (tables[0], ends, "tables lies on cuda:1, and endpoint 1 is on cuda:0"),
            (tables[1], host, "tables lies on cuda:0, and endpoint 0 is on cpu:0"),
            (tables, ends[:1], "tables is a list of 2 for 1 endpoints"),
        ]:
            with pytest.raises(mgi.InvalidArgument, match=message):
                mgi.exchange(given, key="a", endpoints=ends_given, runtime=runtime)


def test_endpoints_of_another_process(driver: Driver, calls: Calls) -> None:
    with mgi.Runtime.local() as runtime:
        mine = runtime.create_endpoint("cuda:1")
        other = mgi.Endpoint(7, "elsewhere", ELSEWHERE, runtime._number)
        given = {"endpoints": [other, mine], "runtime": runtime}
        for tables in ([None, table(driver, [1, 2], gpu=1)], table(driver, [1, 2], gpu=1)):
            mgi.exchange(tables, key="a", **given)
        assert calls == [("exchange", ["elsewhere", "cuda:1"], [[[], [1, 2]]])] * 2
        with pytest.raises(mgi.InvalidArgument, match="a NoneType is no table"):
            mgi.exchange([table(driver, [1]), None], key="a", **given)
        with pytest.raises(mgi.InvalidArgument, match=r"tables\[1\] lies on cuda:0, and endpoint"):
            mgi.exchange([None, table(driver, [1])], key="a", **given)


def test_a_runtime_of_the_callers_loses_no_endpoint(driver: Driver, calls: Calls) -> None:
    with mgi.Runtime.local() as runtime:
        mgi.exchange(table(driver, [1, 2]), key="a", endpoints=2, runtime=runtime)
        assert calls[0][1] == ["cuda:0", "cuda:0"]


def test_tables_on_two_gpus_do_not_share_one_endpoint(driver: Driver, calls: Calls) -> None:
    with pytest.raises(mgi.InvalidArgument, match="right lies on cuda:1, and endpoint 0 is on cu"):
        mgi.join(table(driver, [1]), table(driver, [1], gpu=1), on="a")
    assert calls == []


def test_some_on_the_host(driver: Driver, calls: Calls) -> None:
    there, here = table(driver, [1], gpu=1), {"a": np.arange(2)}
    mixed = {"a": Interface(driver.array([1])), "b": np.arange(1)}
    with pytest.raises(mgi.InvalidArgument, match="column 'b' is not in a GPU's memory"):
        mgi.exchange(mixed, key="a")
    with pytest.raises(mgi.InvalidArgument, match=r"tables\[1\] is in the host's memory.*give end"):
        mgi.exchange([there, here], key="a")
    assert calls == []
    (result,) = mgi.join(here, there, on="a")
    assert isinstance(result, mgi.GpuTable)
    assert result.device == "cuda:1"
    mgi.join([here, here], there, on="a")
    mgi.join([there, here], [here, table(driver, [5])], on="a")
    assert calls == [
        ("join", ["cuda:1"], [[[0, 1]], [[1]]]),
        ("join", ["cuda:1"] * 2, [[[0, 1], [0, 1]], [[], [1]]]),
        ("join", ["cuda:1", "cuda:0"], [[[1], [0, 1]], [[0, 1], [5]]]),
    ]
    with mgi.Runtime.local() as runtime:
        ends = [runtime.create_endpoint(name) for name in ("cuda:1", "cuda:0", "cpu:0")]
        mgi.exchange([there, here], key="a", endpoints=ends[:2], runtime=runtime)
        assert calls[3] == ("exchange", ["cuda:1", "cuda:0"], [[[1], [0, 1]]])
        with pytest.raises(mgi.InvalidArgument, match="endpoint 1 is on cpu:0, and others"):
            mgi.exchange([there, here], key="a", endpoints=ends[::2], runtime=runtime)


def test_all_on_the_host(driver: Driver, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    here = {"a": np.arange(4)}
    with mgi.Runtime.local() as runtime:
        ends = [runtime.create_endpoint(name) for name in ("cuda:1", "cuda:0", "cpu:0")]
        given = {"endpoints": ends[:2], "runtime": runtime}
        for result in mgi.exchange(here, key="a", **given):
            assert isinstance(result, mgi.Table)
        mgi.join(here, [here, here], on="a", receive_limit=1 << 20, spill_limit=1 << 20, **given)
        devices = ["cuda:1", "cuda:0"]
        assert calls == [
            ("exchange from host", devices, [[[0, 1], [2, 3]]]),
            ("join from host", devices, [[[0, 1], [2, 3]], [[0, 1, 2, 3], [0, 1, 2, 3]]]),
        ]
        with pytest.raises(mgi.InvalidArgument, match="endpoint 2 is on cpu:0, and others are on"):
            mgi.exchange(here, key="a", endpoints=ends, runtime=runtime)
        other = mgi.Endpoint(7, "elsewhere", ELSEWHERE, runtime._number)
        mgi.exchange([None, here], key="a", endpoints=[other, ends[0]], runtime=runtime)
        assert calls[2] == (
            "exchange from host",
            ["elsewhere", "cuda:1"],
            [[[], [0, 1, 2, 3]]],
        )
        with pytest.raises(mgi.InvalidArgument, match="spill_limit is 0: give 1 or more"):
            mgi.exchange(here, key="a", spill_limit=0, **given)
        monkeypatch.setattr(_mgi, "gpu_operators", False)
        with pytest.raises(mgi.NotFound, match="the endpoints are on GPUs.*built without nvcc"):
            mgi.exchange(here, key="a", **given)
    # Without endpoints on GPUs the host works on its own.
    (result,) = mgi.exchange(here, key="a", endpoints=1)
    assert result.to_arrow()["a"].to_pylist() == [0, 1, 2, 3]


class Batch:
    """A table that speaks Arrow's device interface alone, as cuDF's."""

    def __init__(self, rows: mgi.GpuTable) -> None:
        self.rows = rows

    def __arrow_c_device_array__(self, requested_schema: object = None) -> Any:
        return self.rows.__arrow_c_device_array__()


def test_arrow_device_arrays(driver: Driver, calls: Calls) -> None:
    one = Batch(mgi.GpuTable(table(driver, [1, 2])))
    mgi.exchange(one, key="a")
    mgi.exchange([one, one], key="a")
    assert calls[0] == ("exchange", ["cuda:0"], [[[1, 2]]])
    assert calls[1] == ("exchange", ["cuda:0", "cuda:0"], [[[1, 2], [1, 2]]])


class CStream(ctypes.Structure):
    """Arrow's ArrowDeviceArrayStream."""

    _fields_ = (
        ("device_type", ctypes.c_int32),
        ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)),
        ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("private_data", ctypes.c_void_p),
    )


_pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_in.restype = ctypes.c_void_p
_pointer_in.argtypes = (ctypes.py_object, ctypes.c_char_p)
_capsule_of = ctypes.pythonapi.PyCapsule_New
_capsule_of.restype = ctypes.py_object
_capsule_of.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
#: Bytes of ArrowSchema and ArrowDeviceArray, and where their `release` is.
SCHEMA, ARRAY = (72, 56), (128, 64)


def move(capsule: object, name: bytes, to: int, layout: tuple[int, int]) -> None:
    size, release = layout
    at = _pointer_in(capsule, name)
    ctypes.memmove(to, at, size)
    ctypes.memset(at + release, 0, 8)


class Stream:
    """A stream of tables that speaks Arrow's device interface."""

    def __init__(self, *tables: mgi.GpuTable, error: int = 0) -> None:
        rest = list(tables)

        def get_schema(_: int, to: int) -> int:
            move(tables[0].__arrow_c_schema__(), b"arrow_schema", to, SCHEMA)
            return 0

        def get_next(_: int, to: int) -> int:
            ctypes.memset(to, 0, ARRAY[0])
            if error:
                return error
            if rest:
                capsule = rest.pop(0).__arrow_c_device_array__()[1]
                move(capsule, b"arrow_device_array", to, ARRAY)
            return 0

        self.said = ctypes.create_string_buffer(b"it broke")
        calls = CStream._fields_
        self.struct = CStream(
            2,
            calls[1][1](get_schema),
            calls[2][1](get_next),
            calls[3][1](lambda _: ctypes.addressof(self.said)),
            calls[4][1](lambda _: None),
            None,
        )

    def __arrow_c_device_stream__(self, requested_schema: object = None) -> object:
        return _capsule_of(ctypes.addressof(self.struct), b"arrow_device_array_stream", None)


def test_arrow_device_streams(driver: Driver, calls: Calls) -> None:
    one, two = mgi.GpuTable(table(driver, [1, 2])), mgi.GpuTable(table(driver, [3]))
    empty = mgi.GpuTable(table(driver, []))
    mgi.exchange(Stream(one, empty), key="a")
    assert calls == [("exchange", ["cuda:0"], [[[1, 2]]])]
    with pytest.raises(mgi.InvalidArgument, match="has 2 batches"):
        mgi.exchange(Stream(one, two), key="a")
    with pytest.raises(mgi.InvalidArgument, match="stream failed: it broke"):
        mgi.exchange(Stream(one, error=5), key="a")
