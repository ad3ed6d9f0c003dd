"""Q7, volume shipping: what France and Germany sold each other, by year."""

from datetime import date

from polars import col

from mgi.tpch.fixed import fixed
from mgi.tpch.frame import Frame
from mgi.tpch.tables import Tables

SQL = """
SELECT supp_nation, cust_nation, l_year, sum(volume) AS revenue
FROM (SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation,
             extract(year FROM l_shipdate) AS l_year,
             l_extendedprice * (1 - l_discount) AS volume
      FROM supplier, lineitem, orders, customer, nation n1, nation n2
      WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey
        AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey
        AND ((n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY')
          OR (n1.n_name = 'GERMANY' AND n2.n_name = 'FRANCE'))
        AND l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31') AS shipping
GROUP BY supp_nation, cust_nation, l_year ORDER BY supp_nation, cust_nation, l_year
"""


def plan(t: Tables) -> Frame:
    """Lines of both nations' suppliers meet orders of both nations' customers."""
    nation = t.read("nation", "n_nationkey", "n_name").where(
        col("n_name").is_in(["FRANCE", "GERMANY"])
    )
    supplier = t.read("supplier", "s_suppkey", "s_nationkey").join(
        nation.select("n_nationkey", supp_nation="n_name"),
        [("s_nationkey", "n_nationkey")],
        left=["s_suppkey"],
        right=["supp_nation"],
    )
    customer = t.read("customer", "c_custkey", "c_nationkey").join(
        nation.select("n_nationkey", cust_nation="n_name"),
        [("c_nationkey", "n_nationkey")],
        left=["c_custkey"],
        right=["cust_nation"],
    )
    orders = t.read("orders", "o_orderkey", "o_custkey").join(
        customer, [("o_custkey", "c_custkey")], left=["o_orderkey"], right=["cust_nation"]
    )
    return (
        t.read(
            "lineitem", "l_orderkey", "l_suppkey", "l_extendedprice", "l_discount", "l_shipdate"
        )
        .where(col("l_shipdate").is_between(date(1995, 1, 1), date(1996, 12, 31)))
        .select(
            "l_orderkey", "l_suppkey", "l_shipdate",
            volume=fixed("l_extendedprice") * (1 - fixed("l_discount")),
        )
        .join(
            supplier,
            [("l_suppkey", "s_suppkey")],
            left=["l_orderkey", "l_shipdate", "volume"],
            right=["supp_nation"],
        )
        .join(
            orders,
            [("l_orderkey", "o_orderkey")],
            left=["supp_nation", "l_shipdate", "volume"],
            right=["cust_nation"],
        )
        .where(col("supp_nation") != col("cust_nation"))
        .select("supp_nation", "cust_nation", "volume", l_year=col("l_shipdate").dt.year())
        .group_by("supp_nation", "cust_nation", "l_year", few=True, revenue=("sum", "volume"))
        .sort("supp_nation", "cust_nation", "l_year")
    )  # fmt: skip
