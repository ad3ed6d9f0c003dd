"""Random tables through channels and operators, against what they must give."""

from __future__ import annotations

import collections
import decimal
import os

import mgi
import pytest

pa = pytest.importorskip("pyarrow")
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
}


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
        columns[f"c{place}"] = pa.array(column, kind)
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
