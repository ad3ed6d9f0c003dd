"""Q9, product type profit measure: what each nation earned on green parts, by year."""

from polars import col

from mgi.tpch.fixed import fixed
from mgi.tpch.frame import Frame
from mgi.tpch.tables import Tables

SQL = """
SELECT nation, o_year, sum(amount) AS sum_profit
FROM (SELECT n_name AS nation, extract(year FROM o_orderdate) AS o_year,
             l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount
      FROM part, supplier, lineitem, partsupp, orders, nation
      WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey
        AND p_partkey = l_partkey AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey
        AND p_name LIKE '%green%') AS profit
GROUP BY nation, o_year ORDER BY nation, o_year DESC
"""


def plan(t: Tables) -> Frame:
    """Green parts' offers are built, and lines probe them; those are built, and orders do."""
    green = t.read("part", "p_partkey", "p_name").where(
        col("p_name").str.contains("green", literal=True)
    )
    nation = t.read("nation", "n_nationkey", "n_name").select("n_nationkey", nation="n_name")
    supplier = t.read("supplier", "s_suppkey", "s_nationkey").join(
        nation, [("s_nationkey", "n_nationkey")], left=["s_suppkey"], right=["nation"]
    )
    offers = (
        t.read("partsupp", "ps_partkey", "ps_suppkey", "ps_supplycost")
        .join(green.select("p_partkey"), [("ps_partkey", "p_partkey")], how="semi")
        .join(supplier, [("ps_suppkey", "s_suppkey")], right=["nation"])
    )
    lines = t.read(
        "lineitem", "l_orderkey", "l_partkey", "l_suppkey", "l_quantity", "l_extendedprice",
        "l_discount",
    )  # fmt: skip
    price = fixed("l_extendedprice") * (1 - fixed("l_discount"))
    sold = lines.join(
        offers,
        [("l_partkey", "ps_partkey"), ("l_suppkey", "ps_suppkey")],
        left=["l_orderkey", "l_quantity", "l_extendedprice", "l_discount"],
        right=["nation", "ps_supplycost"],
    ).select("l_orderkey", "nation", amount=price - fixed("ps_supplycost") * fixed("l_quantity"))
    return (
        t.read("orders", "o_orderkey", "o_orderdate")
        .join(
            sold,
            [("o_orderkey", "l_orderkey")],
            left=["o_orderdate"],
            right=["nation", "amount"],
        )
        .select("nation", "amount", o_year=col("o_orderdate").dt.year())
        .group_by("nation", "o_year", few=True, sum_profit=("sum", "amount"))
        .sort("nation", ("o_year", "desc"))
    )
