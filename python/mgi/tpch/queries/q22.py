"""Q22, global sales opportunity: well-off customers of seven countries who never ordered."""

from polars import col

from mgi.tpch.fixed import fixed
from mgi.tpch.frame import Frame
from mgi.tpch.tables import Tables

SQL = """
SELECT cntrycode, count(*) AS numcust, sum(c_acctbal) AS totacctbal
FROM (SELECT substring(c_phone FROM 1 FOR 2) AS cntrycode, c_acctbal FROM customer
      WHERE substring(c_phone FROM 1 FOR 2) IN ('13', '31', '23', '29', '30', '18', '17')
        AND c_acctbal > (SELECT avg(c_acctbal) FROM customer
                         WHERE c_acctbal > 0.00 AND substring(c_phone FROM 1 FOR 2)
                               IN ('13', '31', '23', '29', '30', '18', '17'))
        AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)) AS custsale
GROUP BY cntrycode ORDER BY cntrycode
"""


def plan(t: Tables) -> Frame:
    """The mean comes to every endpoint; customers above it look for their orders."""
    countries = ["13", "31", "23", "29", "30", "18", "17"]
    customer = (
        t.read("customer", "c_custkey", "c_phone", "c_acctbal")
        .select("c_custkey", "c_acctbal", cntrycode=col("c_phone").str.slice(0, 2))
        .where(col("cntrycode").is_in(countries), fixed("c_acctbal") > 0)
    )
    mean = customer.group_by(total=("sum", "c_acctbal"), rows=("count", "c_acctbal")).select(
        mean=fixed("total").to_float() / col("rows")
    )
    return (
        customer.with_scalar(mean)
        .where(fixed("c_acctbal").to_float() > col("mean"))
        .select("c_custkey", "cntrycode", "c_acctbal")
        .join(
            t.read("orders", "o_custkey"),
            [("c_custkey", "o_custkey")],
            how="anti",
            left=["cntrycode", "c_acctbal"],
        )
        .group_by("cntrycode", few=True, numcust=("count", None), totacctbal=("sum", "c_acctbal"))
        .sort("cntrycode")
    )
