"""Made-up tables with a chosen number of groups, match rate or duplicates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import mgi
from mgi.perf.workload import Workload

#: An odd multiplier spreads small numbers over all 64-bit keys, one to one.
_SPREAD = 0x9E3779B97F4A7C15
#: The built side's share of the probing side's rows, about as orders has of lineitem's.
LEFT_ROWS_PER_RIGHT_ROW = 4


def group_by(rows: int, groups: int, order: str, types: str, seed: int) -> Workload:
    """One sum and a count of `rows` rows in `groups` groups."""
    import polars as pl

    random = np.random.default_rng(seed)
    number = random.integers(0, groups, rows)
    if order == "clustered":
        number.sort()
    table = pa.table({"key": _keys(number), "value": _values(random, rows, types)})
    return Workload(
        f"group-by of {rows:,} rows into {groups:,} groups, {order} order, {types}s",
        {"rows": rows, "groups": groups, "order": order, "types": types},
        {"rows": table},
        lambda tables, **options: mgi.group_by(
            tables["rows"], "key", [("sum", "value", "total"), ("count", None, "n")], **options
        ),
        "SELECT key, sum(value) AS total, count(*) AS n FROM rows GROUP BY key",
        lambda frames: (
            frames["rows"]
            .group_by("key")
            .agg(pl.col("value").sum().alias("total"), pl.len().alias("n"))
        ),
        ["key"],
    )


def sort(rows: int, order: str, seed: int) -> Workload:
    """`rows` rows of a 64-bit key and their numbers, by key; clustered: they are sorted already."""
    random = np.random.default_rng(seed)
    key = random.integers(-(2**63), 2**63, rows, dtype="i8")
    if order == "clustered":
        key.sort()
    return Workload(
        f"sort of {rows:,} rows by one key, {order} order",
        {"rows": rows, "order": order},
        {"rows": pa.table({"key": key, "number": np.arange(rows)})},
        lambda tables, **options: mgi.sort(tables["rows"], "key", **options),
        "SELECT key, number FROM rows ORDER BY key",
        lambda frames: frames["rows"].sort("key"),
        ["number"],
        ["key"],
    )


def join(
    rows: int, match_rate: float, duplicates: int, order: str, types: str, seed: int
) -> Workload:
    """`rows` left rows with a fourth as many right ones, one value from each side.

    A left row finds its key with the probability `match_rate`, then `duplicates` times.
    """
    random = np.random.default_rng(seed)
    keys = max(rows // LEFT_ROWS_PER_RIGHT_ROW // duplicates, 1)
    right = np.repeat(np.arange(keys), duplicates)
    left = random.integers(0, keys, rows)
    left[random.random(rows) >= match_rate] += keys  # keys that the right side does not have
    if order == "clustered":
        left.sort()
    else:
        random.shuffle(right)
    tables = {
        "fact": pa.table({"key": _keys(left), "a": _values(random, len(left), types)}),
        "lookup": pa.table({"key": _keys(right), "b": _values(random, len(right), types)}),
    }

    def call(tables: dict[str, pa.Table], **options: Any) -> list[Any]:
        return mgi.join(tables["fact"], tables["lookup"], on="key", **options)

    return Workload(
        f"join of {rows:,} rows with {len(right):,}, match rate {match_rate:g}, "
        f"{duplicates} a key, {order} order, {types}s",
        {
            "rows": rows,
            "match_rate": match_rate,
            "duplicates": duplicates,
            "order": order,
            "types": types,
        },
        tables,
        call,
        "SELECT fact.key, a, b FROM fact JOIN lookup ON fact.key = lookup.key",
        lambda frames: frames["fact"].join(frames["lookup"], on="key"),
        None,
    )


def _keys(numbers: np.ndarray) -> pa.Array:
    """Keys that are as good as random, equal where the numbers are."""
    return pa.array((numbers.astype(np.uint64) * np.uint64(_SPREAD)).view(np.int64))


def _values(random: np.random.Generator, rows: int, types: str) -> pa.Array:
    cents = random.integers(0, 10_000_000, rows)
    if types == "double":
        return pa.array(cents / 100)
    words = np.zeros((rows, 2), dtype=np.int64)  # low and high half
    words[:, 0] = cents
    return pa.Array.from_buffers(pa.decimal128(15, 2), rows, [None, pa.py_buffer(words)])
