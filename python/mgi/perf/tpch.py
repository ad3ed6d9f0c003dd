"""TPC-H: lineitem grouped by order, lineitem joined with orders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import mgi
from mgi.demo import data, operations
from mgi.demo.progress import Step
from mgi.perf.workload import Workload


def group_by(sf: str, order: str, types: str, seed: int, folder: Path, step: Step) -> Workload:
    """Sums of lineitem by order: the demo's query, or one double sum."""
    import polars as pl

    files = data.make(folder, sf, step)
    facts = {"sf": float(sf), "order": order, "types": types}
    title = f"TPC-H group-by, scale factor {sf}, {order} order, {types}s"
    if types == "decimal":
        demo = _demo_operation("GroupBy")
        rows = _in_order(_load(files["lineitem"], demo.inputs["lineitem"]), order, seed)
        return Workload(
            title,
            facts,
            {"lineitem": rows},
            lambda tables, **options: demo.call(tables, **options),
            demo.truth,
            lambda frames: (
                frames["lineitem"]
                .group_by("l_orderkey")
                .agg(
                    pl.col("l_quantity").sum().alias("sum_quantity"),
                    pl.col("l_extendedprice").sum().alias("sum_extendedprice"),
                    pl.len().alias("count_lines"),
                )
            ),
            demo.keys,
        )
    rows = _plain(_load(files["lineitem"], ["l_orderkey", "l_extendedprice"]))
    return Workload(
        title,
        facts,
        {"lineitem": _in_order(rows, order, seed)},
        lambda tables, **options: mgi.group_by(
            tables["lineitem"], "l_orderkey", [("sum", "l_extendedprice", "total")], **options
        ),
        "SELECT l_orderkey, sum(l_extendedprice) AS total FROM lineitem GROUP BY l_orderkey",
        lambda frames: (
            frames["lineitem"]
            .group_by("l_orderkey")
            .agg(pl.col("l_extendedprice").sum().alias("total"))
        ),
        ["l_orderkey"],
    )


def join(sf: str, order: str, types: str, seed: int, folder: Path, step: Step) -> Workload:
    """lineitem with orders: the demo's query, or one double of each side."""
    files = data.make(folder, sf, step)
    facts = {"sf": float(sf), "order": order, "types": types}
    title = f"TPC-H join, scale factor {sf}, {order} order, {types}s"
    decimal = types == "decimal"
    left = operations.JOIN_LEFT if decimal else ["l_orderkey", "l_extendedprice"]
    right = operations.JOIN_RIGHT if decimal else ["o_totalprice"]
    lineitem = _load(files["lineitem"], left)
    orders = _load(files["orders"], ["o_orderkey", *right])
    if not decimal:
        lineitem, orders = _plain(lineitem), _plain(orders)

    def call(tables: dict[str, pa.Table], **options: Any) -> list[Any]:
        return mgi.join(
            tables["lineitem"],
            tables["orders"],
            on=[("l_orderkey", "o_orderkey")],
            left_columns=left,
            right_columns=right,
            **options,
        )

    return Workload(
        title,
        facts,
        {
            "lineitem": _in_order(lineitem, order, seed),
            "orders": _in_order(orders, order, seed + 1),
        },
        call,
        f"SELECT {', '.join(left + right)} FROM lineitem JOIN orders ON l_orderkey = o_orderkey",
        lambda frames: (
            frames["lineitem"]
            .join(frames["orders"], left_on="l_orderkey", right_on="o_orderkey")
            .select(left + right)
        ),
        ["l_orderkey", "l_linenumber"] if decimal else None,
    )


def _demo_operation(name: str) -> operations.Operation:
    # Only the exchange looks at the schemas.
    every = operations.operations(1, {"lineitem": pa.schema([]), "orders": pa.schema([])})
    return next(one for one in every if one.name == name)


def _load(path: Path, columns: list[str]) -> pa.Table:
    return data.load(path).select(columns).combine_chunks()


def _plain(table: pa.Table) -> pa.Table:
    """Decimals as doubles."""
    for place, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type):
            column = pc.cast(table.column(place), pa.float64())
            table = table.set_column(place, pa.field(field.name, pa.float64(), False), column)
    return table


def _in_order(table: pa.Table, order: str, seed: int) -> pa.Table:
    """The rows as they were generated, by order key; or in one random order."""
    if order == "clustered":
        return table
    return data.deal(table, 1, seed)[0]
