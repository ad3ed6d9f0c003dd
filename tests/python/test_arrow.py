"""Arrow in and out: every type, slices, strings, and the libraries that speak its capsules."""

from __future__ import annotations

import datetime
import decimal
import sys

import mgi
import pytest

pa = pytest.importorskip("pyarrow")

ROWS = 1000


def every_type(rows: int = ROWS, nulls: bool = False) -> pa.Table:
    def column(value, kind):
        return pa.array(
            [None if nulls and i % 7 == len(str(kind)) % 7 else value(i) for i in range(rows)], kind
        )

    day = datetime.date(1992, 1, 1)
    fields = {
        "flag": column(lambda i: i % 3 == 0, pa.bool_()),
        "i8": column(lambda i: i % 100 - 50, pa.int8()),
        "i16": column(lambda i: i - 500, pa.int16()),
        "i32": column(lambda i: -i, pa.int32()),
        "i64": column(lambda i: i << 40, pa.int64()),
        "u8": column(lambda i: i % 256, pa.uint8()),
        "u16": column(lambda i: i, pa.uint16()),
        "u32": column(lambda i: i << 20, pa.uint32()),
        "u64": column(lambda i: i << 50, pa.uint64()),
        "f32": column(lambda i: i / 4, pa.float32()),
        "f64": column(lambda i: float("nan") if i % 11 == 0 else i / 3, pa.float64()),
        "date": column(lambda i: day + datetime.timedelta(i), pa.date32()),
        "money": column(lambda i: decimal.Decimal(i) / 100, pa.decimal128(15, 2)),
        "fixed": column(lambda i: b"%05d" % i, pa.binary(5)),
        "text": column(lambda i: "x" * (i % 40), pa.string()),
        "large": column(lambda i: f"row number {i}", pa.large_string()),
        "view": column(lambda i: "é" * (i % 20), pa.string_view()),
        "blob": column(lambda i: bytes([i % 256]) * (i % 30), pa.binary()),
    }
    return pa.table(fields)


def as_plain(table: pa.Table) -> pa.Table:
    """Strings as plain strings, in one chunk, whatever the nullability."""
    plain = {"string_view": pa.string(), "large_string": pa.string(), "binary_view": pa.binary()}
    columns = {}
    for field in table.schema:
        column = table[field.name].combine_chunks()
        columns[field.name] = column.cast(plain.get(str(field.type), field.type))
    return pa.table(columns)


def same(got: pa.Table, sent: pa.Table) -> bool:
    """Equal values, NaN like NaN."""
    left, right = as_plain(got), as_plain(sent)
    return left.schema == right.schema and all(
        repr(left[name].to_pylist()) == repr(right[name].to_pylist()) for name in left.column_names
    )


def loop(runtime: mgi.Runtime, rows: object, schema: pa.Schema, **options: object) -> pa.Table:
    endpoint = runtime.create_endpoint("cpu")
    channel = runtime.create_channel(
        [endpoint], [endpoint], schema, mgi.Broadcast(), ordered=True, **options
    )
    channel.send(rows, timeout=60)
    channel.flush(timeout=60)
    batches = [batch.to_arrow() for batch in channel.batches(timeout=60)]
    return pa.Table.from_batches(batches, schema=batches[0].schema)


@pytest.mark.parametrize("nulls", [False, True])
def test_every_type(runtime, by_reference, nulls):
    table = every_type(nulls=nulls)
    got = loop(runtime, table, table.schema, by_reference=by_reference)
    assert same(got, table)
    assert got.schema.types == table.schema.types


def test_slices_and_many_chunks(runtime):
    table = every_type(nulls=True)
    parts = [table.slice(3, 5), table.slice(13, 100), table.slice(500)]
    sent = pa.concat_tables(parts)
    assert same(loop(runtime, sent, table.schema), sent)
    batch = table.combine_chunks().to_batches()[0].slice(17, 333)
    assert same(loop(runtime, batch, table.schema), pa.Table.from_batches([batch]))


def test_what_is_received_can_be_sent_on(runtime):
    endpoint = runtime.create_endpoint("cpu")
    table = every_type(nulls=True)
    channels = [
        runtime.create_channel([endpoint], [endpoint], table.schema, mgi.Broadcast())
        for _ in range(2)
    ]
    channels[0].send(table)
    channels[0].flush()
    for batch in channels[0].batches(timeout=60):
        channels[1].send(batch)
    channels[1].flush()
    got = pa.Table.from_batches([b.to_arrow() for b in channels[1].batches(timeout=60)])
    assert same(got, table)


