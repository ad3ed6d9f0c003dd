"""Sort over tables of all kinds, as DuckDB's ORDER BY has it; channels that route by range."""

from __future__ import annotations

import decimal
import math

import mgi
import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")

ROWS = 20_000


def some(values: list[object], kind: pa.DataType, seed: int) -> pa.Array:
    random = np.random.default_rng(seed)
    picked = [values[i] for i in random.integers(0, len(values), ROWS)]
    return pa.array(picked, kind, mask=random.random(ROWS) < 0.1)


def table_of() -> pa.Table:
    random = np.random.default_rng(5)
    cents = [decimal.Decimal(int(n)).scaleb(-2) for n in random.integers(-(10**9), 10**9, 500)]
    large = [decimal.Decimal(int(n)) * 10**18 for n in random.integers(-(10**18), 10**18, 500)]
    floats = [0.0, -0.0, math.nan, math.inf, -math.inf, *random.normal(size=200).tolist()]
    texts = ["", "a", "a\0", "ab", "æ", *(f"the same {'beginning ' * 4}{n}" for n in range(300))]
    return pa.table(
        {
            "number": np.arange(ROWS),
            "integer": some(random.integers(-50, 50, 90).tolist(), pa.int32(), 1),
            "unsigned": some([0, 1, 2**63, 2**64 - 1], pa.uint64(), 2),
            "float": some(floats, pa.float64(), 3),
            "flag": some([True, False], pa.bool_(), 4),
            "day": some(list(range(-9, 9)), pa.int32(), 5).cast(pa.date32()),
            "cents": some(cents, pa.decimal128(12, 2), 6),
            "large": some([*large, *cents], pa.decimal128(38, 2), 7),
            "text": some(texts, pa.string(), 8),
            "bytes": some([b"", b"\xff", b"\xff\0", b"a" * 30, b"a" * 29], pa.large_binary(), 9),
        }
    )


TABLE = table_of()


def arrow_of(parts: list[mgi.Table]) -> pa.Table:
    arrow = [part.to_arrow() for part in parts]
    return pa.concat_tables([part.cast(arrow[0].schema) for part in arrow])


def comparable(column: pa.ChunkedArray) -> list[object]:
    """NaN is not equal to itself; to DuckDB it is."""
    return ["NaN" if value != value else value for value in column.to_pylist()]


KEYS = [
    ["integer"],
    [("integer", "desc"), "float"],
    ["flag", ("text", "descending"), "number"],
    [("bytes", "desc"), ("unsigned", "ascending")],
    ["cents", ("day", "desc")],
    [("large", "desc"), "flag", "cents"],
    ["float", ("number", "desc")],
    [("number", "desc")],
]


@pytest.mark.parametrize("by", KEYS, ids=str)
@pytest.mark.parametrize("nulls", ["last", "first"])
def test_as_duckdb_has_it(by, nulls, by_reference):
    keys = [(key, "asc") if isinstance(key, str) else key for key in by]
    order = [f'"{name}" {way[:4].rstrip("e")} nulls {nulls}' for name, way in keys]
    sql = f"SELECT * FROM rows ORDER BY {', '.join(order)}"
    connection = duckdb.connect()
    connection.register("rows", TABLE)
    expected = connection.sql(sql).to_arrow_table()
    got = arrow_of(mgi.sort(TABLE, by, nulls, endpoints=3, by_reference=by_reference, groups=2))
    for name, _ in keys:
        assert comparable(got[name]) == comparable(expected[name]), name
    # Each row is whole, and there once.
    places = np.argsort(got["number"].to_numpy()).tolist()
    for name in TABLE.column_names:
        values = comparable(got[name])
        assert [values[place] for place in places] == comparable(TABLE[name]), name


