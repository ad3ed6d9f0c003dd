"""Q16, parts/supplier relationship: how many suppliers without complaints have which parts."""

from polars import String, col

from mgi.tpch.frame import Frame
from mgi.tpch.tables import Tables

SQL = """
SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS supplier_cnt FROM partsupp, part
WHERE p_partkey = ps_partkey AND p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%'
  AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9)
  AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier
                         WHERE s_comment LIKE '%Customer%Complaints%')
GROUP BY p_brand, p_type, p_size ORDER BY supplier_cnt DESC, p_brand, p_type, p_size
"""


def plan(t: Tables) -> Frame:
    """Chosen parts are built, and offers probe them; few suppliers had complaints."""
    part = t.read("part", "p_partkey", "p_brand", "p_type", "p_size").where(
        col("p_size").is_in([49, 14, 23, 45, 19, 3, 36, 9]),
        col("p_brand") != "Brand#45",
        ~col("p_type").cast(String).str.starts_with("MEDIUM POLISHED"),
    )
    complaints = (
        t.read("supplier", "s_suppkey", "s_comment")
        .where(col("s_comment").str.contains("(?s)Customer.*Complaints"))
        .select("s_suppkey")
    )
    return (
        t.read("partsupp", "ps_partkey", "ps_suppkey")
        .join(
            part,
            [("ps_partkey", "p_partkey")],
            left=["ps_suppkey"],
            right=["p_brand", "p_type", "p_size"],
        )
        .join(complaints, [("ps_suppkey", "s_suppkey")], how="anti")
        .group_by("p_brand", "p_type", "p_size", supplier_cnt=("count_distinct", "ps_suppkey"))
        .sort(("supplier_cnt", "desc"), "p_brand", "p_type", "p_size")
    )
