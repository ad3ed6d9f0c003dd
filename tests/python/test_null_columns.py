"""Columns of Arrow's type null, which have no value: beside others' of a type they take it."""

from __future__ import annotations

import mgi
import pytest

pa = pytest.importorskip("pyarrow")

TYPES = [
    pa.int64(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.large_string(),
    pa.decimal128(30, 2),
    pa.timestamp("us", tz="UTC"),
    pa.binary(3),
    pa.dictionary(pa.int32(), pa.string()),
]


def values(kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(["a", "b"]).dictionary_encode()
    texts = {"string": ["a", "b"], "large_string": ["a", "b"], "fixed_size_binary[3]": [b"abc"] * 2}
    return pa.array(texts.get(str(kind), [1, 0])).cast(kind)


def gathered(parts: list[mgi.Table]) -> pa.Table:
    return pa.concat_tables(part.to_arrow() for part in parts if part.num_rows)


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("nulls_first", [True, False])
def test_a_part_of_nulls(kind: pa.DataType, nulls_first: bool) -> None:
    nulls = pa.table({"k": [1, 2, 3], "x": pa.nulls(3)})
    typed = pa.table({"k": [4, 5], "x": values(kind)})
    tables = [nulls, typed] if nulls_first else [typed, nulls]
    moved = gathered(mgi.exchange(tables, "k"))
    assert moved.schema.field("x").type == kind
    rows = dict(zip(moved["k"].to_pylist(), moved["x"].to_pylist(), strict=True))
    assert rows == {1: None, 2: None, 3: None} | dict(
        zip([4, 5], typed["x"].to_pylist(), strict=True)
    )
    ordered = gathered(mgi.sort(tables, ["k"]))
    assert ordered["k"].to_pylist() == [1, 2, 3, 4, 5]
    assert ordered.schema.field("x").type == kind


def test_nulls_everywhere_stay_null() -> None:
    nulls = pa.table({"k": [1, 2], "x": pa.nulls(2)})
    moved = gathered(mgi.exchange([nulls, nulls], "k"))
    assert moved.schema.field("x").type == pa.null()
    assert moved["x"].null_count == 4


def test_a_group_bys_column_and_key() -> None:
    tables = [
        pa.table({"k": pa.nulls(2), "x": pa.nulls(2)}),
        pa.table({"k": ["a", None], "x": [1, 2]}),
    ]
    grouped = gathered(mgi.group_by(tables, "k", [("sum", "x", "s"), ("count", None, "n")]))
    rows = {row["k"]: (row["s"], row["n"]) for row in grouped.to_pylist()}
    assert rows == {"a": (1, 1), None: (2, 3)}


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_a_joins_key(how: str) -> None:
    """It matches nothing, whatever the other side's type."""
    left = pa.table({"k": pa.nulls(2), "l": [1, 2]})
    right = pa.table({"k": ["a", "b", None], "r": [1, 2, 3]})
    joined = mgi.join(left, right, "k", how=how, endpoints=2)
    expected = {"inner": 0, "left": 2, "right": 3, "full": 5, "semi": 0, "anti": 2}
    assert sum(part.num_rows for part in joined) == expected[how]


def test_another_type_is_still_refused() -> None:
    tables = [pa.table({"k": [1], "x": [1]}), pa.table({"k": [1], "x": ["a"]})]
    with pytest.raises(mgi.InvalidArgument, match="others have"):
        mgi.exchange(tables, "k")
