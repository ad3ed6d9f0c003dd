"""Q15, top supplier: who brought the most in a quarter."""

from datetime import date

from polars import col

from mgi.tpch.fixed import fixed
from mgi.tpch.frame import Frame
from mgi.tpch.tables import Tables

SQL = """
WITH revenue (supplier_no, total_revenue) AS (
    SELECT l_suppkey, sum(l_extendedprice * (1 - l_discount)) FROM lineitem
    WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01' GROUP BY l_suppkey)
SELECT s_suppkey, s_name, s_address, s_phone, total_revenue FROM supplier, revenue
WHERE s_suppkey = supplier_no AND total_revenue = (SELECT max(total_revenue) FROM revenue)
ORDER BY s_suppkey
"""


def plan(t: Tables) -> Frame:
    """Sums by supplier; the greatest comes to every endpoint; its suppliers are looked up."""
    quarter = col("l_shipdate").is_between(date(1996, 1, 1), date(1996, 4, 1), closed="left")
    revenue = (
        t.read("lineitem", "l_suppkey", "l_extendedprice", "l_discount", "l_shipdate")
        .where(quarter)
        .select("l_suppkey", price=fixed("l_extendedprice") * (1 - fixed("l_discount")))
        .group_by("l_suppkey", total_revenue=("sum", "price"))
    )
    best = revenue.with_scalar(revenue.group_by(most=("max", "total_revenue"))).where(
        col("total_revenue") == col("most")
    )
    return (
        t.read("supplier", "s_suppkey", "s_name", "s_address", "s_phone")
        .join(
            best.select("l_suppkey", "total_revenue"),
            [("s_suppkey", "l_suppkey")],
            right=["total_revenue"],
        )
        .sort("s_suppkey")
    )
