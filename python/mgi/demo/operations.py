"""The three operations: how MGI runs each, what DuckDB runs instead, what must come out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import mgi

JOIN_LEFT = [
    "l_orderkey",
    "l_linenumber",
    "l_quantity",
    "l_extendedprice",
    "l_shipdate",
    "l_shipmode",
    "l_comment",
]
JOIN_RIGHT = ["o_custkey", "o_orderstatus", "o_totalprice", "o_orderdate", "o_orderpriority"]


@dataclasses.dataclass(frozen=True)
class Operation:
    """One operation of the demo. Tables are named ``lineitem`` and ``orders`` throughout."""

    name: str
    says: str
    """What it does, in one sentence."""
    inputs: dict[str, list[str]]
    """The columns that the operation reads of each table."""
    call: Callable[..., list[Any]]
    """``call(tables, **options)`` runs it on MGI and returns one table per endpoint."""
    queries: list[str]
    """What DuckDB is timed with."""
    compared_with: str
    """What those queries are, for people."""
    compared_sql: str
    """The query as people are shown it."""
    truth: str
    """The query over the generated files whose result MGI's must equal."""
    keys: list[str]
    """Columns of the result that identify a row."""
    owner: list[str] = dataclasses.field(default_factory=list)
    """Columns whose equal values must all stand on one endpoint."""
    same_types: bool = False
    """Whether the result's column types must be the truth's to the bit."""

    def size(self, tables: dict[str, list[pa.Table]]) -> tuple[int, int]:
        """Rows and Arrow bytes of the columns it reads."""
        rows = number_of_bytes = 0
        for table, columns in self.inputs.items():
            for part in tables[table]:
                rows += part.num_rows
                number_of_bytes += part.select(columns).nbytes
        return rows, number_of_bytes


def _exchange(tables: dict[str, list[pa.Table]], **options: Any) -> list[Any]:
    return mgi.exchange(tables["lineitem"], key="l_orderkey", **options)


def _group_by(tables: dict[str, list[pa.Table]], **options: Any) -> list[Any]:
    aggregates = [
        ("sum", "l_quantity", "sum_quantity"),
        ("sum", "l_extendedprice", "sum_extendedprice"),
        ("count", None, "count_lines"),
    ]
    return mgi.group_by(tables["lineitem"], ["l_orderkey"], aggregates, **options)


def _join(tables: dict[str, list[pa.Table]], **options: Any) -> list[Any]:
    return mgi.join(
        tables["lineitem"],
        tables["orders"],
        on=[("l_orderkey", "o_orderkey")],
        left_columns=JOIN_LEFT,
        right_columns=JOIN_RIGHT,
        **options,
    )


def _duckdb_exchange(endpoints: int) -> tuple[list[str], str, str]:
    """DuckDB's nearest thing to an exchange: queries, what they are, the query for people.

    Two ways come near it; which is faster depends on the number of endpoints only, and DuckDB
    is given the faster one (measured at scale factor 1: they cross between 8 and 16).
    """
    owner = f"hash(l_orderkey) % {endpoints}"
    if endpoints <= 8:
        query = f"SELECT * FROM lineitem WHERE {owner} = "
        return (
            [f"{query}{place}" for place in range(endpoints)],
            "DuckDB has no exchange. Its figure is for one filtered scan per endpoint, each "
            "result an Arrow table:",
            f"{query}i",
        )
    query = f"SELECT * FROM lineitem ORDER BY {owner}"
    says = "DuckDB has no exchange. Its figure is for one sort by owner, its result an Arrow table:"
    return [query], says, query


def operations(endpoints: int, schemas: dict[str, pa.Schema]) -> list[Operation]:
    """The demo's operations in their order, for this many endpoints."""
    nearest, nearest_says, nearest_shown = _duckdb_exchange(endpoints)
    grouped = (
        "SELECT l_orderkey, sum(l_quantity) AS sum_quantity, "
        "sum(l_extendedprice) AS sum_extendedprice, count(*) AS count_lines "
        "FROM lineitem GROUP BY l_orderkey"
    )
    joined = (
        f"SELECT {', '.join(JOIN_LEFT + JOIN_RIGHT)} "
        "FROM lineitem JOIN orders ON l_orderkey = o_orderkey"
    )
    return [
        Operation(
            name="Exchange",
            says="Every row of lineitem, all 16 columns, goes to the endpoint that owns its "
            "l_orderkey.",
            inputs={"lineitem": schemas["lineitem"].names},
            call=_exchange,
            queries=nearest,
            compared_with=nearest_says,
            compared_sql=nearest_shown,
            truth="SELECT * FROM lineitem",
            keys=["l_orderkey", "l_linenumber"],
            owner=["l_orderkey"],
            same_types=True,
        ),
        Operation(
            name="GroupBy",
            says="sum(l_quantity), sum(l_extendedprice) and count(*) of lineitem by l_orderkey.",
            inputs={"lineitem": ["l_orderkey", "l_quantity", "l_extendedprice"]},
            call=_group_by,
            queries=[grouped],
            compared_with="DuckDB runs the same as one query, its result one Arrow table:",
            compared_sql=grouped,
            truth=grouped,
            keys=["l_orderkey"],
        ),
        Operation(
            name="Join",
            says="lineitem with orders on the order key; keys, decimals, dates and strings of "
            "both sides materialized.",
            inputs={"lineitem": JOIN_LEFT, "orders": ["o_orderkey", *JOIN_RIGHT]},
            call=_join,
            queries=[joined],
            compared_with="DuckDB runs the same as one query, its result one Arrow table:",
            compared_sql=joined,
            truth=joined,
            keys=["l_orderkey", "l_linenumber"],
            same_types=True,
        ),
    ]
