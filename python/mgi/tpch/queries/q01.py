"""Q1, pricing summary report: next to all of lineitem in four groups."""

from datetime import date

from polars import col

from mgi.tpch.fixed import fixed
from mgi.tpch.frame import Frame
from mgi.tpch.tables import Tables

SQL = """
SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty,
       sum(l_extendedprice) AS sum_base_price,
       sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
       avg(l_quantity) AS avg_qty, avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc,
       count(*) AS count_order
FROM lineitem WHERE l_shipdate <= DATE '1998-09-02'
GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus
"""


def plan(t: Tables) -> Frame:
    """Endpoints fold their own rows; MGI adds up what they have."""
    lines = t.read(
        "lineitem",
        "l_returnflag",
        "l_linestatus",
        "l_quantity",
        "l_extendedprice",
        "l_discount",
        "l_tax",
        "l_shipdate",
    )
    price = fixed("l_extendedprice") * (1 - fixed("l_discount"))
    groups = (
        lines.where(col("l_shipdate") <= date(1998, 9, 2))
        .select(
            "l_returnflag",
            "l_linestatus",
            "l_quantity",
            "l_extendedprice",
            "l_discount",
            disc_price=price,
            charge=price * (1 + fixed("l_tax")),
        )
        .group_by(
            "l_returnflag",
            "l_linestatus",
            few=True,
            sum_qty=("sum", "l_quantity"),
            sum_base_price=("sum", "l_extendedprice"),
            sum_disc_price=("sum", "disc_price"),
            sum_charge=("sum", "charge"),
            sum_disc=("sum", "l_discount"),
            count_order=("count", None),
        )
    )
    mean = {
        name: fixed(total).to_float() / col("count_order")
        for name, total in {
            "avg_qty": "sum_qty",
            "avg_price": "sum_base_price",
            "avg_disc": "sum_disc",
        }.items()
    }
    return groups.select(
        "l_returnflag",
        "l_linestatus",
        "sum_qty",
        "sum_base_price",
        "sum_disc_price",
        "sum_charge",
        **mean,
        count_order="count_order",
    ).sort("l_returnflag", "l_linestatus")
