"""Joins whose keys count in units of other sizes, against exact fractions."""

from __future__ import annotations

import collections
import datetime
import decimal
import itertools
import random
from fractions import Fraction

import mgi
import pytest

pa = pytest.importorskip("pyarrow")

SECONDS = {"s": Fraction(1), "ms": Fraction(1, 10**3), "us": Fraction(1, 10**6)}
SECONDS["ns"] = Fraction(1, 10**9)
DAY = Fraction(86_400)


def decimals(scale: int) -> Fraction:
    return Fraction(10) ** -scale


FAMILIES = {
    "clocks": {
        **{pa.timestamp(unit): size for unit, size in SECONDS.items()},
        pa.date32(): DAY,
        pa.date64(): SECONDS["ms"],
    },
    "instants": {
        pa.timestamp("s", "UTC"): SECONDS["s"],
        pa.timestamp("us", "Asia/Tokyo"): SECONDS["us"],
        pa.timestamp("ns", "UTC"): SECONDS["ns"],
    },
    "durations": {pa.duration(unit): size for unit, size in SECONDS.items()},
    "times of day": {
        pa.time32("s"): SECONDS["s"],
        pa.time32("ms"): SECONDS["ms"],
        pa.time64("us"): SECONDS["us"],
        pa.time64("ns"): SECONDS["ns"],
    },
    "numbers": {
        pa.int8(): Fraction(1),
        pa.int64(): Fraction(1),
        pa.uint64(): Fraction(1),
        pa.decimal32(9, 2): decimals(2),
        pa.decimal128(38, 0): Fraction(1),
        pa.decimal128(38, 30): decimals(30),
        pa.decimal128(10, -2): decimals(-2),
        pa.decimal256(76, 3): decimals(3),
        pa.decimal256(60, 0): Fraction(1),
    },
}
"""What one of a type's integers is, in seconds or ones."""

KINDS = ["inner", "left", "right", "full", "semi", "anti"]


def limits(kind: pa.DataType) -> tuple[int, int]:
    """The least and the greatest integer of a type."""
    if pa.types.is_decimal(kind):
        return 1 - 10**kind.precision, 10**kind.precision - 1
    if pa.types.is_unsigned_integer(kind):
        return 0, 2**kind.bit_width - 1
    return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1


def array(kind: pa.DataType, counts: list[int | None]) -> pa.Array:
    if pa.types.is_decimal(kind):
        with decimal.localcontext() as context:
            context.prec = 100
            exact = [
                None if count is None else decimal.Decimal(count).scaleb(-kind.scale)
                for count in counts
            ]
        return pa.array(exact, kind)
    if pa.types.is_integer(kind):
        return pa.array(counts, kind)
    return pa.array(counts, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)


def counts_of(kind: pa.DataType, size: Fraction, chance: random.Random) -> list[int | None]:
    """Integers of a type: its limits, what other types have too, and neighbours of those."""
    least, most = limits(kind)
    found = [least, least + 1, most - 1, most, -1, 0, 1]
    for value in [0, 1, 2, 100, 255, -128, 86_400, -86_400, 2 * 86_400, 10**15, 2**63, -(2**63)]:
        exact = Fraction(value) / size
        found += [int(exact), int(exact) + chance.choice([-1, 1])]
    found = [count for count in found if least <= count <= most]
    found += [chance.randint(max(least, -(10**6)), min(most, 10**6)) for _ in range(8)]
    found = [*found, *chance.choices(found, k=8), None]
    chance.shuffle(found)
    return found