def test_received_batches_are_not_copied(runtime):
    endpoint = runtime.create_endpoint("cpu")
    schema = pa.schema({"n": pa.int64()})
    channel = runtime.create_channel([endpoint], [endpoint], schema, mgi.Broadcast())
    channel.send(pa.record_batch({"n": list(range(100))}))
    channel.flush()
    batch = channel.recv(timeout=60)
    array = batch.to_arrow()["n"]
    assert array.buffers()[1].address == batch.to_numpy()["n"].__array_interface__["data"][0]
    channel.delete()
    del batch, channel
    assert array.to_pylist() == list(range(100))


def test_capsules(runtime):
    table = mgi.exchange(pa.table({"n": [1, 2, None], "s": ["a", "b", None]}), "n", endpoints=1)[0]
    (batch,) = table.batches()
    assert pa.schema(batch).names == ["n", "s"]
    assert pa.schema(table) == pa.schema(batch)
    assert pa.schema(table.schema).field("n").nullable
    assert pa.record_batch(batch).num_rows == 3
    assert pa.table(table).num_rows == 3
    assert pa.table(table).num_rows == 3, "a table can be read again"
    assert (len(table), len(batch)) == (3, 3)
    assert table.nbytes >= batch.nbytes > 24
    assert "n: int64?" in repr(table)


def test_a_capsule_is_taken_once(runtime):
    class Once:
        def __init__(self, batch):
            self._capsules = batch.__arrow_c_array__()

        def __arrow_c_array__(self, requested_schema=None):
            return self._capsules

    endpoint = runtime.create_endpoint("cpu")
    schema = pa.schema({"n": pa.int64()})
    channel = runtime.create_channel([endpoint], [endpoint], schema, mgi.Broadcast())
    once = Once(pa.record_batch({"n": [1]}))
    assert channel.send(once) == 1
    with pytest.raises(mgi.InvalidArgument, match="used before"):
        channel.send(once)


def test_a_stream_that_fails_says_why(runtime):
    def batches():
        yield pa.record_batch({"n": [1]})
        raise ValueError("the disk is gone")

    endpoint = runtime.create_endpoint("cpu")
    schema = pa.schema({"n": pa.int64()})
    channel = runtime.create_channel([endpoint], [endpoint], schema, mgi.Broadcast())
    reader = pa.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises(mgi.Error, match="the disk is gone"):
        channel.send(reader)


def test_polars(runtime):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(
        {"n": range(1000), "s": [f"text number {i}" for i in range(1000)], "x": [0.5] * 1000}
    )
    got = loop(runtime, frame, frame.to_arrow().schema)
    assert pl.DataFrame(got).sort("n").equals(frame)
    parts = mgi.exchange(frame, "s", endpoints=3)
    assert pl.concat([pl.DataFrame(part) for part in parts]).sort("n").equals(frame)


def test_duckdb(runtime):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    relation = connection.sql(
        "SELECT i AS n, 'text number ' || i AS s, i::decimal(12, 2) AS d FROM range(1000) t(i)"
    )
    expected = sorted(relation.fetchall())
    parts = mgi.exchange(relation, "n", endpoints=3)
    assert sum(part.num_rows for part in parts) == 1000
    connection.register("together", pa.concat_tables([part.to_arrow() for part in parts]))
    assert sorted(connection.sql("SELECT * FROM together").fetchall()) == expected
    got = loop(runtime, connection.sql("SELECT 1::bigint AS one"), pa.schema({"one": pa.int64()}))
    assert got.to_pylist() == [{"one": 1}]


def test_a_duckdb_query_over_python_objects_is_imported_without_deadlock():
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    table = pa.table({"n": list(range(200_000))})
    connection.register("numbers", table)
    relation = connection.sql("SELECT n, n % 17 AS g FROM numbers")
    groups = mgi.group_by(relation, "g", [("count", None, "rows")], endpoints=2)
    rows = {r["g"]: r["rows"] for part in groups for r in part.to_arrow().to_pylist()}
    assert sum(rows.values()) == table.num_rows
    assert len(rows) == 17


@pytest.mark.parametrize("package", ["pyarrow", "numpy"])
def test_a_missing_package_is_named(runtime, monkeypatch, package):
    endpoint = runtime.create_endpoint("cpu")
    channel = runtime.create_channel([endpoint], [endpoint], {"n": "int64"}, mgi.Broadcast())
    channel.send(pa.record_batch({"n": [1, 2]}))
    channel.flush()
    batch = channel.recv(timeout=60)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"pip install {package}"):
        batch.to_arrow() if package == "pyarrow" else batch.to_numpy()
