"""Dictionaries, which move and are compared as numbers, against the strings they stand for."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from typing import Any

import mgi
import pytest
from run_support import Runner, needs_control

pa = pytest.importorskip("pyarrow")

ROWS = 4000
WORDS = [f"word number {i} of the dictionary" for i in range(40)]


def coded(index: Any, seed: int, words: list[str] = WORDS, chunks: int = 3) -> Any:
    """Chunks with dictionaries of their own: other orders, a word twice, anything below nulls."""
    r = random.Random(seed)
    kind = pa.dictionary(index, pa.string())
    made = []
    for _ in range(chunks):
        values = [*r.sample(words, len(words) // 2), words[0]]
        rows = ROWS // chunks + 5
        valid = pa.array([r.random() < 0.9 for _ in range(rows)])
        numbers = pa.array([r.randrange(len(values)) for _ in range(rows)], index)
        numbers = pa.Array.from_buffers(index, rows, [valid.buffers()[1], numbers.buffers()[1]])
        made.append(pa.DictionaryArray.from_arrays(numbers, pa.array(values)).slice(5))
        assert made[-1].type == kind
    return pa.chunked_array(made)


def tables(index: Any = None) -> tuple[Any, Any]:
    """A table with dictionaries, and the same with strings in their place."""
    index = index or pa.int32()
    columns = {"word": coded(index, 1), "other": coded(index, 2)}
    rows = len(columns["word"])
    rest = {"k": pa.array([i * 7 % 1000 for i in range(rows)]), "row": pa.array(range(rows))}
    plain = {name: column.cast(pa.string()) for name, column in columns.items()}
    return pa.table({**rest, **columns}), pa.table({**rest, **plain})


def arrow(parts: list[mgi.Table]) -> list[Any]:
    found = [pa.table(part) for part in parts]
    for table in found:
        table.validate(full=True)
    return found


def rows_of(found: list[Any]) -> list[str]:
    return sorted(repr(row) for table in found for row in table.to_pylist())


def expect_same_parts(found: list[Any], expected: list[Any]) -> None:
    for part, same in zip(found, expected, strict=True):
        assert rows_of([part]) == rows_of([same])


INDICES = [pa.int8(), pa.uint16(), pa.int32(), pa.int64()]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_payload_of_an_exchange(index: Any, by_reference: bool) -> None:
    table, plain = tables(index)
    stats: dict[str, Any] = {}
    plain_stats: dict[str, Any] = {}
    options = {"endpoints": 3, "by_reference": by_reference}
    found = arrow(mgi.exchange(table, "k", stats=stats, **options))
    expected = arrow(mgi.exchange(plain, "k", stats=plain_stats, **options))
    assert all(part.schema == table.schema for part in found)
    expect_same_parts(found, expected)
    assert stats["bytes"] < plain_stats["bytes"] / 2


@pytest.mark.parametrize("keys", [["word"], ["word", "k"], ["other", "word"]], ids=str)
def test_keys_of_an_exchange_go_where_their_strings_go(keys: list[str]) -> None:
    table, plain = tables()
    found = arrow(mgi.exchange(table, keys, endpoints=3))
    expected = arrow(mgi.exchange(plain, keys, endpoints=3))
    assert all(part.schema == table.schema for part in found)
    expect_same_parts(found, expected)


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_keys_of_a_group_by(index: Any) -> None:
    table, plain = tables(index)
    wanted = [("count", None, "n"), ("sum", "row", "s"), ("max", "other", "last")]
    for keys in (["word"], ["k", "word"], ["word", "other"]):
        aggregates = wanted[: 2 if "other" in keys else 3]
        found = arrow(mgi.group_by(table, keys, aggregates, endpoints=2))
        expect_same_parts(found, arrow(mgi.group_by(plain, keys, aggregates, endpoints=2)))
        assert found[0].schema.field("word").type == table.schema.field("word").type


def test_a_key_that_an_aggregate_looks_at() -> None:
    table, plain = tables()
    wanted = [("min", "word", "least"), ("count_distinct", "word", "one")]
    found = arrow(mgi.group_by(table, "word", wanted, endpoints=2))
    assert rows_of(found) == rows_of(arrow(mgi.group_by(plain, "word", wanted, endpoints=2)))


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("index", [pa.int32(), pa.int8()], ids=str)
def test_join(how: str, index: Any, by_reference: bool) -> None:
    table, plain = tables()
    more = [f"only on the right {i}" for i in range(10)]
    words = coded(index, 3, WORDS[:20] + more, chunks=1).slice(0, 120)
    right = {"word": words, "name": coded(pa.int32(), 4, chunks=1).slice(0, 120)}
    if how in ("right", "full"):
        right["word"] = right["word"].cast(table.schema.field("word").type)
    right_plain = {name: column.cast(pa.string()) for name, column in right.items()}
    sides = [(table, pa.table(right)), (plain, pa.table(right_plain))]
    options = {"endpoints": 2, "how": how, "by_reference": by_reference}
    found, expected = (
        arrow(mgi.join(left.slice(0, 1500), right, "word", broadcast=False, **options))
        for left, right in sides
    )
    expect_same_parts(found, expected)
    for name in found[0].column_names:
        assert pa.types.is_dictionary(found[0].schema.field(name).type) == (
            pa.types.is_string(expected[0].schema.field(name).type)
        )


@pytest.mark.parametrize("broadcast", [True, False])
@pytest.mark.parametrize("columns", [None, ["row"], ["other", "word"]], ids=str)
def test_join_by_several_keys(broadcast: bool, columns: list[str] | None) -> None:
    table, plain = tables()
    options = {"endpoints": 2, "broadcast": broadcast, "left_columns": columns}
    on = [("k", "key"), ("word", "w"), ("other", "o")]
    found, expected = (
        arrow(
            mgi.join(
                one,
                one.slice(0, 1000).select(["k", "word", "other"]).rename_columns(["key", "w", "o"]),
                on=on,
                **options,
            )
        )
        for one in (table, plain)
    )
    expect_same_parts(found, expected)
    assert sum(map(len, found)) > 0
    assert found[0].column_names == expected[0].column_names


def test_names_of_results_that_owners_might_have() -> None:
    table, plain = tables()
    wanted = [("count", None, "owner of word")]
    found, expected = (
        arrow(mgi.group_by(one, "word", wanted, endpoints=2)) for one in (table, plain)
    )
    expect_same_parts(found, expected)
    left = table.slice(0, 500).rename_columns(["k", "row", "z_right", "owner of z"])
    right = table.slice(0, 100).rename_columns(["k", "row", "z", "owner of z"])
    found = arrow(mgi.join(left, right, on=[("z_right", "z")], endpoints=2, broadcast=False))
    assert "owner of z_right" in found[0].column_names


@pytest.mark.parametrize(
    "second",
    [
        pa.array([True, False, None]),
        pa.array([0.0, -0.0, float("nan")]),
        pa.array(["1.50", None, "-2.25"]).cast(pa.decimal128(10, 2)),
        pa.array([b"abc", None, b"xyz"], pa.binary(3)),
        pa.array(["a text", None, "another one that is long"]),
        pa.array([[1, 2], None, []], pa.list_(pa.int32())),
    ],
    ids=lambda array: str(array.type),
)
def test_owners_by_a_key_beside(second: Any) -> None:
    table, plain = tables()
    beside = second.take(pa.array([i % 3 for i in range(len(table))]))
    table, plain = (one.append_column("beside", beside) for one in (table, plain))
    for keys in (["word", "beside"], ["beside", "word"]):
        found, expected = (arrow(mgi.exchange(one, keys, endpoints=3)) for one in (table, plain))
        expect_same_parts(found, expected)
        wanted = [("count", None, "n")]
        found, expected = (
            arrow(mgi.group_by(one, keys, wanted, endpoints=3)) for one in (table, plain)
        )
        assert [len(part) for part in found] == [len(part) for part in expected]


def test_results_have_no_categories_of_others() -> None:
    few = pa.array(["small", "large"] * 100).dictionary_encode()
    more = pa.array(["small", "large", "huge"] * 50).dictionary_encode()
    left = pa.table({"size": few, "row": range(200)})
    right = pa.table({"size": more}).slice(0, 150)
    for how in ("semi", "inner"):
        for part in arrow(mgi.join(left, right, "size", how=how, endpoints=2)):
            for chunk in part["size"].chunks:
                assert chunk.dictionary.to_pylist() in ([], ["small", "large"])


def test_their_memory_is_limited() -> None:
    words = pa.array(["a word of the dictionary", "another one"] * 100_000).dictionary_encode()
    table = pa.table({"k": range(200_000), **{f"w{i}": words for i in range(10)}})
    for limit in (4 << 20, 16 << 20):
        with pytest.raises(mgi.OutOfMemory, match="exchange.*raise receive_limit"):
            mgi.exchange(table, "k", endpoints=2, receive_limit=limit)


def test_payload_of_a_sort() -> None:
    table, plain = tables()
    found = arrow(mgi.sort(table, ["other", "row"], endpoints=2))
    expected = arrow(mgi.sort(plain, ["other", "row"], endpoints=2))
    assert [t.to_pylist() for t in found] == [t.to_pylist() for t in expected]
    assert found[0].schema == table.schema


def test_categories_come_first_and_stay_in_their_order() -> None:
    words = ["small", "middle", "large"]
    kind = pa.dictionary(pa.int8(), pa.string(), ordered=True)
    sizes = pa.DictionaryArray.from_arrays(
        pa.array([2, 1] * 100, pa.int8()), pa.array(words), ordered=True
    )
    found = arrow(mgi.exchange(pa.table({"k": range(200), "size": sizes}), "k", endpoints=2))
    for part in found:
        assert part.schema.field("size").type == kind
        for chunk in part["size"].chunks:
            assert chunk.dictionary.to_pylist() == words


def test_a_dictionary_beside_strings_of_another_part() -> None:
    table, plain = tables()
    parts = [table, plain.cast(table.schema)]
    mixed = arrow(mgi.exchange([table, plain], "k", endpoints=2))
    assert rows_of(mixed) == rows_of(arrow(mgi.exchange(parts, "k", endpoints=2)))


def test_few_rows_carry_no_large_dictionary() -> None:
    words = [f"word {i}" for i in range(70_000)]
    large = pa.DictionaryArray.from_arrays(pa.array([3, 7, 3], pa.int32()), pa.array(words))
    (part,) = arrow(mgi.exchange(pa.table({"k": [1, 1, 1], "word": large}), "k", endpoints=1))
    assert part["word"].to_pylist() == ["word 3", "word 7", "word 3"]
    assert all(len(chunk.dictionary) == 2 for chunk in part["word"].chunks)


PROGRAM = """
import sys

