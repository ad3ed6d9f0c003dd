"""Q4, order priority checking: a quarter's orders of which a line came late, by priority."""

from datetime import date

from polars import col

from mgi.tpch.frame import Frame
from mgi.tpch.tables import Tables

SQL = """
SELECT o_orderpriority, count(*) AS order_count FROM orders
WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01'
  AND EXISTS (SELECT * FROM lineitem
              WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
GROUP BY o_orderpriority ORDER BY o_orderpriority
"""


def plan(t: Tables) -> Frame:
    """The quarter's orders are built, and late lines probe them."""
    quarter = col("o_orderdate").is_between(date(1993, 7, 1), date(1993, 10, 1), closed="left")
    orders = (
        t.read("orders", "o_orderkey", "o_orderdate", "o_orderpriority")
        .where(quarter)
        .select("o_orderkey", "o_orderpriority")
    )
    late = (
        t.read("lineitem", "l_orderkey", "l_commitdate", "l_receiptdate")
        .where(col("l_commitdate") < col("l_receiptdate"))
        .select("l_orderkey")
    )
    return (
        orders.join(late, [("o_orderkey", "l_orderkey")], how="semi", left=["o_orderpriority"])
        .group_by("o_orderpriority", few=True, order_count=("count", None))
        .sort("o_orderpriority")
    )
