"""Variances, different and any values, and extremes of group_by, against DuckDB and exact sums."""

from __future__ import annotations

import collections
import decimal
import math
import os
import statistics
import time

import mgi
import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")
hypothesis = pytest.importorskip("hypothesis")
from hypothesis import strategies as st  # noqa: E402

NUMBERS = {
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**40), 2**40),
    pa.uint64(): st.integers(0, 2**40),
    pa.float32(): st.floats(width=32, min_value=-1000, max_value=1000),
    pa.float64(): st.floats(-1e6, 1e6) | st.sampled_from([0.0, -0.0, 1e9, 1e9 + 1]),
    pa.decimal128(9, 2): st.integers(-(10**8), 10**8).map(lambda i: decimal.Decimal(i).scaleb(-2)),
    pa.decimal128(30, 3): st.integers(-(10**14), 10**14).map(
        lambda i: decimal.Decimal(i).scaleb(-3)
    ),
}
OTHERS = {
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.string(): st.text(max_size=20),
    pa.string_view(): st.text(max_size=20),
    pa.large_binary(): st.binary(max_size=20),
    pa.binary(3): st.binary(min_size=3, max_size=3),
}
VALUES = NUMBERS | OTHERS


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Few keys, half of the rows with one of them, and columns that repeat a few values."""
    rows = draw(st.integers(0, 120))
    keys = draw(st.lists(st.none() | st.integers(0, 6), min_size=rows, max_size=rows))
    columns = {"key": pa.array([3 if i % 2 else key for i, key in enumerate(keys)], pa.int32())}
    for place, kind in enumerate(draw(st.lists(st.sampled_from(list(VALUES)), max_size=3))):
        some = draw(st.lists(st.none() | VALUES[kind], min_size=1, max_size=8))
        chosen = draw(st.lists(st.sampled_from(some), min_size=rows, max_size=rows))
        columns[f"c{place}"] = pa.array(chosen, kind)
    table = pa.table(columns)
    cut = draw(st.integers(0, rows))
    return pa.concat_tables([table.slice(cut), table.slice(0, cut)])


def groups_of(parts: list[mgi.Table]) -> dict:
    rows = [row for part in parts for row in part.to_arrow().to_pylist()]
    groups = {row["key"]: row for row in rows}
    assert len(groups) == len(rows)
    return groups


percent = int(os.environ.get("MGI_TEST_CASES", "100"))


@hypothesis.settings(max_examples=max(1, 60 * percent // 100), deadline=None, derandomize=True)
@hypothesis.given(
    table=tables(),
    endpoints=st.integers(1, 3),
    groups=st.integers(1, 3),
    by_reference=st.booleans(),
)
def test_as_duckdb_has_it(table, endpoints, groups, by_reference):
    wanted = [("count", None, "rows"), ("count_distinct", "key", "keys")]
    selected = ["count(*) as rows", "count(distinct key) as keys"]
    for name in table.column_names[1:]:
        functions = {"count_distinct": f"count(distinct {name})"}
        functions |= {"min": f"min({name})", "max": f"max({name})", "first": f"list({name})"}
        if table.schema.field(name).type in NUMBERS:
            functions |= {"var": f"variance({name})", "std": f"stddev({name})"}
        for function, sql in functions.items():
            wanted.append((function, name, f"{name}_{function}"))
            selected.append(f"{sql} as {name}_{function}")
    parts = mgi.group_by(
        table, "key", wanted, endpoints=endpoints, groups=groups, by_reference=by_reference
    )
    got = groups_of(parts)
    expected = duckdb.from_arrow(table).aggregate(f"key, {', '.join(selected)}", "key").fetchall()
    names = ["key", *(name for _, _, name in wanted)]
    assert len(got) == len(expected)
    for row in expected:
        one = got[row[0]]
        for name, value in zip(names, row, strict=True):
            if name.endswith("_first"):
                values = [each for each in value if each is not None]
                assert one[name] in values if values else one[name] is None
            elif name.endswith(("_var", "_std")) and value is not None:
                # What DuckDB's own sums err by, of values up to 1e14.
                assert math.isclose(one[name], value, rel_tol=1e-6, abs_tol=1e-3), name
            else:
                assert one[name] == value, name


@pytest.mark.parametrize("keys", [3, 5000])
def test_variances_far_from_zero_are_exact(keys):
    random = np.random.default_rng(4)
    rows = 20_000
    table = pa.table(
        {
            "key": np.where(np.arange(rows) % 2 == 0, 0, random.integers(0, keys, rows)),
            "x": 1e9 + random.integers(0, 4096, rows) / 1024,
        }
    )
    got = groups_of(
        mgi.group_by(table, "key", [("var", "x", "var"), ("std", "x", "std")], endpoints=3)
    )
    values = collections.defaultdict(list)
    for row in table.to_pylist():
        values[row["key"]].append(row["x"])
    for key, some in values.items():
        if len(some) < 2:
            assert got[key]["var"] is None
            continue
        exact = statistics.variance(some)
        assert math.isclose(got[key]["var"], exact, rel_tol=1e-12)
        assert math.isclose(got[key]["std"], math.sqrt(exact), rel_tol=1e-12)


def test_odd_floats():
    nan, infinity = math.nan, math.inf
    some = {
        0: [nan, -nan, 1.0],
        1: [0.0, -0.0, None],
        2: [infinity, 1.0, 2.0],
        3: [None, None],
        4: [7.0],
        5: [nan],
        6: [infinity, -infinity],
    }
    table = pa.table(
        {
            "key": [key for key, values in some.items() for _ in values],
            "x": pa.array([x for values in some.values() for x in values], pa.float64()),
        }
    )
    wanted = [("count_distinct", "x", "n"), ("var", "x", "var"), ("first", "x", "any")]
    for endpoints in (1, 3):
        got = groups_of(mgi.group_by(table, "key", wanted, endpoints=endpoints))
        expected = duckdb.from_arrow(table).aggregate("key, count(distinct x)", "key").fetchall()
        assert {key: row["n"] for key, row in got.items()} == dict(expected)
        variances = {key: row["var"] for key, row in got.items()}
        assert [variances[key] for key in (3, 4, 5)] == [None, None, None]
        assert variances[1] == 0.0
        assert all(math.isnan(variances[key]) for key in (0, 2, 6))
        assert got[3]["any"] is None
        assert got[4]["any"] == 7.0


def test_different_values_of_a_key_that_half_of_the_rows_have():
    random = np.random.default_rng(7)
    rows = 100_000
    table = pa.table(
        {
            "key": np.where(np.arange(rows) % 2 == 0, -1, random.integers(0, 9000, rows)),
            "a": random.integers(0, 30_000, rows),
            "b": pa.array([f"text {i % 777} which is long" for i in range(rows)]),
        }
    )
    wanted = [
        ("count_distinct", "a", "as"),
        ("sum", "a", "sum"),
        ("count_distinct", "b", "bs"),
        ("max", "b", "last"),
    ]
    got = groups_of(mgi.group_by(table, "key", wanted, endpoints=3, groups=2))
    sql = "key, count(distinct a), sum(a), count(distinct b), max(b)"
    expected = duckdb.from_arrow(table).aggregate(sql, "key").fetchall()
    assert sorted(tuple(row.values()) for row in got.values()) == sorted(expected)


def test_names():
    table = pa.table({"key": [1, 1], "x": [1.0, 3.0]})
    others = [("var", "variance"), ("std", "stddev"), ("first", "any_value")]
    for name, other in others:
        (part,) = mgi.group_by(table, "key", [(name, "x", "a"), (other, "x", "b")], endpoints=1)
        (row,) = part.to_arrow().to_pylist()
        assert row["a"] == row["b"] is not None
    known = "sum, count, min, max, avg, var, std, first, count_distinct"
    with pytest.raises(mgi.InvalidArgument, match=f"no aggregate 'median'; there are: {known}"):
        mgi.group_by(table, "key", [("median", "x", "m")], endpoints=1)
    with pytest.raises(mgi.InvalidArgument, match="only count does without a column"):
        mgi.group_by(table, "key", [("count_distinct", None, "n")], endpoints=1)
    texts = pa.table({"key": [1], "t": ["a"]})
    with pytest.raises(mgi.InvalidArgument, match="std of column 't', which is string; it takes"):
        mgi.group_by(texts, "key", [("std", "t", "s")], endpoints=1)


def test_groups_of_groups_take_no_longer():
    """Results come in the order of hashes, which must not crowd the next call's tables."""
    keys = np.random.default_rng(1).permutation(200_000) * 7
    given = [{"k": keys, "v": np.ones(len(keys), np.int64)}]
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        given = mgi.group_by(given, "k", [("sum", "v", "v")], endpoints=1, groups=2)
        seconds.append(time.perf_counter() - started)
    assert given[0].num_rows == len(keys)
    assert max(seconds[1:]) < 10 * seconds[0] + 1
