"""Random tables through channels and operators, against what they must give."""

from __future__ import annotations

import collections
import decimal
import os

import mgi
import pytest

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")
hypothesis = pytest.importorskip("hypothesis")
from hypothesis import strategies as st  # noqa: E402

VALUES = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float64(): st.floats(width=64, allow_nan=False),
    pa.date32(): st.dates(),
    pa.decimal128(20, 3): st.integers(-(10**19), 10**19).map(
        lambda i: decimal.Decimal(i).scaleb(-3)
    ),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.string(): st.text(max_size=40),
    pa.string_view(): st.text(max_size=40),
    pa.large_binary(): st.binary(max_size=40),
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("ms", "UTC"): st.integers(-(2**40), 2**40),
    pa.time64("us"): st.times(),
    pa.time32("s"): st.integers(0, 86399),
    pa.date64(): st.dates(),
    pa.duration("s"): st.integers(-(2**40), 2**40),
    pa.month_day_nano_interval(): st.tuples(*[st.integers(-100, 100)] * 3),
    pa.float16(): st.floats(width=16, allow_nan=False).map(np.float16),
    pa.decimal64(12, 2): st.integers(-(10**11), 10**11).map(
        lambda i: decimal.Decimal(i).scaleb(-2)
    ),
    pa.decimal256(60, 0): st.integers(-(10**59), 10**59).map(decimal.Decimal),
    pa.null(): st.none(),
    pa.dictionary(pa.int8(), pa.string()): st.text(max_size=20),
    pa.dictionary(pa.int32(), pa.float64()): st.floats(width=64, allow_nan=False),
    pa.run_end_encoded(pa.int32(), pa.large_string()): st.text(max_size=20),
    pa.uuid(): st.uuids().map(lambda one: one.bytes),
    pa.bool8(): st.integers(0, 1),
}


def array_of(values: list[object], kind: pa.DataType) -> pa.Array:
    """With garbage below each null where values have a fixed width."""
    if isinstance(kind, pa.ExtensionType):
        return pa.ExtensionArray.from_storage(kind, array_of(values, kind.storage_type))
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(pa.array(values, kind.value_type), kind.run_end_type)
    array = pa.array(values, kind)
    validity, *buffers = array.buffers()
    views = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)
    if validity is None or len(buffers) != 1 or views or pa.types.is_boolean(kind):
        return array
    width = kind.bit_width // 8
    garbage = bytearray(buffers[0].to_pybytes())
    for row, value in enumerate(values):
        if value is None:
            garbage[row * width : (row + 1) * width] = b"\xa5" * width
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(bytes(garbage))])


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """A table of random columns, in random chunks, with an integer column `key`."""
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), max_size=5))
    rows = draw(st.integers(0, 200))
    keys = draw(st.lists(st.none() | st.integers(-5, 5), min_size=rows, max_size=rows))
    columns = {"key": pa.array(keys, pa.int64())}
    for place, kind in enumerate(kinds):
        one = st.none() | VALUES[kind] if draw(st.booleans()) else VALUES[kind]
        values = draw(st.lists(one, min_size=min(rows, 7), max_size=min(rows, 7)))
        column = [values[row % len(values)] for row in range(rows)]
        columns[f"c{place}"] = array_of(column, kind)
    table = pa.table(columns)
    cut, skip = draw(st.integers(0, rows)), draw(st.integers(0, rows))
    return pa.concat_tables([table.slice(cut), table.slice(skip)])


def rows_of(*parts: pa.Table) -> list[tuple]:
    found: list[tuple] = []
    for part in parts:
        found += zip(*(column.to_pylist() for column in part.columns), strict=True)
    return sorted(found, key=repr)


