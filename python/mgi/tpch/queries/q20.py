"""Q20, potential part promotion: Canada's suppliers with too many of a forest part in stock."""

from datetime import date

from polars import col

from mgi.tpch.fixed import fixed
from mgi.tpch.frame import Frame
from mgi.tpch.tables import Tables

SQL = """
SELECT s_name, s_address FROM supplier, nation
WHERE s_suppkey IN (
    SELECT ps_suppkey FROM partsupp
    WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%')
      AND ps_availqty > (SELECT 0.5 * sum(l_quantity) FROM lineitem
                         WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey
                           AND l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'))
  AND s_nationkey = n_nationkey AND n_name = 'CANADA'
ORDER BY s_name
"""


def plan(t: Tables) -> Frame:
    """Canada's stock of forest parts; of it alone, what was sold in a year."""
    nation = t.read("nation", "n_nationkey", "n_name").where(col("n_name") == "CANADA")
    supplier = t.read("supplier", "s_suppkey", "s_name", "s_address", "s_nationkey").join(
        nation.select("n_nationkey"),
        [("s_nationkey", "n_nationkey")],
        how="semi",
        left=["s_suppkey", "s_name", "s_address"],
    )
    forest = t.read("part", "p_partkey", "p_name").where(col("p_name").str.starts_with("forest"))
    stock = (
        t.read("partsupp", "ps_partkey", "ps_suppkey", "ps_availqty")
        .join(forest.select("p_partkey"), [("ps_partkey", "p_partkey")], how="semi")
        .join(supplier.select("s_suppkey"), [("ps_suppkey", "s_suppkey")], how="semi")
    )
    year = col("l_shipdate").is_between(date(1994, 1, 1), date(1995, 1, 1), closed="left")
    keys = [("l_partkey", "ps_partkey"), ("l_suppkey", "ps_suppkey")]
    much = (
        t.read("lineitem", "l_partkey", "l_suppkey", "l_quantity", "l_shipdate")
        .where(year)
        .select("l_partkey", "l_suppkey", "l_quantity")
        .join(stock, keys, how="semi")
        .group_by("l_partkey", "l_suppkey", sold=("sum", "l_quantity"))
        .join(stock, keys, left=["l_suppkey", "sold"], right=["ps_availqty"])
        .where(fixed("ps_availqty", 0) * 2 > fixed("sold"))
        .select("l_suppkey")
    )
    return supplier.join(
        much, [("s_suppkey", "l_suppkey")], how="semi", left=["s_name", "s_address"]
    ).sort("s_name")
