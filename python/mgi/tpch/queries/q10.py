"""Q10, returned items: the twenty customers who sent back the most."""

from datetime import date

from polars import col

from mgi.tpch.fixed import fixed
from mgi.tpch.frame import Frame
from mgi.tpch.tables import Tables

SQL = """
SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name,
       c_address, c_phone, c_comment
FROM customer, orders, lineitem, nation
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= DATE '1993-10-01'
  AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R' AND c_nationkey = n_nationkey
GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
ORDER BY revenue DESC LIMIT 20
"""


def plan(t: Tables) -> Frame:
    """Sums by customer's key, of which twenty are looked up: the other columns depend on it."""
    quarter = col("o_orderdate").is_between(date(1993, 10, 1), date(1994, 1, 1), closed="left")
    orders = t.read("orders", "o_orderkey", "o_custkey", "o_orderdate").where(quarter)
    best = (
        t.read("lineitem", "l_orderkey", "l_extendedprice", "l_discount", "l_returnflag")
        .where(col("l_returnflag") == "R")
        .select("l_orderkey", price=fixed("l_extendedprice") * (1 - fixed("l_discount")))
        .join(
            orders.select("o_orderkey", "o_custkey"),
            [("l_orderkey", "o_orderkey")],
            left=["price"],
            right=["o_custkey"],
        )
        .group_by("o_custkey", revenue=("sum", "price"))
        .sort(("revenue", "desc"), limit=20)
    )
    customer = t.read(
        "customer",
        "c_custkey",
        "c_name",
        "c_acctbal",
        "c_nationkey",
        "c_address",
        "c_phone",
        "c_comment",
    )
    nation = t.read("nation", "n_nationkey", "n_name")
    return (
        customer.join(best, [("c_custkey", "o_custkey")], right=["revenue"])
        .join(nation, [("c_nationkey", "n_nationkey")], right=["n_name"])
        .select(
            "c_custkey",
            "c_name",
            "revenue",
            "c_acctbal",
            "n_name",
            "c_address",
            "c_phone",
            "c_comment",
        )
        .sort(("revenue", "desc"), limit=20)
    )
