"""Q17, small-quantity-order revenue: what lines far below their part's mean quantity bring."""

from polars import col

from mgi.tpch.fixed import fixed
from mgi.tpch.frame import Frame
from mgi.tpch.tables import Tables

SQL = """
SELECT sum(l_extendedprice) / 7.0 AS avg_yearly FROM lineitem, part
WHERE p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container = 'MED BOX'
  AND l_quantity < (SELECT 0.2 * avg(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)
"""


def plan(t: Tables) -> Frame:
    """The few parts' lines only: grouped by part for the means, which they are joined with."""
    part = t.read("part", "p_partkey", "p_brand", "p_container").where(
        col("p_brand") == "Brand#23", col("p_container") == "MED BOX"
    )
    lines = t.read("lineitem", "l_partkey", "l_quantity", "l_extendedprice").join(
        part.select("p_partkey"), [("l_partkey", "p_partkey")], how="semi"
    )
    means = lines.group_by(
        "l_partkey", quantity=("sum", "l_quantity"), lines=("count", None)
    ).select("l_partkey", mean=fixed("quantity").to_float() / col("lines"))
    return (
        lines.join(means, "l_partkey", left=["l_quantity", "l_extendedprice"], right=["mean"])
        .where(fixed("l_quantity").to_float() < 0.2 * col("mean"))
        .group_by(total=("sum", "l_extendedprice"))
        .select(avg_yearly=fixed("total").to_float() / 7)
    )
