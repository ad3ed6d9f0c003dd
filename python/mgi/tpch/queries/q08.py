"""Q8, national market share: Brazil's share of a steel part's sales in America, by year."""

from datetime import date

from polars import col

from mgi.tpch.fixed import fixed
from mgi.tpch.frame import Frame
from mgi.tpch.tables import Tables

SQL = """
SELECT o_year, sum(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / sum(volume) AS mkt_share
FROM (SELECT extract(year FROM o_orderdate) AS o_year,
             l_extendedprice * (1 - l_discount) AS volume, n2.n_name AS nation
      FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region
      WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey
        AND o_custkey = c_custkey AND c_nationkey = n1.n_nationkey
        AND n1.n_regionkey = r_regionkey AND r_name = 'AMERICA' AND s_nationkey = n2.n_nationkey
        AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
        AND p_type = 'ECONOMY ANODIZED STEEL') AS all_nations
GROUP BY o_year ORDER BY o_year
"""


def plan(t: Tables) -> Frame:
    """The part's lines are built, and orders probe them; then customers and suppliers follow."""
    part = t.read("part", "p_partkey", "p_type").where(col("p_type") == "ECONOMY ANODIZED STEEL")
    lines = t.read(
        "lineitem", "l_orderkey", "l_partkey", "l_suppkey", "l_extendedprice", "l_discount"
    ).join(
        part.select("p_partkey"),
        [("l_partkey", "p_partkey")],
        how="semi",
        left=["l_orderkey", "l_suppkey", "l_extendedprice", "l_discount"],
    )
    america = t.read("region", "r_regionkey", "r_name").where(col("r_name") == "AMERICA")
    nation = t.read("nation", "n_nationkey", "n_name", "n_regionkey")
    customer = t.read("customer", "c_custkey", "c_nationkey").join(
        nation.join(america, [("n_regionkey", "r_regionkey")], how="semi", left=["n_nationkey"]),
        [("c_nationkey", "n_nationkey")],
        how="semi",
        left=["c_custkey"],
    )
    supplier = t.read("supplier", "s_suppkey", "s_nationkey").join(
        nation, [("s_nationkey", "n_nationkey")], left=["s_suppkey"], right=["n_name"]
    )
    volume = fixed("volume", 4)
    return (
        t.read("orders", "o_orderkey", "o_custkey", "o_orderdate")
        .where(col("o_orderdate").is_between(date(1995, 1, 1), date(1996, 12, 31)))
        .join(
            lines.select(
                "l_orderkey", "l_suppkey",
                volume=fixed("l_extendedprice") * (1 - fixed("l_discount")),
            ),
            [("o_orderkey", "l_orderkey")],
            left=["o_custkey", "o_orderdate"],
            right=["l_suppkey", "volume"],
        )
        .join(customer, [("o_custkey", "c_custkey")], how="semi")
        .join(supplier, [("l_suppkey", "s_suppkey")], right=["n_name"])
        .select(
            o_year=col("o_orderdate").dt.year(),
            volume=volume,
            brazil=volume.where(col("n_name") == "BRAZIL"),
        )
        .group_by("o_year", few=True, brazil=("sum", "brazil"), volume=("sum", "volume"))
        .select("o_year", mkt_share=fixed("brazil", 4).to_float() / volume.to_float())
        .sort("o_year")
    )  # fmt: skip
