"""The demo's comparison with DuckDB: it must find every single difference."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from mgi.demo.verify import Verdict, compare


def _rows(number: int = 200) -> pa.Table:
    rng = np.random.default_rng(number)
    return pa.table(
        {
            "k": pa.array(np.arange(number) // 3, pa.int64()),
            "n": pa.array(np.arange(number) % 3, pa.int32()),
            "d": pa.array(rng.integers(0, 9999, number)).cast(pa.decimal128(21, 2)),
            "s": pa.array([f"row {i} {'x' * (i % 40)}" for i in range(number)], pa.string_view()),
        }
    )


def _pick(table: pa.Table, places: np.ndarray) -> pa.Table:
    """Rows by place; pyarrow cannot pick rows of string views."""
    views = table.schema
    plain = pa.schema([f.with_type(pa.string()) if f.name == "s" else f for f in views])
    return table.cast(plain).take(pa.array(places)).cast(views)


def _spread(table: pa.Table, ends: int = 3) -> list[pa.Table]:
    """Rows in another order, every k on one of the ends."""
    order = np.random.default_rng(1).permutation(table.num_rows)
    owner = table.column("k").to_numpy()[order] % ends
    return [_pick(table, order[owner == end]) for end in range(ends)]


def _compare(parts: list[pa.Table], table: pa.Table, same_types: bool = True) -> Verdict:
    return compare(parts, table, ["k", "n"], ["k"], same_types)


def test_equal_results_are_equal():
    table = _rows()
    verdict = _compare(_spread(table), table)
    assert verdict == Verdict(True, 200, 4, [])
    shuffled = _pick(table, np.random.default_rng(3).permutation(200))
    assert _compare(_spread(table), shuffled).ok


def test_empty_results():
    table = _rows()
    nothing = table.slice(0, 0)
    assert _compare([nothing, nothing], nothing).ok
    assert not _compare([nothing], table).ok
    assert not _compare([table], nothing).ok
    assert not _compare([], table).ok


def test_a_lost_row_is_found_and_shown():
    table = _rows()
    parts = _spread(table)
    lost = parts[1].slice(0, 1).to_pylist()[0]
    parts[1] = parts[1].slice(1)
    text = "\n".join(_compare(parts, table).differences)
    assert f"k={lost['k']}, n={lost['n']}: 0 times in the result, 1 in DuckDB's" in text
    assert lost["s"] in text


def test_a_row_twice_is_found():
    table = _rows()
    parts = _spread(table)
    twice = parts[2].slice(4, 1)
    parts[2] = pa.concat_tables([parts[2], twice])
    verdict = _compare(parts, table)
    assert not verdict.ok
    assert ": 2 times in the result, 1 in DuckDB's" in "\n".join(verdict.differences)


def test_one_row_for_another_is_found():
    table = _rows()
    parts = _spread(table)
    parts[0] = pa.concat_tables([parts[0].slice(1), parts[0].slice(7, 1)])
    assert not _compare(parts, table).ok


@pytest.mark.parametrize("column", ["d", "s"])
def test_every_single_value_counts(column):
    table = _rows(60)
    place = table.column_names.index(column)
    for row in range(60):
        values = table.column(column).to_pylist()
        values[row] = values[row] + values[row] + type(values[row])("1")
        changed = pa.array(values, table.schema.field(column).type)
        parts = _spread(table.set_column(place, column, changed))
        verdict = _compare(parts, table)
        assert not verdict.ok
        assert f"k={row // 3}, n={row % 3}" in "\n".join(verdict.differences)
        values[row] = None
        changed = pa.array(values, table.schema.field(column).type)
        parts = _spread(table.set_column(place, column, changed))
        assert not _compare(parts, table).ok
        assert not _compare(_spread(table), table.set_column(place, column, changed)).ok


def test_a_key_on_two_endpoints_is_found():
    table = _rows()
    parts = _spread(table)
    parts[1] = pa.concat_tables([parts[1], parts[0].slice(0, 1)])
    parts[0] = parts[0].slice(1)
    verdict = _compare(parts, table)
    assert not verdict.ok
    assert "on endpoints" in verdict.differences[1]
    assert compare(parts, table, ["k", "n"]).ok


def test_null_keys_are_found():
    table = _rows()
    parts = _spread(table)
    keys = parts[0].column("k").to_pylist()
    keys[3] = None
    parts[0] = parts[0].set_column(0, "k", pa.array(keys, pa.int64()))
    assert not _compare(parts, table).ok


def test_columns_and_types():
    table = _rows()
    parts = _spread(table)
    assert not _compare([part.drop_columns(["s"]) for part in parts], table).ok
    wide = table.set_column(1, "n", table.column("n").cast(pa.int64()))
    wide = wide.set_column(2, "d", wide.column("d").cast(pa.decimal128(38, 2)))
    assert _compare(_spread(wide), table, same_types=False).ok
    differences = _compare(_spread(wide), table).differences
    assert "column n is int64, not int32" in "\n".join(differences)
    loose = table.set_column(2, "d", table.column("d").cast(pa.float64()))
    assert not _compare(_spread(loose), table, same_types=False).ok
