"""Q14, promotion effect: the share of a month's revenue that promoted parts brought."""

from datetime import date

from polars import col

from mgi.tpch.fixed import fixed
from mgi.tpch.frame import Frame
from mgi.tpch.tables import Tables

SQL = """
SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0
                    END) / sum(l_extendedprice * (1 - l_discount)) AS promo_revenue
FROM lineitem, part
WHERE l_partkey = p_partkey AND l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'
"""


def plan(t: Tables) -> Frame:
    """A month's lines are built, and parts probe them."""
    month = col("l_shipdate").is_between(date(1995, 9, 1), date(1995, 10, 1), closed="left")
    lines = (
        t.read("lineitem", "l_partkey", "l_extendedprice", "l_discount", "l_shipdate")
        .where(month)
        .select("l_partkey", price=fixed("l_extendedprice") * (1 - fixed("l_discount")))
    )
    part = t.read("part", "p_partkey", "p_type").select(
        "p_partkey", promoted=col("p_type").cast(str).str.starts_with("PROMO")
    )
    price = fixed("price", 4)
    return (
        lines.join(part, [("l_partkey", "p_partkey")], left=["price"], right=["promoted"])
        .select(price=price, promo=price.where(col("promoted")))
        .group_by(promo=("sum", "promo"), total=("sum", "price"))
        .select(promo_revenue=100 * fixed("promo", 4).to_float() / fixed("total", 4).to_float())
    )
