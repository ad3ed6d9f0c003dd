"""NumPy arrays in and out."""

from __future__ import annotations

import mgi
import numpy as np
import pytest

TYPES = {
    "flag": ("bool", "?"),
    "tiny": ("int8", "i1"),
    "small": ("int16", "i2"),
    "medium": ("int32", "i4"),
    "big": ("int64", "i8"),
    "utiny": ("uint8", "u1"),
    "usmall": ("uint16", "u2"),
    "umedium": ("uint32", "u4"),
    "ubig": ("uint64", "u8"),
    "single": ("float32", "f4"),
    "double": ("float64", "f8"),
    "code": ("fixed_size_binary(5)", "S5"),
}


def loop(runtime: mgi.Runtime, rows: object, schema: object, **options: object) -> mgi.RecordBatch:
    """Sends rows to the endpoint itself, and receives them as one batch."""
    endpoint = runtime.create_endpoint("cpu")
    channel = runtime.create_channel(
        [endpoint], [endpoint], schema, mgi.Broadcast(), segment_rows=1024, **options
    )
    channel.send(rows)
    channel.flush()
    return channel.recv(timeout=60)


def values(rows: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    return {name: random.integers(0, 100, rows).astype(kind) for name, (_, kind) in TYPES.items()}


@pytest.mark.parametrize("rows", [1, 77, 1000])
def test_every_type(runtime, by_reference, rows):
    sent = values(rows)
    schema = {name: kind for name, (kind, _) in TYPES.items()}
    got = loop(runtime, sent, schema, by_reference=by_reference).to_numpy()
    assert list(got) == list(sent)
    for name, array in sent.items():
        want = array.view("V5") if name == "code" else array
        assert got[name].dtype == want.dtype
        assert (got[name] == want).all()


def test_arrays_that_are_not_contiguous_or_not_native(runtime):
    sent = {
        "a": np.arange(100)[::-3],
        "b": np.arange(34, dtype=">i4"),
        "c": np.arange(34, dtype="f8").astype(">f8"),
        "d": np.frombuffer(bytes(34), "i1"),  # read-only
    }
    got = loop(runtime, sent, {"a": "int64", "b": "int32", "c": "float64", "d": "int8"}).to_numpy()
    for name, array in sent.items():
        assert (got[name] == array).all()


def test_one_array_for_one_column(runtime):
    got = loop(runtime, np.linspace(0, 1, 10), {"x": "float64"}).to_numpy()
    assert (got["x"] == np.linspace(0, 1, 10)).all()


def test_received_columns_share_the_batch_memory(runtime):
    batch = loop(runtime, np.arange(10), {"x": "int64"})
    first, second = batch.to_numpy()["x"], batch.to_numpy()["x"]
    assert np.shares_memory(first, second)
    del batch, second
    assert first.tolist() == list(range(10))


def test_masked_arrays_are_nulls(runtime):
    numbers = np.ma.array(np.arange(100), mask=np.arange(100) % 3 == 0)
    flags = np.ma.array(np.arange(100) % 2 == 0, mask=np.arange(100) % 5 == 0)
    batch = loop(runtime, {"n": numbers, "f": flags}, {"n": "int64?", "f": "bool?"})
    got = batch.to_numpy()
    for name, sent in {"n": numbers, "f": flags}.items():
        assert (np.ma.getmaskarray(got[name]) == sent.mask).all()
        assert (got[name].compressed() == sent.compressed()).all()
    assert batch.schema["n"] == ("n", "int64", True)


def test_dates(runtime):
    days = np.array(["1969-12-31", "1998-09-02"], "M8[D]")
    got = loop(runtime, {"d": days}, {"d": "date32"}).to_numpy()["d"]
    assert (got.astype("M8[D]") == days).all()
    assert loop(runtime, np.array([5], "i4"), {"d": "date32"}).to_numpy()["d"].tolist() == [5]


@pytest.mark.parametrize("layout", ["columns", "rows"])
@pytest.mark.parametrize("aligned", [True, False])
def test_structured_arrays(runtime, by_reference, layout, aligned):
    dtype = np.dtype([("key", "i8"), ("small", "i2"), ("value", "f8")], align=aligned)
    rows = np.zeros(500, dtype)
    rows["key"] = np.arange(500)
    rows["small"] = np.arange(500) % 7
    rows["value"] = np.arange(500) / 3
    got = loop(runtime, rows, dtype, by_reference=by_reference, layout=layout).to_numpy()
    for name in dtype.names:
        assert (got[name] == rows[name]).all()
    assert mgi.Schema(dtype).row_dtype() == np.dtype(
        [("key", "i8"), ("small", "i2"), ("value", "f8")], align=True
    )


def test_structured_slices_and_bools(runtime):
    rows = np.zeros(300, np.dtype([("flag", "?"), ("n", "i4")], align=True))
    rows["flag"] = np.arange(300) % 3 == 0
    rows["n"] = np.arange(300)
    schema = {"flag": "bool", "n": "int32"}
    for part in (rows, rows[100:], rows[::2]):
        got = loop(runtime, part, schema).to_numpy()
        assert (got["flag"] == part["flag"]).all()
        assert (got["n"] == part["n"]).all()


def test_column_choice_and_strings(runtime):
    import pyarrow as pa

    batch = loop(
        runtime,
        pa.record_batch({"n": [1, 2, 3], "s": ["a", None, "c" * 50], "b": [b"\0", b"", None]}),
        {"n": "int64?", "s": "string?", "b": "binary?"},
    )
    assert batch.to_numpy(["n"])["n"].tolist() == [1, 2, 3]
    assert batch.strings("s") == ["a", None, "c" * 50]
    assert batch.strings("b") == [b"\0", b"", None]
    with pytest.raises(mgi.InvalidArgument, match="'s' is string"):
        batch.to_numpy()
    with pytest.raises(mgi.InvalidArgument, match="'n' is int64"):
        batch.strings("n")
    with pytest.raises(mgi.InvalidArgument, match="nothere"):
        batch.to_numpy(["nothere"])


def test_no_rows(runtime):
    endpoint = runtime.create_endpoint("cpu")
    channel = runtime.create_channel([endpoint], [endpoint], {"n": "int64"}, mgi.Broadcast())
    assert channel.send(np.empty(0, "i8")) == 0
    assert channel.send({"n": np.empty(0, "i8")}) == 0
    channel.flush()
    assert channel.recv(timeout=60) is None


def test_wrong_arrays_are_named(runtime):
    endpoint = runtime.create_endpoint("cpu")
    channel = runtime.create_channel(
        [endpoint], [endpoint], {"n": "int64", "x": "float64", "s": "string"}, mgi.Broadcast()
    )
    n, x = np.arange(3), np.zeros(3)
    wrong = [
        ({"n": n, "x": x}, "no array for column 's'"),
        ({"n": n, "x": x, "s": x, "y": n}, "no column 'y'"),
        ({"n": n, "x": x, "s": np.array(["a", "b", "c"])}, "'s' is string"),
        ({"n": n.astype("i4"), "x": x, "s": x}, "column 'n' is int64, .* int32"),
        ({"n": n, "x": x[:2], "s": x}, "column 'x' has 2 values"),
        ({"n": n.reshape(3, 1), "x": x, "s": x}, "column 'n' has 2 dimensions"),
        ({"n": [1, 2, 3], "x": x, "s": x}, "column 'n' is a list"),
        (n, "one array for 3 columns"),
        ([1, 2, 3], "a list cannot be sent"),
    ]
    for rows, message in wrong:
        with pytest.raises(mgi.InvalidArgument, match=message):
            channel.send(rows)
    date = runtime.create_channel([endpoint], [endpoint], {"d": "date32"}, mgi.Broadcast())
    with pytest.raises(mgi.InvalidArgument, match="'d' holds a date"):
        date.send({"d": np.array([2**40], "M8[D]")})
    with pytest.raises(mgi.InvalidArgument, match="'d' is not nullable"):
        date.send({"d": np.array(["NaT"], "M8[D]")})


def test_a_mask_where_nulls_are_not_allowed(runtime):
    endpoint = runtime.create_endpoint("cpu")
    channel = runtime.create_channel([endpoint], [endpoint], {"n": "int64"}, mgi.Broadcast())
    with pytest.raises(mgi.InvalidArgument, match="column 'n' is not nullable"):
        channel.send(np.ma.array([1, 2], mask=[False, True]))


def test_schemas():
    schema = mgi.Schema({"a": "int64", "b": "decimal128(15, 2)?", "c": "fixed_size_binary(3)"})
    assert schema.names == ["a", "b", "c"]
    assert schema.types == ["int64", "decimal128(15, 2)", "fixed_size_binary[3]"]
    assert [field.nullable for field in schema] == [False, True, False]
    assert schema == mgi.Schema(schema)
    fields = [("a", "int64"), ("b", "decimal128(15,2)", True), ("c", np.dtype("S3"))]
    assert schema == mgi.Schema(fields)
    assert mgi.Schema({"x": np.dtype("f4"), "y": np.int16}).types == ["float", "int16"]
    for wrong, message in [
        ({"a": "int65"}, "column 'a': there is no type 'int65'"),
        ({"a": "decimal128(39, 0)"}, "'a'.*precision"),
        ({"a": "decimal128(3"}, "no type"),
        ({1: "int64"}, "a column is named 1"),
        ({"a": np.dtype("U3")}, "'a'.*<U3"),
        (5, "no schema can be made of 5"),
    ]:
        with pytest.raises(mgi.InvalidArgument, match=message):
            mgi.Schema(wrong)
