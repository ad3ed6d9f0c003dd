"""Q5, local supplier volume: what suppliers sold to customers of their own nation in Asia."""

from datetime import date

from polars import col

from mgi.tpch.fixed import fixed
from mgi.tpch.frame import Frame
from mgi.tpch.tables import Tables

SQL = """
SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM customer, orders, lineitem, supplier, nation, region
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
  AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
  AND r_name = 'ASIA' AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'
GROUP BY n_name ORDER BY revenue DESC
"""


def plan(t: Tables) -> Frame:
    """Nations of Asia, their customers, a year's orders, lines by supplier and nation."""
    asia = t.read("region", "r_regionkey", "r_name").where(col("r_name") == "ASIA")
    nation = t.read("nation", "n_nationkey", "n_name", "n_regionkey").join(
        asia, [("n_regionkey", "r_regionkey")], how="semi", left=["n_nationkey", "n_name"]
    )
    customer = t.read("customer", "c_custkey", "c_nationkey").join(
        nation, [("c_nationkey", "n_nationkey")], how="semi"
    )
    year = col("o_orderdate").is_between(date(1994, 1, 1), date(1995, 1, 1), closed="left")
    orders = (
        t.read("orders", "o_orderkey", "o_custkey", "o_orderdate")
        .where(year)
        .join(customer, [("o_custkey", "c_custkey")], left=["o_orderkey"], right=["c_nationkey"])
    )
    supplier = t.read("supplier", "s_suppkey", "s_nationkey").join(
        nation, [("s_nationkey", "n_nationkey")], right=["n_name"]
    )
    price = fixed("l_extendedprice") * (1 - fixed("l_discount"))
    return (
        t.read("lineitem", "l_orderkey", "l_suppkey", "l_extendedprice", "l_discount")
        .join(
            orders,
            [("l_orderkey", "o_orderkey")],
            left=["l_suppkey", "l_extendedprice", "l_discount"],
            right=["c_nationkey"],
        )
        .join(
            supplier,
            [("l_suppkey", "s_suppkey"), ("c_nationkey", "s_nationkey")],
            left=["l_extendedprice", "l_discount"],
            right=["n_name"],
        )
        .select("n_name", price=price)
        .group_by("n_name", few=True, revenue=("sum", "price"))
        .sort(("revenue", "desc"))
    )