import mgi
import pyarrow as pa

job = mgi.job()
runtime = mgi.Runtime.connect(timeout=60)
endpoints = runtime.gather_endpoints([runtime.create_endpoint("cpu")])
call = {"endpoints": endpoints, "runtime": runtime, "patience": 60}
# More than processes say at a time, and of them not all known to both.
first = 10_000 * job.rank
words = [f"word number {i}" for i in range(first, first + 20_000)]
codes = pa.array([i * 7 % len(words) for i in range(200_000)], pa.int32())
coded = pa.DictionaryArray.from_arrays(codes, pa.array(words))
table = pa.table({"k": range(200_000), "word": coded})
plain = table.set_column(1, "word", coded.cast(pa.string()))
if sys.argv[1] == "mixed" and job.rank == 1:
    table = plain


def rows(parts):
    found = [pa.table(part) for part in parts]
    for one in found:
        one.validate(full=True)
    return sorted(repr(row) for one in found for row in one.to_pylist())


count = [("count", None, "n")]
for key in ("k", "word"):
    stats, plain_stats = {}, {}
    found = mgi.exchange(table, key, stats=stats, **call)
    assert rows(found) == rows(mgi.exchange(plain, key, stats=plain_stats, **call))
    assert (2 * stats["bytes"] < plain_stats["bytes"]) == (sys.argv[1] == "coded")