def test_other_tables_and_few_rows():
    parts = mgi.sort({"n": np.array([3, 1, 2])}, "n", endpoints=5)
    assert arrow_of(parts)["n"].to_pylist() == [1, 2, 3]
    assert sum(map(len, mgi.sort(TABLE.slice(0, 0), "text", endpoints=2))) == 0
    given = [
        pa.table({"n": [5, 4]}),
        pa.table({"n": pa.array([], pa.int64())}),
        pa.table({"n": [6]}),
    ]
    stats: dict = {}
    with mgi.Runtime.local() as runtime:
        endpoints = [runtime.create_endpoint("cpu") for _ in given]
        parts = mgi.sort(given, "n", endpoints=endpoints, runtime=runtime, stats=stats)
    assert arrow_of(parts)["n"].to_pylist() == [4, 5, 6]
    assert stats["rows"] == 3
    assert [channel["name"] for channel in stats["channels"]] == ["sort"]


def test_endpoints_share_the_rows():
    parts = mgi.sort({"n": np.arange(100_000)[::-1]}, "n", endpoints=4)
    assert max(map(len, parts)) < 30_000


def test_what_cannot_be_sorted():
    for by, nulls, message in [
        ("kee", "last", "no column 'kee'|kee.*number"),
        ([], "last", "by is empty"),
        (5, "last", "by is 5"),
        ([5], "last", "by holds 5"),
        ([("number", "up")], "last", "'asc'"),
        ([("number", "asc", "first")], "last", "direction"),
        (["number", "flag", "number"], "last", "'number' is given twice"),
        ("number", "middle", "nulls is 'middle'"),
        ("number", None, "nulls is None"),
    ]:
        with pytest.raises(mgi.InvalidArgument, match=message):
            mgi.sort(TABLE, by, nulls, endpoints=2)


@pytest.mark.parametrize("nulls", ["last", "first"])
def test_a_channel_by_range(runtime, background, by_reference, nulls):
    ends = [runtime.create_endpoint("cpu") for _ in range(3)]
    splitters = pa.table({"text": ["m", "b"], "integer": pa.array([0, 7], pa.int32())})
    rows = TABLE.select(["integer", "text"])
    channel = runtime.create_channel(
        ends[:1],
        ends,
        rows.schema,
        mgi.Range([("text", "desc"), "integer"], splitters, nulls),
        by_reference=by_reference,
    )
    sender = background(lambda: (channel.send(rows), channel.flush()))
    receivers = [background(lambda end=end: list(channel.batches(end, timeout=60))) for end in ends]
    sender.join()
    got = []
    for receiver in receivers:
        batches = [batch.to_arrow() for batch in receiver.join()]
        got.append([row for batch in batches for row in batch.to_pylist()])

    def place(row: dict) -> int:
        text, integer = row["text"], row["integer"]
        if text is None:
            return 0 if nulls == "first" else 2
        low = nulls == "first" if integer is None else None
        after_m = text < "m" or (text == "m" and (integer >= 0 if low is None else not low))
        after_b = text < "b" or (text == "b" and (integer >= 7 if low is None else not low))
        return int(after_m) + int(after_b)

    assert all(place(row) == at for at, part in enumerate(got) for row in part)
    assert sum(map(len, got)) == ROWS


def test_ranges_that_are_none(runtime):
    ends = [runtime.create_endpoint("cpu") for _ in range(3)]

    def create(routing: mgi.Routing) -> None:
        runtime.create_channel(ends, ends, {"n": "int64", "x": "float64"}, routing, name="sales")

    with pytest.raises(mgi.InvalidArgument, match="'m'.*there|m.*n"):
        create(mgi.Range("m", {"n": np.array([1, 2])}))
    with pytest.raises(mgi.InvalidArgument, match="sales.*1 splitters for 3 destinations; give 2"):
        create(mgi.Range("n", {"n": np.array([1])}))
    with pytest.raises(mgi.InvalidArgument, match="sales.*splitter 1 comes before splitter 0"):
        create(mgi.Range("n", {"n": np.array([2, 1])}))
    with pytest.raises(mgi.InvalidArgument, match="sales.*'x' is int64"):
        create(mgi.Range("x", {"x": np.array([1, 2])}))
    with pytest.raises(mgi.InvalidArgument, match="is no table"):
        create(mgi.Range("n", 5))
