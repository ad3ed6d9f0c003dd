"""Arrow's types through exchange, group-by, join and sort: what goes in comes out."""

from __future__ import annotations

import collections
import datetime
import decimal
import uuid

import mgi
import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")

ROWS = 400


def column(value, kind):
    return pa.array([None if i % 7 == 3 else value(i) for i in range(ROWS)], kind)


def cast(value, kind, storage=None):
    return column(value, storage or pa.int64()).cast(kind)


def extension(kind, storage):
    return pa.ExtensionArray.from_storage(kind, storage)


def every_column() -> dict[str, pa.Array]:
    money = decimal.Decimal(1) / 100
    words = [None if i % 7 == 3 else f"run {i // 3}" for i in range(ROWS // 5)]
    return {
        **{f"at_{unit}": cast(lambda i: i, pa.timestamp(unit)) for unit in ("s", "ms", "us")},
        "at_ns": cast(lambda i: 1000 * i, pa.timestamp("ns")),
        "zoned": cast(lambda i: i, pa.timestamp("us", "Europe/Berlin")),
        "time32": cast(lambda i: i, pa.time32("s"), pa.int32()),
        "time64": cast(lambda i: 1000 * i, pa.time64("ns")),
        "date64": cast(lambda i: 86_400_000 * i, pa.date64()),
        "duration": cast(lambda i: i, pa.duration("ms")),
        "interval": column(lambda i: (i, i % 3, 5 * i), pa.month_day_nano_interval()),
        "half": column(lambda i: np.float16(i / 8), pa.float16()),
        "decimal32": column(lambda i: i * money, pa.decimal32(9, 2)),
        "decimal64": column(lambda i: -i * money, pa.decimal64(18, 2)),
        "decimal256": column(lambda i: -i * money, pa.decimal256(30, 2)),
        "widest": column(lambda i: decimal.Decimal(-i) * 10**50, pa.decimal256(70, 2)),
        "words": column(lambda i: f"word {i % 13}", pa.string()).dictionary_encode(),
        "small": column(lambda i: i % 5, pa.int64())
        .dictionary_encode()
        .cast(pa.dictionary(pa.int8(), pa.int64())),
        "nothing": pa.nulls(ROWS),
        "runs": pa.RunEndEncodedArray.from_arrays(
            pa.array(range(5, ROWS + 5, 5), pa.int32()), pa.array(words)
        ),
        "text": column(lambda i: "x" * (i % 30), pa.string()),
        "large_text": column(lambda i: "é" * (i % 30), pa.large_string()),
        "text_view": column(lambda i: "x" * (i % 30), pa.string_view()),
        "blob": column(lambda i: b"x" * (i % 30), pa.binary()),
        "large_blob": column(lambda i: b"x" * (i % 30), pa.large_binary()),
        "blob_view": column(lambda i: b"x" * (i % 30), pa.binary_view()),
        "id": extension(pa.uuid(), column(lambda i: uuid.UUID(int=i).bytes, pa.binary(16))),
        "document": extension(pa.json_(), column(lambda i: f'{{"a":{i}}}', pa.string())),
        "flag": extension(pa.bool8(), column(lambda i: i % 2, pa.int8())),
    }


COLUMNS = every_column()


def table_of(*names: str) -> pa.Table:
    columns = {name: COLUMNS[name] for name in names or COLUMNS}
    return pa.table({**columns, "row": list(range(ROWS))})


def together(parts: list[mgi.Table]) -> pa.Table:
    whole = pa.concat_tables([part.to_arrow() for part in parts])
    whole.validate(full=True)
    return whole


def by_row(table: pa.Table) -> list[str]:
    return [repr(row) for row in sorted(table.to_pylist(), key=lambda row: row["row"])]


@pytest.mark.parametrize(
    "table",
    [
        table_of(),
        pa.concat_tables([table_of().slice(3, 50), table_of().slice(301), table_of().slice(60, 3)]),
        table_of().slice(0, 0),
    ],
    ids=["whole", "slices", "no rows"],
)
def test_every_type_comes_out_as_it_went_in(table):
    table = table.replace_schema_metadata({"maker": "test"})
    got = together(mgi.exchange(table, "row", endpoints=3))
    assert got.schema.types == table.schema.types
    assert got.schema.metadata == table.schema.metadata
    assert by_row(got) == by_row(table)


@pytest.mark.parametrize("name", COLUMNS)
def test_every_type_is_a_key(name):
    table = table_of(name)
    got = together(mgi.group_by(table, name, [("sum", "row", "sum")], endpoints=2))
    assert got.schema.field(name).type == table.schema.field(name).type
    sums: collections.Counter[str] = collections.Counter()
    for row in table.to_pylist():
        sums[repr(row[name])] += row["row"]
    assert {repr(row[name]): row["sum"] for row in got.to_pylist()} == dict(sums)


@pytest.mark.parametrize("name", sorted(set(COLUMNS) - {"nothing"}))
def test_every_type_joins(name):
    left = table_of(name).slice(0, 70)
    right = table_of(name).slice(30, 80).rename_columns([name, "other"])
    got = together(mgi.join(left, right, name, endpoints=2))
    assert got.schema.field(name).type == left.schema.field(name).type
    others = collections.defaultdict(list)
    for row in right.to_pylist():
        others[repr(row[name])].append(row["other"])
    wanted = [
        (row["row"], other)
        for row in left.to_pylist()
        if row[name] is not None
        for other in others[repr(row[name])]
    ]
    assert sorted(zip(got["row"].to_pylist(), got["other"].to_pylist(), strict=True)) == wanted


@pytest.mark.parametrize("name", ["at_us", "zoned", "half", "decimal64", "words", "runs", "time32"])
def test_values_have_an_order(name):
    table = table_of(name)
    extremes = together(
        mgi.group_by(
            table.append_column("one", pa.array([1] * ROWS)),
            "one",
            [("min", name, "least"), ("max", name, "most")],
            endpoints=2,
        )
    )
    values = sorted(value for value in table[name].to_pylist() if value is not None)
    assert extremes.schema.field("least").type == table.schema.field(name).type
    assert extremes["least"].to_pylist() == [values[0]]
    assert extremes["most"].to_pylist() == [values[-1]]
    ordered = together(mgi.sort(table, name, endpoints=2))
    assert [value for value in ordered[name].to_pylist() if value is not None] == values


@pytest.mark.parametrize("name", ["interval", "widest"])
def test_what_has_no_order_is_not_ordered(name):
    with pytest.raises(mgi.InvalidArgument, match="no order"):
        mgi.sort(table_of(name), name, endpoints=2)
    with pytest.raises(mgi.InvalidArgument, match="no order"):
        mgi.group_by(table_of(name), "row", [("max", name, "most")], endpoints=2)


def test_durations_are_added_up_and_instants_are_not():
    table = table_of("duration", "at_us").append_column("one", pa.array([1] * ROWS))
    got = together(mgi.group_by(table, "one", [("sum", "duration", "sum")], endpoints=2))
    assert got.schema.field("sum").type == pa.duration("ms")
    assert got["sum"].to_pylist() == [
        pc.sum(table["duration"].cast(pa.int64())).as_py() * datetime.timedelta(milliseconds=1)
    ]
    with pytest.raises(mgi.InvalidArgument, match=r"'at_us', which is timestamp\[us\]"):
        mgi.group_by(table, "one", [("sum", "at_us", "sum")], endpoints=2)


def test_equal_whatever_the_representation():
    plain = pa.table({"k": ["a", "b", None, "c"], "x": [1, 2, 3, 4]})
    others = [
        plain["k"].combine_chunks().dictionary_encode(),
        plain["k"].cast(pa.large_string()),
        plain["k"].cast(pa.string_view()),
    ]
    for other in others:
        right = pa.table({"k": other, "y": [10, 20, 30, 40]})
        got = together(mgi.join(plain, right, "k", endpoints=2)).sort_by("x")
        assert got.to_pydict() == {"k": ["a", "b", "c"], "x": [1, 2, 4], "y": [10, 20, 40]}


def test_instants_of_other_zones_are_equal():
    utc = pa.table({"t": pa.array([1, 2], pa.int64()).cast(pa.timestamp("us", "UTC"))})
    here = pa.table({"t": pa.array([2, 3], pa.int64()).cast(pa.timestamp("us", "Asia/Tokyo"))})
    assert together(mgi.join(utc, here, "t", endpoints=2)).num_rows == 1
    local = pa.table({"t": pa.array([2, 3], pa.int64()).cast(pa.timestamp("us"))})
    with pytest.raises(mgi.InvalidArgument, match="timestamp"):
        mgi.join(utc, local, "t", endpoints=2)


def test_true_is_true_however_it_is_stored():
    flags = extension(pa.bool8(), pa.array([0, 1, 2, 1], pa.int8()))
    got = together(
        mgi.group_by(pa.table({"k": flags, "x": [1, 2, 3, 4]}), "k", [("sum", "x", "s")])
    )
    assert sorted(got.to_pylist(), key=str) == [{"k": False, "s": 1}, {"k": True, "s": 9}]


def test_names_that_are_missing_or_stand_twice():
    columns = [pa.array([1, 2]), pa.array(["x", "y"]), pa.array([3, 4]), pa.array([5.0, 6.0])]
    table = pa.Table.from_arrays(columns, names=["k", "", "same", "same"])
    got = together(mgi.exchange(table, "k", endpoints=2)).sort_by("k")
    assert got.column_names == table.column_names
    assert [got[c].to_pylist() for c in range(4)] == [c.to_pylist() for c in columns]
    with pytest.raises(mgi.InvalidArgument, match="columns 2 and 3 are both named 'same'"):
        mgi.exchange(table, "same", endpoints=2)


def test_a_dictionary_with_more_values_than_its_indices_count():
    kind = pa.dictionary(pa.int8(), pa.string())
    chunks = [
        pa.DictionaryArray.from_arrays(
            pa.array(range(100), pa.int8()), pa.array([f"{c} {i}" for i in range(100)])
        )
        for c in range(5)
    ]
    table = pa.table({"k": [0] * 500, "word": pa.chunked_array(chunks, kind)})
    got = together(mgi.exchange(table, "k", endpoints=1))
    assert got.schema.field("word").type == kind
    assert sorted(got["word"].to_pylist()) == sorted(table["word"].to_pylist())


@pytest.mark.parametrize(
    "chunks",
    [
        [[f"{c} {i}" for i in range(128)] for c in range(2)],
        [["a"] * 100, [str(i) for i in range(250)]],
    ],
    ids=["full", "overfull"],
)
def test_a_dictionary_whose_values_are_many(chunks):
    kind = pa.dictionary(pa.int16(), pa.string())
    column = pa.chunked_array([pa.array(chunk).dictionary_encode().cast(kind) for chunk in chunks])
    small = pa.dictionary(pa.int8(), pa.string())
    overfull = pa.DictionaryArray.from_arrays(
        pa.array([0, 1], pa.int8()), pa.array([str(i) for i in range(200)])
    )
    table = pa.table({"k": [0] * len(column), "word": column})
    got = together(mgi.exchange(table, "k", endpoints=1))
    assert sorted(got["word"].to_pylist()) == sorted(column.to_pylist())
    got = together(mgi.exchange(pa.table({"k": [1, 1], "word": overfull}), "k", endpoints=1))
    assert got["word"].to_pylist() == ["0", "1"]
    assert got.schema.field("word").type == small
    got = together(mgi.exchange(pa.table({"k": [1, 1], "word": overfull}).slice(0, 0), "k"))
    assert got.num_rows == 0


def test_a_received_batch_comes_in_pieces_where_it_must(runtime):
    kind = pa.dictionary(pa.int8(), pa.string())
    endpoint = runtime.create_endpoint("cpu")
    schema = pa.schema({"word": kind})
    channel = runtime.create_channel([endpoint], [endpoint], schema, mgi.Broadcast())
    words = [[f"{c} {i}" for i in range(100)] for c in range(2)]
    for chunk in words:
        channel.send(pa.table({"word": pa.array(chunk).dictionary_encode().cast(kind)}))
    channel.flush()
    (batch,) = channel.batches(timeout=60)
    with pytest.raises(mgi.InvalidArgument, match=r"200 distinct values, more than int8 counts"):
        batch.to_arrow()
    assert pa.table(batch)["word"].to_pylist() == words[0] + words[1]


def test_dictionaries_and_runs_of_each_other():
    words = pa.array(["a", "b", "a", "c"])
    ends = pa.array([3, 5, 8, 10], pa.int32())
    runs = pa.RunEndEncodedArray.from_arrays(ends, words.dictionary_encode())
    table = pa.table({"row": range(10), "word": runs})
    for part in (table, table.slice(4, 5)):
        got = together(mgi.exchange(part, "row", endpoints=2))
        assert got.schema.types == table.schema.types
        assert by_row(got) == by_row(part)


def pairs(rows: int, nulls: dict[str, list[int]]) -> pa.Array:
    """Structs of fixed widths, behind three others, with nulls in these parts at these rows."""

    def mask(name):
        null = np.zeros(rows + 3, bool)
        null[[row + 3 for row in nulls.get(name, [])]] = True
        return null if null.any() else None

    def struct(name, children):
        null = mask(name)
        return pa.StructArray.from_arrays(
            list(children.values()), list(children), mask=None if null is None else pa.array(null)
        )

    x = pa.array(np.arange(rows + 3) % 7, mask=mask("x"))
    code = pa.array([bytes([i % 3, 1, 2]) for i in range(rows + 3)], pa.binary(3))
    y = pa.array(np.arange(rows + 3, dtype=np.int16) % 5, mask=mask("y"))
    inner = struct("inner", {"code": code, "y": y})
    return struct("outer", {"x": x, "inner": inner}).slice(3)


@pytest.mark.parametrize(
    "nulls",
    [{}, {"outer": [0, 300, 999]}, {"x": [511]}, {"inner": [256, 257]}, {"y": [998]}],
    ids=lambda nulls: "-".join(nulls) or "none",
)
def test_structs_of_fixed_widths_with_some_nulls(nulls):
    whole = pa.chunked_array([pairs(1000, nulls), pairs(300, {})])
    table = pa.table({"row": range(1300), "pair": whole})
    for part in (table, table.slice(5, 900)):
        got = together(mgi.exchange(part, "row", endpoints=2))
        assert got.schema == part.schema
        assert by_row(got) == by_row(part)
    # Equal values have the same bytes, whichever way they were written.
    got = together(mgi.group_by(table, "pair", [("count", None, "n")], endpoints=2))
    counts = collections.Counter(map(repr, whole.to_pylist()))
    assert {repr(row["pair"]): row["n"] for row in got.to_pylist()} == counts
    assert got.num_rows == len(counts)


@pytest.mark.parametrize("kind", [pa.list_(pa.int32()), pa.large_list(pa.int32())], ids=str)
def test_lists_of_fixed_widths_with_some_nulls(kind):
    plain = pa.array([list(range(i % 5)) for i in range(700)], kind)
    nulls = pa.array([None if i == 3 else [i, None, 2][: i % 4] for i in range(300)], kind)
    whole = pa.chunked_array([plain.slice(2), nulls])
    table = pa.table({"row": range(len(whole)), "list": whole})
    got = together(mgi.exchange(table, "row", endpoints=2))
    assert got.schema == table.schema
    assert by_row(got) == by_row(table)
    got = together(mgi.group_by(table, "list", [("count", None, "n")], endpoints=2))
    counts = collections.Counter(map(repr, whole.to_pylist()))
    assert {repr(row["list"]): row["n"] for row in got.to_pylist()} == counts


def test_an_ordered_dictionary_keeps_its_order():
    kind = pa.dictionary(pa.int8(), pa.string(), ordered=True)
    sizes = pa.DictionaryArray.from_arrays(
        pa.array([2, 0], pa.int8()), pa.array(["small", "middle", "large"]), ordered=True
    )
    none = pa.table({"k": pa.array([], pa.int64()), "size": pa.array([], kind)})
    got = together(mgi.exchange([none, pa.table({"k": [1, 2], "size": sizes})], "k"))
    assert got.schema.field("size").type == kind
    for chunk in got["size"].chunks:
        assert chunk.dictionary.to_pylist() in ([], ["small", "middle", "large"])


def test_a_decimal_that_does_not_fit_is_named():
    wide = pa.array([decimal.Decimal(10) ** 50], pa.decimal256(60, 0))
    wrong = pa.Array.from_buffers(pa.decimal256(30, 0), 1, wide.buffers())
    with pytest.raises(mgi.InvalidArgument, match="column 'x'.*more digits"):
        mgi.exchange(pa.table({"k": [1], "x": wrong}), "k", endpoints=1)


def test_channels_carry_them(runtime):
    endpoint = runtime.create_endpoint("cpu")
    table = table_of()
    channel = runtime.create_channel([endpoint], [endpoint], table.schema, mgi.Broadcast())
    channel.send(table, timeout=60)
    channel.flush(timeout=60)
    got = pa.Table.from_batches([batch.to_arrow() for batch in channel.batches(timeout=60)])
    assert got.schema.types == table.schema.types
    assert by_row(got) == by_row(table)


def test_numpy_times(runtime):
    endpoint = runtime.create_endpoint("cpu")
    schema = {"t": "timestamp[us, tz=UTC]?", "d": "duration[ns]", "c": "time32[s]"}
    channel = runtime.create_channel([endpoint], [endpoint], schema, mgi.Broadcast())
    times = np.array(["2020-01-01", "NaT", "1999-12-31T23:59:59.5"], "M8[us]")
    sent = {"t": times, "d": np.array([1, 2, 3], "m8[ns]"), "c": np.array([1, 2, 3], "i4")}
    channel.send(sent)
    channel.flush()
    (batch,) = channel.batches(timeout=60)
    got = batch.to_numpy()
    assert got["t"].mask.tolist() == [False, True, False]
    assert got["t"][[0, 2]].tolist() == times[[0, 2]].tolist()
    assert (got["d"] == sent["d"]).all()
    assert (got["c"] == sent["c"]).all()
    assert batch.to_arrow().schema.field("t").type == pa.timestamp("us", "UTC")
    for parts in mgi.exchange({"k": np.arange(3), "t": times}, "k", endpoints=1):
        assert parts.to_arrow()["t"].null_count == 1


def test_a_date_below_a_mask_is_a_null():
    days = np.ma.masked_array(np.array(["2020-01-01", "NaT"], "M8[D]"), mask=[False, True])
    (part,) = mgi.exchange({"k": np.array([1, 2]), "d": days}, "k", endpoints=1)
    assert part.to_arrow()["d"].null_count == 1


def test_pointers_are_no_values():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"k": [1], "o": pl.Series([object()], dtype=pl.Object)})
    with pytest.raises(mgi.InvalidArgument, match="column 'o' is Polars' Object"):
        mgi.exchange(frame, "k", endpoints=1)