def expected(kind: str, left: list, right: list) -> collections.Counter:
    """Pairs of row numbers; None where there is no such row."""
    by_value = collections.defaultdict(list)
    for j, value in enumerate(right):
        if value is not None:
            by_value[value].append(j)
    pairs = [(i, by_value[value]) for i, value in enumerate(left)]
    if kind == "semi":
        return collections.Counter((i, None) for i, partners in pairs if partners)
    if kind == "anti":
        return collections.Counter((i, None) for i, partners in pairs if not partners)
    found = [(i, j) for i, partners in pairs for j in partners]
    if kind in ("left", "full"):
        found += [(i, None) for i, partners in pairs if not partners]
    if kind in ("right", "full"):
        matched = {j for _, j in found}
        found += [(None, j) for j in range(len(right)) if j not in matched]
    return collections.Counter(found)


@pytest.mark.parametrize("family", FAMILIES)
def test_keys_are_equal_by_value(family):
    sizes = FAMILIES[family]
    for turn, (a, b) in enumerate(itertools.permutations(sizes, 2)):
        chance = random.Random(f"{family} {turn}")
        sides = [counts_of(kind, sizes[kind], chance) for kind in (a, b)]
        values = [
            [None if count is None else count * sizes[kind] for count in counts]
            for kind, counts in zip((a, b), sides, strict=True)
        ]
        left = pa.table({"a": array(a, sides[0]), "i": range(len(sides[0]))})
        right = pa.table({"b": array(b, sides[1]), "j": range(len(sides[1]))})
        kind = KINDS[turn % len(KINDS)]
        endpoints = 1 + turn % 3
        broadcast = [None, False][turn % 2]
        got = pa.concat_tables(
            part.to_arrow()
            for part in mgi.join(
                left, right, [("a", "b")], how=kind, endpoints=endpoints, broadcast=broadcast
            )
        )
        case = f"{a} and {b}, {kind}, {endpoints} endpoints"
        none = [None] * got.num_rows
        there = {name: got[name].to_pylist() if name in got.column_names else none for name in "ij"}
        rows = list(zip(there["i"], there["j"], strict=True))
        assert collections.Counter(rows) == expected(kind, *values), case
        # Both sides' columns come out as they were.
        for table, name, numbers in ((left, "a", there["i"]), (right, "b", there["j"])):
            if name in got.column_names:
                chosen = table[name].take(pa.array(numbers, pa.int64()))
                assert got[name].combine_chunks().equals(chosen.combine_chunks()), case


def test_several_keys_and_the_names_of_columns():
    day = datetime.datetime(2026, 11, 30)
    left = pa.table(
        {
            "t": pa.array([day, day, day + datetime.timedelta(seconds=1)], pa.timestamp("s")),
            "n": pa.array([1, 2, 1], pa.int32()),
            "t'": ["x", "y", "z"],
        }
    )
    right = pa.table(
        {
            "t": pa.array([day.date(), day.date(), None], pa.date32()),
            "n": pa.array(["1.00", "2.50", "1.00"]).cast(pa.decimal128(9, 2)),
            "v": [10, 20, 30],
        }
    )
    for endpoints in (1, 2):
        got = pa.concat_tables(
            part.to_arrow() for part in mgi.join(left, right, ["t", "n"], endpoints=endpoints)
        )
        assert got.to_pydict() == {"t": [day], "n": [1], "t'": ["x"], "v": [10]}
        assert got.schema.field("t").type == pa.timestamp("s")
        assert got.schema.field("n").type == pa.int32()


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (pa.timestamp("s"), pa.int64()),
        (pa.timestamp("s"), pa.timestamp("s", "UTC")),
        (pa.date32(), pa.timestamp("ms", "UTC")),
        (pa.duration("s"), pa.int64()),
        (pa.timestamp("us"), pa.time64("us")),
        (pa.decimal128(9, 2), pa.float64()),
    ],
)
def test_what_cannot_be_equal_is_refused_by_name(a, b):
    left = pa.table({"a": pa.array([None], a)})
    right = pa.table({"b": pa.array([None], b)})
    for one, other, keys in ((left, right, ("a", "b")), (right, left, ("b", "a"))):
        with pytest.raises(mgi.InvalidArgument, match=f"key '{keys[0]}' is .* cast one of them"):
            mgi.join(one, other, [keys], endpoints=2)
