"""Q18, large volume customer: the hundred dearest orders of more than 300 pieces."""

from mgi.tpch.fixed import fixed
from mgi.tpch.frame import Frame
from mgi.tpch.tables import Tables

SQL = """
SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) AS sum_quantity
FROM customer, orders, lineitem
WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem
                     GROUP BY l_orderkey HAVING sum(l_quantity) > 300)
  AND c_custkey = o_custkey AND o_orderkey = l_orderkey
GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
ORDER BY o_totalprice DESC, o_orderdate LIMIT 100
"""


def plan(t: Tables) -> Frame:
    """Lines are summed by order; the few large orders are looked up with their sums."""
    large = (
        t.read("lineitem", "l_orderkey", "l_quantity")
        .group_by("l_orderkey", sum_quantity=("sum", "l_quantity"))
        .where(fixed("sum_quantity") > 300)
    )
    best = (
        t.read("orders", "o_orderkey", "o_custkey", "o_orderdate", "o_totalprice")
        .join(large, [("o_orderkey", "l_orderkey")], right=["sum_quantity"])
        .sort(("o_totalprice", "desc"), "o_orderdate", limit=100)
    )
    return (
        t.read("customer", "c_custkey", "c_name")
        .join(
            best,
            [("c_custkey", "o_custkey")],
            right=["o_orderkey", "o_orderdate", "o_totalprice", "sum_quantity"],
        )
        .select("c_name", "c_custkey", "o_orderkey", "o_orderdate", "o_totalprice", "sum_quantity")
        .sort(("o_totalprice", "desc"), "o_orderdate", limit=100)
    )