def test_polars_frames_come_out_equal():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(
        {
            "k": [1, 2, 3],
            "category": pl.Series(["a", None, "b"], dtype=pl.Categorical),
            "one of": pl.Series(["a", "b", "a"], dtype=pl.Enum(["a", "b"])),
            "at": pl.Series([1, 2, None]).cast(pl.Datetime("ns", "UTC")),
            "lasts": pl.Series([1, 2, None]).cast(pl.Duration("ms")),
            "none": pl.Series([None, None, None]),
            "list": [[1, 2], [], None],
            "array": pl.Series([[1.5, 2.0], None, [0.0, -1.0]], dtype=pl.Array(pl.Float64, 2)),
            "struct": [{"a": 1, "b": "x"}, {"a": None, "b": "y" * 50}, None],
        }
    )
    (part,) = mgi.exchange(frame, "k", endpoints=1)
    got = pl.DataFrame(part).sort("k")
    assert got.schema == frame.schema
    assert got.equals(frame)


def test_duckdb_relations_come_out_equal():
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql(
        "select 1 as k, 'a' as s, timestamp '2020-01-01' as t, timestamptz '2020-01-01' as z,"
        " time '10:00' as c, interval 3 day as i, 1.5::decimal(38,2) as d, uuid() as u,"
        " 'x'::blob as b, date '2020-01-01' as day, 'happy'::enum('sad', 'happy') as mood,"
        " [1, null] as l, {'a': 1, 'b': ['x']} as st, map {'a': 1.5} as m,"
        " union_value(num := 2)::union(num int, str varchar) as either, [1, 2]::int[2] as pair"
    )
    table = pa.table(relation.to_arrow_table())
    got = together(mgi.exchange(table, "k", endpoints=1))
    assert got.schema.types == table.schema.types
    assert got.equals(table)


