"""Decimals in local steps: whole numbers of a unit, exactly as SQL has them."""

from __future__ import annotations

import polars as pl

#: Digits behind the point of every decimal column of TPC-H.
SCALE = 2


class Fixed:
    """An expression whose value is a whole number of ``10 ** -scale``.

    TPC-H's values are so small that their products fit 64 bits (a line's price is below 1.1e5, with
    six digits behind the point 1.1e11), where a general decimal takes 128. Polars would round a
    product to its factors' scale.
    """

    __slots__ = ("expr", "scale")

    def __init__(self, expr: pl.Expr, scale: int) -> None:
        self.expr, self.scale = expr, scale

    def __mul__(self, other: Fixed | int) -> Fixed:
        other = _fixed(other, 0)
        return Fixed(self.expr * other.expr, self.scale + other.scale)

    def __add__(self, other: Fixed | int) -> Fixed:
        left, right, scale = self._aligned(other)
        return Fixed(left + right, scale)

    def __sub__(self, other: Fixed | int) -> Fixed:
        left, right, scale = self._aligned(other)
        return Fixed(left - right, scale)

    def __rsub__(self, other: int) -> Fixed:
        return _fixed(other, self.scale) - self

    __radd__ = __add__
    __rmul__ = __mul__

    def __lt__(self, other: Fixed | float) -> pl.Expr:
        left, right, _ = self._aligned(other)
        return left < right

    def __le__(self, other: Fixed | float) -> pl.Expr:
        left, right, _ = self._aligned(other)
        return left <= right

    def __gt__(self, other: Fixed | float) -> pl.Expr:
        left, right, _ = self._aligned(other)
        return left > right

    def __ge__(self, other: Fixed | float) -> pl.Expr:
        left, right, _ = self._aligned(other)
        return left >= right

    def is_between(self, least: float, most: float) -> pl.Expr:
        """Both ends count."""
        return (self >= least) & (self <= most)

    def where(self, condition: pl.Expr) -> Fixed:
        """0 where the condition does not hold."""
        return Fixed(pl.when(condition).then(self.expr).otherwise(0), self.scale)

    def to_float(self) -> pl.Expr:
        """As SQL casts to DOUBLE."""
        return self.expr.cast(pl.Float64) / 10**self.scale

    def _aligned(self, other: Fixed | float) -> tuple[pl.Expr, pl.Expr, int]:
        """Both in the finer one's unit."""
        other = _fixed(other, self.scale)
        scale = max(self.scale, other.scale)
        return _scaled(self, scale), _scaled(other, scale), scale


def fixed(name: str, scale: int = SCALE) -> Fixed:
    """A column of a decimal type of TPC-H, or one of this scale that a step has made."""
    return Fixed(pl.col(name), scale)


def _fixed(value: Fixed | float, scale: int) -> Fixed:
    if isinstance(value, Fixed):
        return value
    return Fixed(pl.lit(round(value * 10**scale)), scale)


def _scaled(value: Fixed, scale: int) -> pl.Expr:
    return value.expr if value.scale == scale else value.expr * 10 ** (scale - value.scale)
