"""Q13, customer distribution: how many customers have how many orders, special requests apart."""

from polars import col

from mgi.tpch.frame import Frame
from mgi.tpch.tables import Tables

SQL = """
SELECT c_count, count(*) AS custdist
FROM (SELECT c_custkey, count(o_orderkey) FROM customer
      LEFT OUTER JOIN orders
        ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%'
      GROUP BY c_custkey) AS c_orders (c_custkey, c_count)
GROUP BY c_count ORDER BY custdist DESC, c_count DESC
"""


def plan(t: Tables) -> Frame:
    """Orders are counted by customer before the join; customers without any have 0."""
    counts = (
        t.read("orders", "o_custkey", "o_comment")
        .where(~col("o_comment").str.contains("(?s)special.*requests"))
        .select("o_custkey")
        .group_by("o_custkey", c_count=("count", None))
    )
    return (
        t.read("customer", "c_custkey")
        .join(counts, [("c_custkey", "o_custkey")], how="left", right=["c_count"])
        .select(c_count=col("c_count").fill_null(0))
        .group_by("c_count", few=True, custdist=("count", None))
        .sort(("custdist", "desc"), ("c_count", "desc"))
    )
