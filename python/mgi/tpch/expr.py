"""Expressions of queries: Polars evaluates them on CPUs (here), made kernels do on GPUs."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl


class Expr:
    """What is done to the values of a row: the name of a function, and its arguments."""

    __slots__ = ("args", "how")

    def __init__(self, how: str, *args: Any) -> None:
        self.how, self.args = how, args

    def __add__(self, other: Any) -> Expr:
        return Expr("+", self, other)

    def __radd__(self, other: Any) -> Expr:
        return Expr("+", other, self)

    def __sub__(self, other: Any) -> Expr:
        return Expr("-", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return Expr("-", other, self)

    def __mul__(self, other: Any) -> Expr:
        return Expr("*", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return Expr("*", other, self)

    def __truediv__(self, other: Any) -> Expr:
        """A double, whatever is divided."""
        return Expr("/", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return Expr("/", other, self)

    def __lt__(self, other: Any) -> Expr:
        return Expr("<", self, other)

    def __le__(self, other: Any) -> Expr:
        return Expr("<=", self, other)

    def __gt__(self, other: Any) -> Expr:
        return Expr(">", self, other)

    def __ge__(self, other: Any) -> Expr:
        return Expr(">=", self, other)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return Expr("==", self, other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return Expr("!=", self, other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{self.how}({', '.join(map(repr, self.args))})"

    def __and__(self, other: Any) -> Expr:
        return Expr("&", self, other)

    def __or__(self, other: Any) -> Expr:
        return Expr("|", self, other)

    def __invert__(self) -> Expr:
        return Expr("~", self)

    def between(self, least: Any, most: Any) -> Expr:
        """Both ends count, as in SQL."""
        return (self >= least) & (self <= most)

    def within(self, first: Any, end: Any) -> Expr:
        """From `first` on, and before `end`."""
        return (self >= first) & (self < end)

    def is_in(self, values: Sequence[Any]) -> Expr:
        """Whether it is one of these."""
        return Expr("is_in", self, list(values))

    def like(self, pattern: str) -> Expr:
        """As in SQL: ``%`` is any text, everything else itself."""
        return Expr("like", self, pattern)

    def head(self, count: int) -> Expr:
        """A text's first characters."""
        return Expr("head", self, count)

    def year(self) -> Expr:
        """Of a date."""
        return Expr("year", self)

    def or_if_null(self, value: int) -> Expr:
        """Or this where it is null."""
        return Expr("or_if_null", self, value)

    def to_float(self) -> Expr:
        """As a double."""
        return Expr("to_float", self)

    def to_int(self) -> Expr:
        """In 64 bits; 1 for what is true."""
        return Expr("to_int", self)

    def names(self) -> set[str]:
        """The columns that it reads."""
        return {part.args[0] for part in self._parts() if part.how == "col"}

    def over(self, values: Mapping[str, Expr]) -> Expr:
        """With these in place of the columns of such names."""
        if self.how == "col":
            return values[self.args[0]]
        return Expr(
            self.how, *(arg.over(values) if isinstance(arg, Expr) else arg for arg in self.args)
        )

    def _parts(self) -> Iterator[Expr]:
        yield self
        for arg in self.args:
            if isinstance(arg, Expr):
                yield from arg._parts()


def col(name: str) -> Expr:
    """A column's value."""
    return Expr("col", name)


def literal(value: int) -> Expr:
    """The same in every row."""
    return Expr("literal", value)


def choose(condition: Expr, value: Any, otherwise: Any) -> Expr:
    """As SQL's CASE WHEN."""
    return Expr("choose", condition, value, otherwise)


def to_polars(value: Any) -> Any:
    """As Polars has it; values other than expressions are themselves."""
    return _POLARS[value.how](*map(to_polars, value.args)) if isinstance(value, Expr) else value


def _like(text: pl.Expr, pattern: str) -> pl.Expr:
    text = text.cast(pl.String)  # coded texts have no functions of texts
    parts = pattern.split("%")
    match parts:
        case ["", wanted, ""]:
            return text.str.contains(wanted, literal=True)
        case [wanted, ""]:
            return text.str.starts_with(wanted)
        case ["", wanted]:
            return text.str.ends_with(wanted)
    regex = ".*".join(map(re.escape, parts))
    return text.str.contains(f"(?s)^{regex}$")


def _choose(condition: pl.Expr, value: Any, otherwise: Any) -> pl.Expr:
    return pl.when(condition).then(value).otherwise(otherwise)


_POLARS: dict[str, Callable[..., pl.Expr]] = {
    "col": pl.col,
    "literal": pl.lit,
    "choose": _choose,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "&": operator.and_,
    "|": operator.or_,
    "~": operator.invert,
    "is_in": lambda value, values: value.is_in(values),
    "like": _like,
    "head": lambda text, count: text.str.slice(0, count),
    "year": lambda date: date.dt.year(),
    "or_if_null": lambda value, other: value.fill_null(other),
    "to_float": lambda value: value.cast(pl.Float64),
    "to_int": lambda value: value.cast(pl.Int64),
}
