"""Q12, shipping modes and order priority: lines that came late, of urgent and other orders."""

from datetime import date

from polars import Int64, col

from mgi.tpch.frame import Frame
from mgi.tpch.tables import Tables

SQL = """
SELECT l_shipmode,
       sum(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END)
           AS high_line_count,
       sum(CASE WHEN o_orderpriority NOT IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END)
           AS low_line_count
FROM orders, lineitem
WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate
  AND l_shipdate < l_commitdate AND l_receiptdate >= DATE '1994-01-01'
  AND l_receiptdate < DATE '1995-01-01'
GROUP BY l_shipmode ORDER BY l_shipmode
"""


def plan(t: Tables) -> Frame:
    """The few late lines are built, and orders probe them."""
    year = col("l_receiptdate").is_between(date(1994, 1, 1), date(1995, 1, 1), closed="left")
    late = (
        t.read(
            "lineitem", "l_orderkey", "l_shipmode", "l_shipdate", "l_commitdate", "l_receiptdate"
        )
        .where(
            year,
            col("l_shipmode").is_in(["MAIL", "SHIP"]),
            col("l_commitdate") < col("l_receiptdate"),
            col("l_shipdate") < col("l_commitdate"),
        )
        .select("l_orderkey", "l_shipmode")
    )
    urgent = col("o_orderpriority").is_in(["1-URGENT", "2-HIGH"])
    return (
        t.read("orders", "o_orderkey", "o_orderpriority")
        .join(late, [("o_orderkey", "l_orderkey")], left=["o_orderpriority"], right=["l_shipmode"])
        .select("l_shipmode", high=urgent.cast(Int64), low=(~urgent).cast(Int64))
        .group_by(
            "l_shipmode", few=True, high_line_count=("sum", "high"), low_line_count=("sum", "low")
        )
        .sort("l_shipmode")
    )