assert rows(mgi.group_by(table, "word", count, **call)) == rows(
    mgi.group_by(plain, "word", count, **call)
)

codes = pa.array([i * 7 % 50 for i in range(10_000)])
few = pa.DictionaryArray.from_arrays(codes, pa.array(words[:50]))
keys = {"word": few, "k": [i % 300 for i in range(10_000)]}
left = pa.table({**keys, "row": range(10_000)})
right = pa.table({**keys, "name": few}).slice(job.rank, 200)
texts = {"word": pa.string(), "k": pa.int64()}
sides = [
    (left, right),
    (
        left.cast(pa.schema({**texts, "row": pa.int64()})),
        right.cast(pa.schema({**texts, "name": pa.string()})),
    ),
]
if sys.argv[1] == "mixed" and job.rank == 1:
    sides[0] = sides[1]
for how in ("inner", "full", "semi"):
    for keys in (["word"], ["k", "word"]):
        if (how, keys) == ("full", ["word"]):
            continue  # as many pairs as inner
        stats, plain_stats = {}, {}
        found = mgi.join(*sides[0], keys, how=how, broadcast=False, stats=stats, **call)
        same = mgi.join(*sides[1], keys, how=how, broadcast=False, stats=plain_stats, **call)
        assert rows(found) == rows(same)
        assert (stats["bytes"] < plain_stats["bytes"]) == (sys.argv[1] == "coded")
