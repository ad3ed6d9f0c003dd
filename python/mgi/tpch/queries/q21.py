"""Q21, suppliers who kept orders waiting: theirs were the only late lines, of several."""

from polars import col, when

from mgi.tpch.frame import Frame
from mgi.tpch.tables import Tables

SQL = """
SELECT s_name, count(*) AS numwait
FROM supplier, lineitem l1, orders, nation
WHERE s_suppkey = l1.l_suppkey AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F'
  AND l1.l_receiptdate > l1.l_commitdate
  AND EXISTS (SELECT * FROM lineitem l2
              WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
  AND NOT EXISTS (SELECT * FROM lineitem l3
                  WHERE l3.l_orderkey = l1.l_orderkey AND l3.l_suppkey <> l1.l_suppkey
                    AND l3.l_receiptdate > l3.l_commitdate)
  AND s_nationkey = n_nationkey AND n_name = 'SAUDI ARABIA'
GROUP BY s_name ORDER BY numwait DESC, s_name LIMIT 100
"""


def plan(t: Tables) -> Frame:
    """Late lines of the nation's suppliers; of all lines of their orders, whose they are."""
    nation = t.read("nation", "n_nationkey", "n_name").where(col("n_name") == "SAUDI ARABIA")
    supplier = t.read("supplier", "s_suppkey", "s_name", "s_nationkey").join(
        nation.select("n_nationkey"),
        [("s_nationkey", "n_nationkey")],
        how="semi",
        left=["s_suppkey", "s_name"],
    )
    orders = t.read("orders", "o_orderkey", "o_orderstatus").where(col("o_orderstatus") == "F")
    late = col("l_receiptdate") > col("l_commitdate")
    lines = t.read("lineitem", "l_orderkey", "l_suppkey", "l_commitdate", "l_receiptdate")
    waiting = (
        lines.where(late)
        .select("l_orderkey", "l_suppkey")
        .join(supplier, [("l_suppkey", "s_suppkey")], left=["l_orderkey"], right=["s_name"])
        .join(orders.select("o_orderkey"), [("l_orderkey", "o_orderkey")], how="semi")
    )
    # The least and the greatest supplier differ where there are several.
    alone = (
        lines.join(waiting.select("l_orderkey"), "l_orderkey", how="semi")
        .select("l_orderkey", "l_suppkey", late=when(late).then(col("l_suppkey")))
        .group_by(
            "l_orderkey",
            least=("min", "l_suppkey"),
            most=("max", "l_suppkey"),
            least_late=("min", "late"),
            most_late=("max", "late"),
        )
        .where(col("least") != col("most"), col("least_late") == col("most_late"))
        .select("l_orderkey")
    )
    return (
        waiting.join(alone, "l_orderkey", how="semi", left=["s_name"])
        .group_by("s_name", numwait=("count", None))
        .sort(("numwait", "desc"), "s_name", limit=100)
    )
