"""Sums and means of group_by whatever the order of the rows, against exact ones."""

from __future__ import annotations

import decimal
import math
import random
from fractions import Fraction

import mgi
import pytest

pa = pytest.importorskip("pyarrow")

INTEGERS = {pa.int64(): (-(2**63), 2**63 - 1), pa.uint64(): (0, 2**64 - 1)}
ENDPOINTS = (1, 2, 3)
MOST = decimal.Decimal("9" * 38)
LEAST = decimal.Decimal("-" + "9" * 38)


def groups(values: pa.Array, keys: list[int], endpoints: int) -> dict:
    """Sum and mean of each key's values."""
    table = pa.table({"k": pa.array(keys, pa.int32()), "x": values})
    wanted = [("sum", "x", "s"), ("avg", "x", "a")]
    parts = mgi.group_by(table, "k", wanted, endpoints=endpoints)
    rows = [row for part in parts for row in part.to_arrow().to_pylist()]
    return {row["k"]: (row["s"], row["a"]) for row in rows}


def of_one_group(values: pa.Array):
    for endpoints in ENDPOINTS:
        yield groups(values, [1] * len(values), endpoints)[1]


def in_orders(values: list, seed: int):
    yield sorted(values)
    yield sorted(values, reverse=True)
    yield random.Random(seed).sample(values, len(values))


def exact_decimals(counts: list[int], scale: int) -> list[decimal.Decimal]:
    with decimal.localcontext() as context:
        context.prec = 60
        return [decimal.Decimal(count).scaleb(-scale) for count in counts]


@pytest.mark.parametrize("scale", [0, 5])
def test_decimal_sums_do_not_depend_on_the_order(scale):
    most = 10**38 - 1
    for counts in (
        [most, most, -most],
        [most, 1, most, -most, -2, most, -most],
        [-most] * 40 + [most] * 40 + [7],
    ):
        [exact] = exact_decimals([sum(counts)], scale)
        average = float(Fraction(sum(counts), len(counts) * 10**scale))
        for values in in_orders(counts, 7):
            array = pa.array(exact_decimals(values, scale), pa.decimal128(38, scale))
            for total, mean in of_one_group(array):
                assert total == exact
                assert mean == pytest.approx(average, rel=1e-14)


@pytest.mark.parametrize("endpoints", ENDPOINTS)
def test_sums_that_do_not_fit_are_named(endpoints):
    for values, kind in (
        ([MOST, decimal.Decimal(1)], pa.decimal128(38, 0)),
        ([LEAST, decimal.Decimal(-1)], pa.decimal128(38, 0)),
        ([MOST] * 30, pa.decimal128(38, 0)),
        ([2**63 - 1, 1], pa.int64()),
        ([-(2**63), -1], pa.int64()),
        ([2**62, 2**62], pa.uint64()),
    ):
        with pytest.raises(mgi.InvalidArgument, match="sum of column 'x' does not fit"):
            groups(pa.array(values, kind), [1] * len(values), endpoints)


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_integer_sums_do_not_depend_on_the_order(kind):
    least, most = INTEGERS[kind]
    chance = random.Random(str(kind))
    for case in range(2):
        counts = [chance.choice([least, most, chance.randint(least, most)]) for _ in range(30)]
        # So many more that the whole fits.
        counts = [count if kind == pa.int64() else count // 64 for count in counts]
        while not -(2**63) <= (rest := sum(counts)) < 2**63:
            counts.append(max(least, min(most, -rest)))
        for values in in_orders(counts, case):
            for total, mean in of_one_group(pa.array(values, kind)):
                assert total == sum(counts)
                assert mean == pytest.approx(sum(counts) / len(counts), rel=1e-14)


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
def test_float_sums_hardly_depend_on_the_order(kind):
    large = 1e16 if kind == pa.float64() else 2.0**60
    chance = random.Random(3)
    some = [chance.uniform(-1, 1) * 2.0 ** chance.randint(-20, 20) for _ in range(500)]
    some = pa.array(some, kind).to_pylist()
    for counts in ([large, 1.0, -large], [large, 0.5] * 20 + [-large] * 20, some):
        exact = math.fsum(counts)
        for values in in_orders(counts, 5):
            for total, mean in of_one_group(pa.array(values, kind)):
                assert abs(total - exact) <= math.ulp(exact)
                assert mean == pytest.approx(exact / len(counts), rel=1e-15)


def test_infinities_and_nan_stay():
    for values, exact in (
        ([math.inf, 1.0, 2.0], math.inf),
        ([-math.inf, 1e300, -math.inf], -math.inf),
        ([math.inf, -math.inf, 1.0], math.nan),
        ([math.nan, 1.0, 2.0], math.nan),
    ):
        for ordered in in_orders(values, 1):
            for total, mean in of_one_group(pa.array(ordered)):
                assert total == exact or (math.isnan(total) and math.isnan(exact))
                assert mean == exact or (math.isnan(mean) and math.isnan(exact))


@pytest.mark.parametrize("endpoints", ENDPOINTS)
def test_many_groups_beside_one_whose_partial_sums_are_larger(endpoints):
    # All are added up again, in wider words.
    keys = [i % 500 for i in range(5000)] + [7] * 4
    values = [None if i % 11 == 3 or i % 500 == 8 else i for i in range(5000)]
    expected = dict.fromkeys(keys)
    for key, value in zip(keys, values, strict=False):
        if value is not None:
            expected[key] = (expected[key] or 0) + value
    values = pa.array([*values, MOST, MOST, LEAST, LEAST], pa.decimal128(38, 0))
    found = groups(values, keys, endpoints)
    assert {key: total for key, (total, _) in found.items()} == expected
