"""Q2, minimum cost supplier: for brass parts of a size, who in Europe sells them cheapest."""

from polars import String, col

from mgi.tpch.frame import Frame
from mgi.tpch.tables import Tables

SQL = """
SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
FROM part, supplier, partsupp, nation, region
WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND p_size = 15 AND p_type LIKE '%BRASS'
  AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'EUROPE'
  AND ps_supplycost = (SELECT min(ps_supplycost) FROM partsupp, supplier, nation, region
                       WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey
                         AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
                         AND r_name = 'EUROPE')
ORDER BY s_acctbal DESC, n_name, s_name, p_partkey LIMIT 100
"""


def plan(t: Tables) -> Frame:
    """Europe's offers of those parts; the cheapest of each part; its suppliers."""
    europe = t.read("region", "r_regionkey", "r_name").where(col("r_name") == "EUROPE")
    nation = t.read("nation", "n_nationkey", "n_name", "n_regionkey").join(
        europe, [("n_regionkey", "r_regionkey")], how="semi", left=["n_nationkey", "n_name"]
    )
    supplier = t.read(
        "supplier", "s_suppkey", "s_name", "s_address", "s_nationkey", "s_phone", "s_acctbal",
        "s_comment",
    ).join(nation, [("s_nationkey", "n_nationkey")], right=["n_name"])  # fmt: skip
    part = (
        t.read("part", "p_partkey", "p_mfgr", "p_type", "p_size")
        .where(col("p_size") == 15, col("p_type").cast(String).str.ends_with("BRASS"))
        .select("p_partkey", "p_mfgr")
    )
    offers = (
        t.read("partsupp", "ps_partkey", "ps_suppkey", "ps_supplycost")
        .join(part, [("ps_partkey", "p_partkey")], right=["p_mfgr"])
        .join(
            supplier,
            [("ps_suppkey", "s_suppkey")],
            left=["ps_partkey", "ps_supplycost", "p_mfgr"],
            right=["s_acctbal", "s_name", "n_name", "s_address", "s_phone", "s_comment"],
        )
    )
    least = offers.group_by("ps_partkey", ps_supplycost=("min", "ps_supplycost"))
    return (
        offers.join(least, ["ps_partkey", "ps_supplycost"], how="semi")
        .select(
            "s_acctbal", "s_name", "n_name",
            p_partkey="ps_partkey", p_mfgr="p_mfgr", s_address="s_address", s_phone="s_phone",
            s_comment="s_comment",
        )
        .sort(("s_acctbal", "desc"), "n_name", "s_name", "p_partkey", limit=100)
    )  # fmt: skip
