"""Q11, important stock identification: parts that make up much of the value of Germany's stock."""

from polars import col

from mgi.tpch.fixed import fixed
from mgi.tpch.frame import Frame
from mgi.tpch.tables import Tables

SQL = """
SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value FROM partsupp, supplier, nation
WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY'
GROUP BY ps_partkey
HAVING sum(ps_supplycost * ps_availqty) > (
    SELECT sum(ps_supplycost * ps_availqty) * (0.0001 / {sf}) FROM partsupp, supplier, nation
    WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY')
ORDER BY value DESC
"""


def plan(t: Tables) -> Frame:
    """Germany's stock by part; the sum of the parts comes to every endpoint."""
    nation = t.read("nation", "n_nationkey", "n_name").where(col("n_name") == "GERMANY")
    supplier = t.read("supplier", "s_suppkey", "s_nationkey").join(
        nation.select("n_nationkey"),
        [("s_nationkey", "n_nationkey")],
        how="semi",
        left=["s_suppkey"],
    )
    parts = (
        t.read("partsupp", "ps_partkey", "ps_suppkey", "ps_availqty", "ps_supplycost")
        .join(
            supplier,
            [("ps_suppkey", "s_suppkey")],
            how="semi",
            left=["ps_partkey", "ps_availqty", "ps_supplycost"],
        )
        .select("ps_partkey", stock=fixed("ps_supplycost") * fixed("ps_availqty", 0))
        .group_by("ps_partkey", value=("sum", "stock"))
    )
    return (
        parts.with_scalar(parts.group_by(total=("sum", "value")))
        .where(fixed("value").to_float() > fixed("total").to_float() * (0.0001 / t.sf))
        .select("ps_partkey", "value")
        .sort(("value", "desc"))
    )