percent = int(os.environ.get("MGI_TEST_CASES", "100"))
fast = hypothesis.settings(
    max_examples=max(1, 40 * percent // 100), deadline=None, derandomize=True
)


@fast
@hypothesis.given(
    table=tables(),
    endpoints=st.integers(1, 4),
    groups=st.integers(1, 3),
    by_reference=st.booleans(),
    modulo=st.booleans(),
)
def test_exchange(table, endpoints, groups, by_reference, modulo):
    parts = mgi.exchange(
        table,
        "key",
        endpoints=endpoints,
        groups=groups,
        by_reference=by_reference,
        hash="modulo" if modulo else "murmur3",
    )
    arrow = [part.to_arrow() for part in parts]
    assert all(part.schema.types == table.schema.types for part in arrow)
    assert rows_of(*arrow) == rows_of(table)
    owners = collections.defaultdict(set)
    for place, part in enumerate(arrow):
        for key in part["key"].to_pylist():
            owners[key].add(place)
            assert not modulo or key is None or key % endpoints == place
    assert all(len(places) == 1 for places in owners.values())


@fast
@hypothesis.given(
    table=tables(),
    routing=st.sampled_from([mgi.Partition("key"), mgi.Broadcast(), mgi.Balance(), mgi.Direct()]),
    segment_rows=st.sampled_from([64, 100, None]),
    by_reference=st.booleans(),
)
def test_channel(background, table, routing, segment_rows, by_reference):
    with mgi.Runtime.local() as runtime:
        source, *ends = (runtime.create_endpoint("cpu") for _ in range(3))
        channel = runtime.create_channel(
            [source],
            ends,
            table.schema,
            routing,
            segment_rows=segment_rows,
            by_reference=by_reference,
        )
        receivers = [
            background(lambda e=e: [b.to_arrow() for b in channel.batches(e, timeout=60)])
            for e in ends
        ]
        if isinstance(routing, mgi.Direct):
            assert channel.send_to(ends[1], table) == table.num_rows
        else:
            assert channel.send(table) == table.num_rows
        channel.flush()
        parts = [receiver.join() for receiver in receivers]
        expected = rows_of(table)
        if isinstance(routing, mgi.Broadcast):
            assert [rows_of(*part) for part in parts] == [expected, expected]
        else:
            assert rows_of(*parts[0], *parts[1]) == expected
        if isinstance(routing, mgi.Direct):
            assert parts[0] == []


@fast
@hypothesis.given(table=tables(), endpoints=st.integers(1, 4))
def test_each_column_is_a_key(table, endpoints):
    for name in table.column_names:
        rows = table.append_column("row", pa.array(range(table.num_rows), pa.int64()))
        groups = mgi.group_by(rows, name, [("sum", "row", "sum")], endpoints=endpoints)
        wanted: dict[str, int] = {}
        for row in rows.select([name, "row"]).to_pylist():
            key = repr(row[name]).replace("-0.0", "0.0")
            wanted[key] = wanted.get(key, 0) + row["row"]
        got = [row for part in groups for row in part.to_arrow().to_pylist()]
        assert {repr(row[name]).replace("-0.0", "0.0"): row["sum"] for row in got} == wanted
        assert len(got) == len(wanted)


@fast
@hypothesis.given(table=tables(), endpoints=st.integers(1, 4), by_reference=st.booleans())
def test_group_by_and_join(table, endpoints, by_reference):
    options = {"endpoints": endpoints, "by_reference": by_reference}
    aggregates = [("count", None, "rows"), ("sum", "key", "total")]
    groups = mgi.group_by(table, "key", aggregates, **options)
    count = collections.Counter(table["key"].to_pylist())
    expected = [(k, n, None if k is None else k * n) for k, n in count.items()]
    assert rows_of(*(part.to_arrow() for part in groups)) == sorted(expected, key=repr)

    joined = mgi.join(table, [part.to_arrow() for part in groups], on="key", **options)
    assert sum(part.num_rows for part in joined) == sum(
        n for k, n in count.items() if k is not None
    )
    for part in joined:
        for row in part.to_arrow().to_pylist():
            assert row["rows"] == count[row["key"]]
