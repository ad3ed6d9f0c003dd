"""Q6, forecasting revenue change: what a year's small discounts on small lines come to."""

from datetime import date

from polars import col

from mgi.tpch.fixed import fixed
from mgi.tpch.frame import Frame
from mgi.tpch.tables import Tables

SQL = """
SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem
WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
  AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24
"""


def plan(t: Tables) -> Frame:
    """Endpoints fold their own rows; MGI adds up what they have."""
    year = col("l_shipdate").is_between(date(1994, 1, 1), date(1995, 1, 1), closed="left")
    return (
        t.read("lineitem", "l_quantity", "l_extendedprice", "l_discount", "l_shipdate")
        .where(year, fixed("l_discount").is_between(0.05, 0.07), fixed("l_quantity") < 24)
        .select(saved=fixed("l_extendedprice") * fixed("l_discount"))
        .group_by(revenue=("sum", "saved"))
    )
