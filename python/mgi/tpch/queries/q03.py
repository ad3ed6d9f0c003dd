"""Q3, shipping priority: orders of a segment that were not shipped yet, by what they bring."""

from datetime import date

from polars import col

from mgi.tpch.fixed import fixed
from mgi.tpch.frame import Frame
from mgi.tpch.tables import Tables

SQL = """
SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
FROM customer, orders, lineitem
WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
  AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate LIMIT 10
"""


def plan(t: Tables) -> Frame:
    """The customers' table is built, orders probe it; theirs is built, and lineitem probes it."""
    day = date(1995, 3, 15)
    customer = t.read("customer", "c_custkey", "c_mktsegment")
    orders = t.read("orders", "o_orderkey", "o_custkey", "o_orderdate", "o_shippriority")
    lines = t.read("lineitem", "l_orderkey", "l_extendedprice", "l_discount", "l_shipdate")

    builders = customer.where(col("c_mktsegment") == "BUILDING").select("c_custkey")
    open_orders = orders.where(col("o_orderdate") < day).join(
        builders,
        [("o_custkey", "c_custkey")],
        how="semi",
        left=["o_orderkey", "o_orderdate", "o_shippriority"],
    )
    price = fixed("l_extendedprice") * (1 - fixed("l_discount"))
    return (
        lines.where(col("l_shipdate") > day)
        .select("l_orderkey", "l_extendedprice", "l_discount")
        .join(open_orders, [("l_orderkey", "o_orderkey")], right=["o_orderdate", "o_shippriority"])
        .select("l_orderkey", "o_orderdate", "o_shippriority", price=price)
        .group_by("l_orderkey", "o_orderdate", "o_shippriority", revenue=("sum", "price"))
        .select("l_orderkey", "revenue", "o_orderdate", "o_shippriority")
        .sort(("revenue", "desc"), "o_orderdate", limit=10)
    )
