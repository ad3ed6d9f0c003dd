"""Exchange, group-by and join over tables of all kinds."""

from __future__ import annotations

import collections
import math

import mgi
import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")


def table_of(rows: int, seed: int = 1) -> pa.Table:
    random = np.random.default_rng(seed)
    keys = random.integers(0, rows // 3 + 1, rows)
    return pa.table(
        {
            "key": pa.array(keys, mask=keys % 13 == 0),
            "value": random.integers(-100, 100, rows),
            "price": random.random(rows),
            "text": pa.array([f"text of row {i}"[: 3 + i % 20] for i in range(rows)], pa.string()),
        }
    )


def rows_of(parts: object) -> list[tuple]:
    tables = parts if isinstance(parts, list) else [parts]
    found = []
    for part in tables:
        arrow = part if isinstance(part, pa.Table) else part.to_arrow()
        found += zip(*(column.to_pylist() for column in arrow.columns), strict=True)
    return sorted(found, key=repr)


@pytest.mark.parametrize("endpoints", [1, 3])
@pytest.mark.parametrize("rows", [0, 1, 20_000])
def test_exchange(by_reference, endpoints, rows):
    table = table_of(rows)
    parts = mgi.exchange(table, "key", endpoints=endpoints, by_reference=by_reference)
    assert len(parts) == endpoints
    assert rows_of(parts) == rows_of(table)
    keys = [set(part.to_arrow()["key"].to_pylist()) for part in parts]
    assert sum(map(len, keys)) == len(set().union(*keys))
    assert all(part.schema.names == table.column_names for part in parts)


def test_exchange_by_modulo_and_by_several_keys():
    table = pa.table({"a": list(range(100)), "b": [i % 7 for i in range(100)]})
    parts = mgi.exchange(table, "b", endpoints=3, hash="modulo")
    assert all(
        value % 3 == place
        for place, part in enumerate(parts)
        for value in part.to_arrow()["b"].to_pylist()
    )
    parts = mgi.exchange(table, ["a", "b"], endpoints=3)
    assert rows_of(parts) == rows_of(table)


@pytest.mark.parametrize("groups", [1, 3])
def test_group_by(by_reference, groups):
    table = table_of(20_000)
    parts = mgi.group_by(
        table,
        "key",
        [
            ("sum", "value", "total"),
            ("count", None, "rows"),
            ("count", "value", "values"),
            ("min", "price", "low"),
            ("max", "price", "high"),
            ("avg", "value", "mean"),
        ],
        endpoints=3,
        by_reference=by_reference,
        groups=groups,
    )
    expected: dict = collections.defaultdict(list)
    for row in table.to_pylist():
        expected[row["key"]].append(row)
    got = {row["key"]: row for part in parts for row in part.to_arrow().to_pylist()}
    assert sum(part.num_rows for part in parts) == len(got) == len(expected)
    for key, rows in expected.items():
        values = [row["value"] for row in rows]
        prices = [row["price"] for row in rows]
        one = got[key]
        assert (one["total"], one["rows"], one["values"]) == (sum(values), len(rows), len(rows))
        assert (one["low"], one["high"]) == (min(prices), max(prices))
        assert math.isclose(one["mean"], sum(values) / len(values), abs_tol=1e-9)


def test_group_by_several_keys_and_no_aggregate():
    table = pa.table({"a": [1, 1, 2, None, None], "s": ["x", "x", "y", None, None]})
    parts = mgi.group_by(table, ["a", "s"], [], endpoints=2)
    assert rows_of(parts) == sorted([(1, "x"), (2, "y"), (None, None)], key=repr)


def test_join(by_reference):
    left = table_of(5000)
    right = pa.table({"id": list(range(0, 1700, 2)) * 2, "name": [f"n{i}" for i in range(1700)]})
    parts = mgi.join(
        left,
        right,
        on=[("key", "id")],
        left_columns=["key", "value", "text"],
        right_columns=["name"],
        endpoints=3,
        by_reference=by_reference,
    )
    names = collections.defaultdict(list)
    for row in right.to_pylist():
        names[row["id"]].append(row["name"])
    expected = [
        (row["key"], row["value"], row["text"], name)
        for row in left.to_pylist()
        if row["key"] is not None
        for name in names[row["key"]]
    ]
    assert rows_of(parts) == sorted(expected, key=repr)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("rows", [300, 900])
@pytest.mark.parametrize("broadcast", [None, True, False])
def test_joins_of_each_kind_are_duckdbs(how, rows, broadcast, by_reference):
    duckdb = pytest.importorskip("duckdb")
    left = pa.table(
        {
            "k": [None if i % 11 == 0 else i % 60 for i in range(600)],
            "s": [None if i % 7 == 0 else f"a text for {i % 4}" for i in range(600)],
            "x": list(range(600)),
        }
    )
    right = pa.table(
        {
            "k": [None if i % 13 == 0 else i % 80 for i in range(rows)],
            "s": [f"a text for {i % 5}" for i in range(rows)],
            "y": [i % 3 == 0 for i in range(rows)],
        }
    )
    stats: dict = {}

    def join():
        return mgi.join(
            left,
            right,
            ["k", "s"],
            how,
            endpoints=3,
            by_reference=by_reference,
            broadcast=broadcast,
            stats=stats,
        )

    if how == "full" and broadcast:
        with pytest.raises(mgi.InvalidArgument, match="kind full cannot be broadcast"):
            join()
        return
    parts = join()
    with duckdb.connect() as database:
        database.register("l", left)
        database.register("r", right)
        expected = database.sql(f"SELECT * FROM l {how} JOIN r USING (k, s)").fetchall()
    assert rows_of(parts) == sorted(expected, key=repr)
    # One that may come alone is not broadcast.
    fixed = {"left": "right", "semi": "right", "anti": "right", "right": "left"}
    smaller = "right" if rows < 600 else "left"
    assert stats["built"] == (fixed.get(how, smaller) if broadcast else smaller)
    if broadcast is not None:
        assert stats["broadcast"] is broadcast


def test_a_small_side_is_broadcast_and_the_other_stays():
    left = pa.table({"k": [i % 50 for i in range(6000)], "x": list(range(6000))})
    right = pa.table({"k": list(range(40)), "y": list(range(40))})
    stats: dict = {}
    parts = mgi.join(left, right, "k", endpoints=3, stats=stats)
    assert stats["broadcast"] is True
    assert [sorted(part.to_arrow()["x"].to_pylist()) for part in parts] == [
        [x for x in range(2000 * e, 2000 * (e + 1)) if x % 50 < 40] for e in range(3)
    ]
    # Rows of sides that are alike meet where their key is owned.
    mgi.join(left, left.rename_columns(["k", "z"]).slice(0, 3000), "k", endpoints=3, stats=stats)
    assert stats["broadcast"] is False


def test_join_takes_all_columns_and_renames():
    left = pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"]})
    right = pa.table({"k": [3, 1], "v": ["C", "A"]})
    parts = mgi.join(left, right, on="k", endpoints=2)
    assert parts[0].schema.names == ["k", "v", "v_right"]
    assert rows_of(parts) == [(1, "a", "A"), (3, "c", "C")]


def test_tables_of_every_kind(runtime):
    pl = pytest.importorskip("polars")
    arrow = pa.table({"n": [1, 2], "x": [0.5, 1.5]})
    kinds = [
        arrow,
        arrow.to_batches()[0],
        pl.DataFrame(arrow),
        {"n": np.array([1, 2]), "x": np.array([0.5, 1.5])},
        mgi.exchange(arrow, "n", endpoints=1)[0],
        next(mgi.exchange(arrow, "n", endpoints=1)[0].batches()),
        np.array([(1, 0.5), (2, 1.5)], [("n", "i8"), ("x", "f8")]),
    ]
    for kind in kinds[:-1]:
        assert rows_of(mgi.exchange(kind, "n", endpoints=2)) == [(1, 0.5), (2, 1.5)]
    assert len(rows_of(mgi.exchange(kinds, "n"))) == 2 * len(kinds)


def test_one_table_is_dealt_out_evenly():
    table = pa.concat_tables([table_of(7), table_of(1), table_of(93)])
    parts = mgi.exchange(table, "value", endpoints=4)
    assert rows_of(parts) == rows_of(table)
    from mgi.table import as_table

    for count in (1, 2, 4, 50, 101, 200):
        dealt = as_table(table).deal(count)
        sizes = [part.rows() for part in dealt]
        assert len(sizes) == count
        assert sum(sizes) == 101
        assert max(sizes) - min(sizes) <= 1
        again = [row for part in dealt for row in mgi.Table(part).to_arrow().to_pylist()]
        assert again == table.to_pylist()


def test_endpoints_of_a_runtime_are_used_and_left_as_they_were(runtime):
    table = table_of(1000)
    mine = [runtime.create_endpoint("cpu") for _ in range(2)]
    stats: dict = {}
    parts = mgi.exchange(table, "key", endpoints=mine, runtime=runtime, stats=stats)
    assert rows_of(parts) == rows_of(table)
    (channel,) = stats["channels"]
    ids = {endpoint.id for endpoint in mine}
    assert {lane["source"] for lane in channel["lanes"]} == ids
    assert {lane["destination"] for lane in channel["lanes"]} == ids
    assert sum(lane["rows"] for lane in channel["lanes"]) == stats["rows"] == 1000
    assert stats["bytes"] > 0
    assert stats["seconds"] > 0
    assert stats["plans"][0]["transfer"] == "by reference"
    assert stats["graph"] == runtime.graph()
    mgi.exchange(table, "key", endpoints=3, runtime=runtime)
    for endpoint in mine:
        runtime.delete_endpoint(endpoint)


def test_results_outlive_everything(runtime):
    parts = mgi.exchange([table_of(1000), table_of(1000, 2)], "key", runtime=runtime)
    arrow = [part.to_arrow() for part in parts]
    expected = rows_of(arrow)
    del parts
    runtime.close()
    assert rows_of(arrow) == expected
    assert len(expected) == 2000


def test_nan_and_null_keys_are_one_group_each():
    table = pa.table({"x": [float("nan"), None, 1.0, -math.nan, None, -0.0, 0.0], "n": [1] * 7})
    (part,) = mgi.group_by(table, "x", [("sum", "n", "n")], endpoints=1)
    got = {repr(row["x"]).lstrip("-"): row["n"] for row in part.to_arrow().to_pylist()}
    assert got == {"nan": 2, "None": 2, "1.0": 1, "0.0": 2}


def test_all_rows_to_one_endpoint(by_reference):
    table = pa.table({"key": [7] * 50_000, "n": list(range(50_000))})
    parts = mgi.exchange(table, "key", endpoints=4, by_reference=by_reference)
    assert sorted(part.num_rows for part in parts) == [0, 0, 0, 50_000]
    assert rows_of(parts) == rows_of(table)


def test_wrong_calls_name_the_offender(runtime):
    table = table_of(10)
    endpoint = runtime.create_endpoint("cpu")
    other = mgi.Runtime.local().create_endpoint("cpu")

    def group(aggregate):
        return lambda: mgi.group_by(table, "key", [aggregate], endpoints=2)

    wrong = [
        (lambda: mgi.exchange(table, "nokey", endpoints=2), "nokey"),
        (lambda: mgi.exchange(table, [], endpoints=2), "key is empty"),
        (lambda: mgi.exchange(table, [3], endpoints=2), "key holds 3"),
        (lambda: mgi.exchange([], "key"), "tables is empty"),
        (lambda: mgi.exchange(5, "key"), "tables is a int"),
        (lambda: mgi.exchange([5], "key"), "int is no table"),
        (lambda: mgi.exchange([table, table], "key", endpoints=3), "2 for 3 endpoints"),
        (lambda: mgi.exchange(table, "key", endpoints=0), "endpoints is 0"),
        (lambda: mgi.join(table, table, "key", broadcast="small"), "broadcast is 'small'"),
        (lambda: mgi.exchange(table, "key", endpoints=[], runtime=runtime), "endpoints is empty"),
        (lambda: mgi.exchange(table, "key", endpoints="4"), "endpoints is '4'"),
        (lambda: mgi.exchange(table, "key", endpoints=[endpoint]), "needs the runtime"),
        (
            lambda: mgi.exchange(table, "key", endpoints=[other], runtime=runtime),
            f"endpoint {other.id} belongs to another runtime",
        ),
        (
            lambda: mgi.exchange(
                [table, table], "key", endpoints=[endpoint, endpoint], runtime=runtime
            ),
            f"endpoint {endpoint.id}",
        ),
        (lambda: mgi.exchange(table, "key", endpoints=2, hash="md5"), "no hash 'md5'"),
        (lambda: mgi.exchange(table, "text", endpoints=2, hash="modulo"), "text"),
        (lambda: mgi.exchange(table, "key", endpoints=2, groups=0), "groups is 0"),
        (lambda: mgi.exchange([table, table.drop(["text"])], "key"), "text"),
        (lambda: mgi.exchange(table, "key", endpoints=2, runtime="here"), "runtime is 'here'"),
        (group(("median", "value", "m")), "no aggregate 'median'"),
        (group(("sum", "nocolumn", "m")), "nocolumn"),
        (group(("sum", "text", "m")), "text"),
        (group(("sum", None, "m")), "only count"),
        (group("sum"), "aggregate 'sum'"),
        (group(("sum", "value", "key")), "key"),
        (lambda: mgi.join(table, table, on=[], endpoints=2), "on is empty"),
        (lambda: mgi.join(table, table, on=[("a", "b", "c")], endpoints=2), "on holds"),
        (lambda: mgi.join(table, table, on="key2", endpoints=2), "key2"),
        (lambda: mgi.join(table, table, on=[("key", "text")], endpoints=2), "text"),
        (lambda: mgi.join(table, table, "key", "outer", endpoints=2), "kind 'outer'"),
        (lambda: mgi.join(table, table, "key", ["text"], endpoints=2), "how is"),
        (
            lambda: mgi.join(table, table, "key", "semi", right_columns=["text"], endpoints=2),
            "right_columns",
        ),
        (lambda: mgi.join([table] * 2, [table] * 3, on="key"), "2 tables and right one of 3"),
        (
            lambda: mgi.join(table, table, on="key", left_columns=["absent"], endpoints=2),
            "absent",
        ),
    ]
    for call, message in wrong:
        with pytest.raises(mgi.InvalidArgument, match=message):
            call()
    assert issubclass(mgi.InvalidArgument, ValueError)
    runtime.delete_endpoint(endpoint)


def test_a_sum_that_overflows_names_its_column():
    table = pa.table({"key": [1, 1], "huge": [2**62, 2**62]})
    with pytest.raises(mgi.Error, match="huge"):
        mgi.group_by(table, "key", [("sum", "huge", "total")], endpoints=2)


def test_a_memory_limit_is_kept():
    with mgi.Runtime.local(memory_limit=1 << 20) as small:
        with pytest.raises(mgi.OutOfMemory) as error:
            mgi.exchange(table_of(200_000), "key", endpoints=4, runtime=small)
        assert isinstance(error.value, MemoryError)
        assert error.value.code == "OutOfMemory"
        parts = mgi.exchange(table_of(10), "key", endpoints=1, runtime=mgi.Runtime.local())
        assert len(rows_of(parts)) == 10