def test_pandas_frames_come_out_equal():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "k": [0, 1, 2, 0],
            "text": ["a", None, "c", "d"],
            "kind": pd.Categorical(["x", "y", None, "x"], categories=["z", "y", "x"], ordered=True),
            "at": pd.date_range("2024-01-01", periods=4, tz="Europe/Berlin"),
            "took": pd.to_timedelta([1, 2, 3, 4], "s"),
            "whole": pd.array([1, None, 3, 4], "Int64"),
            "list": [[1, 2], [], None, [3]],
            "record": [{"a": 1, "b": "x"}] * 4,
        },
        index=pd.Index([10, 12, 11, 13], name="row"),
    )
    parts = mgi.exchange(frame, "k", endpoints=2)
    got = pd.concat([part.to_arrow().to_pandas() for part in parts]).sort_index()
    pd.testing.assert_frame_equal(got, pa.table(frame).to_pandas().sort_index())


@pytest.mark.parametrize("by_reference", [True, False])
@pytest.mark.parametrize("routing", [mgi.Broadcast(), mgi.Balance(), mgi.Direct()])
def test_rows_without_columns(runtime, background, by_reference, routing):
    rows = pa.Table.from_batches(
        [pa.RecordBatch.from_struct_array(pa.array([{}] * 100_000, pa.struct([])))]
    )
    source, end = runtime.create_endpoint("cpu"), runtime.create_endpoint("cpu")
    channel = runtime.create_channel(
        [source], [end], rows.schema, routing, by_reference=by_reference
    )
    assert channel.schema.names == []
    receiver = background(lambda: [b.to_arrow() for b in channel.batches(end, timeout=60)])
    if isinstance(routing, mgi.Direct):
        assert channel.send_to(end, rows) == 100_000
    else:
        assert channel.send(rows) == 100_000
    channel.flush()
    batches = receiver.join()
    assert sum(batch.num_rows for batch in batches) == 100_000
    assert all(batch.schema.names == [] for batch in batches)
