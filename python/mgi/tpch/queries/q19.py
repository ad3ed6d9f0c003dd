"""Q19, discounted revenue: three brands, each in packages and amounts of its own."""

from polars import Expr, col

from mgi.tpch.fixed import fixed
from mgi.tpch.frame import Frame
from mgi.tpch.tables import Tables

SQL = """
SELECT sum(l_extendedprice * (1 - l_discount)) AS revenue FROM lineitem, part
WHERE p_partkey = l_partkey AND l_shipmode IN ('AIR', 'AIR REG')
  AND l_shipinstruct = 'DELIVER IN PERSON'
  AND ((p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
        AND l_quantity >= 1 AND l_quantity <= 11 AND p_size BETWEEN 1 AND 5)
    OR (p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
        AND l_quantity >= 10 AND l_quantity <= 20 AND p_size BETWEEN 1 AND 10)
    OR (p_brand = 'Brand#34' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
        AND l_quantity >= 20 AND l_quantity <= 30 AND p_size BETWEEN 1 AND 15))
"""


def _brand(name: str, size: str, packages: str, most: int) -> Expr:
    containers = [f"{size} {package}" for package in packages.split()]
    return (
        (col("p_brand") == name)
        & col("p_container").is_in(containers)
        & col("p_size").is_between(1, most)
    )


def plan(t: Tables) -> Frame:
    """Parts that may count are built with the least quantity that does, and lines probe them."""
    brands = {
        1: _brand("Brand#12", "SM", "CASE BOX PACK PKG", 5),
        10: _brand("Brand#23", "MED", "BAG BOX PKG PACK", 10),
        20: _brand("Brand#34", "LG", "CASE BOX PACK PKG", 15),
    }
    least = sum(condition.cast(int) * quantity for quantity, condition in brands.items())
    part = (
        t.read("part", "p_partkey", "p_brand", "p_container", "p_size")
        .select("p_partkey", least=least)
        .where(col("least") > 0)
    )
    # What every line must have, and the quantities of any brand.
    lines = (
        t.read(
            "lineitem",
            "l_partkey",
            "l_quantity",
            "l_extendedprice",
            "l_discount",
            "l_shipinstruct",
            "l_shipmode",
        )
        .where(
            col("l_shipmode").is_in(["AIR", "AIR REG"]),
            col("l_shipinstruct") == "DELIVER IN PERSON",
            fixed("l_quantity").is_between(1, 30),
        )
        .select(
            "l_partkey", "l_quantity", price=fixed("l_extendedprice") * (1 - fixed("l_discount"))
        )
    )
    pairs = [("l_partkey", "p_partkey")]
    return (
        lines.join(part, pairs, left=["l_quantity", "price"], right=["least"])
        .where(
            fixed("l_quantity") >= fixed("least", 0), fixed("l_quantity") <= fixed("least", 0) + 10
        )
        .group_by(revenue=("sum", "price"))
    )