print("well", job.rank, flush=True)
"""


@needs_control
@pytest.mark.parametrize("how", ["coded", "mixed"])
def test_two_processes(runner: Runner, how: str) -> None:
    started = runner.start("-n", "2", "--no-tag", "--", sys.executable, "-c", PROGRAM, how)
    out, err = (text.decode() for text in started.communicate(timeout=180))
    assert started.returncode == 0, err + out
    assert sorted(out.split()) == ["0", "1", "well", "well"]


def enumerated(values: Iterable[str], categories: list[str]) -> Any:
    """A table as Polars exports a column of an Enum."""
    coded = pa.DictionaryArray.from_arrays(
        pa.array([categories.index(value) for value in values], pa.uint8()), pa.array(categories)
    )
    told = "".join(f"{len(category)};{category}" for category in categories)
    field = pa.field("s", coded.type, metadata={"_PL_ENUM_VALUES2": told})
    schema = pa.schema([pa.field("k", pa.int64()), field])
    return pa.table([pa.array(range(len(coded))), coded], schema)


def test_an_enum_holds_no_other_enums_values() -> None:
    one = enumerated(["a", "b"], ["a", "b"])
    other = enumerated(["c", "b"], ["b", "c"])
    plain = pa.table({"k": one["k"], "s": one["s"].cast(pa.string())})
    expected = r"s: string of \[b, c\]\?, others have .*s: string of \[a, b\]"
    with pytest.raises(mgi.Error, match=expected):
        mgi.exchange([one, other], "k", endpoints=2)
    with pytest.raises(mgi.Error, match=r"others have .*s: string of \[a, b\]"):
        mgi.exchange([one, plain], "k", endpoints=2)
    with pytest.raises(mgi.Error, match=r"string of \[a, b\] on the left and string of \[b, c\]"):
        mgi.join(one, other, "s", how="full", endpoints=2)
    assert rows_of(arrow(mgi.exchange([plain, one], "k", endpoints=2))) == rows_of([plain] * 2)
    assert rows_of(arrow(mgi.exchange([one, one], "k", endpoints=2))) == rows_of([one] * 2)
    nothing = pa.table({"k": one["k"][:1], "s": pa.nulls(1, one["s"].type)})
    empty = pa.schema(
        [one.schema.field("k"), pa.field("s", one["s"].type, metadata={"_PL_ENUM_VALUES2": ""})]
    )
    with pytest.raises(mgi.Error, match=r"others have .*s: string of \[\]"):
        mgi.exchange([nothing.cast(empty), one], "k", endpoints=2)
    long = enumerated(["\N{SNOWMAN}" * 100_000], ["\N{SNOWMAN}" * 100_000])
    with pytest.raises(mgi.Error) as failed:
        mgi.exchange([one, long], "k", endpoints=2)
    assert len(str(failed.value)) < 300
    joined = arrow(mgi.join(one, other, "s", endpoints=2))
    assert [row["s"] for table in joined for row in table.to_pylist()] == ["b"]


def test_a_channel_of_an_enum_takes_no_other_values(runtime: mgi.Runtime) -> None:
    one = enumerated(["a", "b"], ["a", "b"])
    other = enumerated(["c", "b"], ["b", "c"])
    endpoint = runtime.create_endpoint("cpu")
    channel = runtime.create_channel([endpoint], [endpoint], one.schema, mgi.Broadcast())
    with pytest.raises(mgi.Error, match=r"carries .*of \[a, b\].*, the batch has .*of \[b, c\]"):
        channel.send(other, source=endpoint)
    assert channel.send(one, source=endpoint) == 2


def test_an_enum_in_a_struct_holds_no_other_enums_values() -> None:
    def nested(table: Any) -> Any:
        struct = pa.StructArray.from_arrays([table["s"].chunk(0)], fields=[table.schema.field("s")])
        return pa.table({"k": table["k"], "s": struct})

    one, other = (nested(enumerated(*given)) for given in (("ab", ["a", "b"]), ("cb", ["b", "c"])))
    with pytest.raises(mgi.Error, match="others have"):
        mgi.exchange([one, other], "k", endpoints=2)
    assert rows_of(arrow(mgi.exchange([one, one], "k", endpoints=2))) == rows_of([one] * 2)
