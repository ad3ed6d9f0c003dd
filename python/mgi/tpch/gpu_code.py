"""Expressions as CUDA C++."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import polars as pl

from mgi.arrays import plain_type
from mgi.gpu_table import GpuColumn
from mgi.tpch.expr import Expr, to_polars


class NotOnGpu(Exception):  # noqa: N818
    """An expression that no kernel is made for; it says what of it."""


class Value(NamedTuple):
    """An expression's text, and its type: ``i64``, ``double``, ``bool``, ``__int128``, ``text8``.

    The last is a text of at most eight bytes, of which the first are a number's highest.
    """

    text: str
    type: str


#: Types of C++ by ``__cuda_array_interface__``'s.
_C_TYPES = {
    "i1": "signed char",
    "i2": "short",
    "i4": "int",
    "i8": "i64",
    "u1": "unsigned char",
    "u2": "unsigned short",
    "u4": "unsigned",
    "u8": "unsigned long long",
    "f4": "float",
    "f8": "double",
}
_WHOLE = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_TEXTS = ("string", "large_string", "string_view")
#: Bytes of a text that a number holds.
_SHORT = 8
_DAY_0 = datetime.date(1970, 1, 1)


@dataclasses.dataclass
class Code:
    """Makes the texts of one kernel, and gathers what it reads."""

    columns: Mapping[str, Any]
    """By name: arrays of CuPy, and of MGI those that are none."""
    means: Mapping[str, pl.DataType]
    """What the numbers of arrays stand for: Date, Boolean, Enum, String."""
    gpu: int
    params: list[str] = dataclasses.field(default_factory=list)
    """As the kernel declares them."""
    args: list[Any] = dataclasses.field(default_factory=list)
    """As the kernel is given them."""
    _names: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)

    @property
    def param_text(self) -> str:
        """All parameters, with a comma behind each."""
        return "".join(f"{param}, " for param in self.params)

    def value(self, given: Any) -> Value:
        """An expression's, or another value's, for row `i`."""
        if isinstance(given, bool):
            return Value(str(given).lower(), "bool")
        if isinstance(given, datetime.date):
            return Value(f"{(given - _DAY_0).days}LL", "i64")
        if isinstance(given, int):
            return Value(f"({given}LL)", "i64")
        if isinstance(given, float):
            return Value(f"({given!r})", "double")
        if isinstance(given, str) and len(given.encode()) <= _SHORT:
            packed = given.encode().ljust(_SHORT, b"\0")
            return Value(f"{int.from_bytes(packed, 'big')}ULL", "text8")
        if not isinstance(given, Expr):
            raise NotOnGpu(f"a {type(given).__name__}")
        if given.how != "col":
            names = given.names()
            if len(names) == 1 and isinstance(self.means.get(name := next(iter(names))), pl.Enum):
                return self._of_codes(given, name)
        if given.how in _BINARY:
            kinds = [self.means.get(arg.args[0]) for arg in given.args if _is_column(arg)]
            if any(isinstance(kind, pl.Enum) for kind in kinds) and len(set(kinds)) > 1:
                raise NotOnGpu(f"{given}: their texts have other numbers")
            return self._binary(given.how, *map(self.value, given.args))
        if given.how not in _FUNCTIONS:
            raise NotOnGpu(given.how)
        return _FUNCTIONS[given.how](self, *given.args)

    def condition(self, conditions: list[Expr]) -> str:
        """Whether all hold."""
        return " && ".join(f"({self.value(one).text})" for one in conditions) or "true"

    def _binary(self, how: str, one: Value, other: Value) -> Value:
        if "text8" in (one.type, other.type) and one.type != other.type:
            raise NotOnGpu(f"{how} of a text and a number")
        if how in ("&", "|"):
            return Value(f"({one.text} {how * 2} {other.text})", "bool")
        if how == "/":
            return Value(f"((double){one.text} / (double){other.text})", "double")
        if how in ("+", "-", "*"):
            kind = _common(one.type, other.type)
            return Value(f"({one.text} {how} {other.text})", "i64" if kind == "bool" else kind)
        return Value(f"({one.text} {how} {other.text})", "bool")

    def _col(self, name: str) -> Value:
        column = self.columns[name]
        if not isinstance(column, GpuColumn):
            at = f"{self._array(name, 'c', c_type(column), column)}[i]"
            if self.means.get(name) == pl.Boolean:
                return Value(f"({at} != 0)", "bool")
            if self.means.get(name) == pl.String:
                return Value(at, "text8")
            if column.dtype.kind == "f":
                return Value(f"(double){at}", "double")
            return Value(f"(i64){at}", "i64")
        if column._may_hold_nulls() or not column.type.startswith("decimal128"):
            raise NotOnGpu(f"column '{name}' of {column.type}")
        return Value(f"{self._array(name, 'c', '__int128', column.values)}[i]", "__int128")

    def _not(self, given: Expr) -> Value:
        return Value(f"(!{self.value(given).text})", "bool")

    def _choose(self, condition: Expr, value: Any, otherwise: Any) -> Value:
        given, one, other = map(self.value, (condition, value, otherwise))
        kind = _common(one.type, other.type)
        return Value(f"({given.text} ? ({kind}){one.text} : ({kind}){other.text})", kind)

    def _is_in(self, given: Expr, values: list[Any]) -> Value:
        value = self.value(given)
        tests = [self._binary("==", value, self.value(one)).text for one in values]
        return Value(f"({' || '.join(tests) or 'false'})", "bool")

    def _head(self, given: Expr, count: int) -> Value:
        if 4 * count > _SHORT:  # bytes of as many characters
            raise NotOnGpu(f"head of {count}")
        at, text = self._texts(given, "head")
        return Value(f"packed({text} + {at}[i], {at}[i + 1] - {at}[i], {count})", "text8")

    def _year(self, given: Expr) -> Value:
        return Value(f"(i64)year_of({self.value(given).text})", "i64")

    def _to_float(self, given: Expr) -> Value:
        return Value(f"(double){self.value(given).text}", "double")

    def _to_int(self, given: Expr) -> Value:
        return Value(f"(i64){self.value(given).text}", "i64")

    def _or_if_null(self, given: Expr, value: int) -> Value:
        column = self.columns[given.args[0]] if given.how == "col" else None
        if not isinstance(column, GpuColumn) or not column._may_hold_nulls():
            return self.value(given)
        if plain_type(column.type) not in _WHOLE:
            raise NotOnGpu(f"or_if_null of {column.type}")
        plain, name = column.values, given.args[0]
        at = self._array(name, "c", c_type(plain), plain)
        bits = column.validity
        if bits is None:
            return Value(f"(i64){at}[i]", "i64")
        valid = self._array(name, "v", "unsigned char", bits)
        return Value(f"(is_valid({valid}, i) ? (i64){at}[i] : {value}LL)", "i64")

    def _like(self, given: Expr, pattern: str) -> Value:
        """By a loop over the characters; of a coded column a table has the answers."""
        if "%" not in pattern:
            raise NotOnGpu(f"like '{pattern}'")
        at, text = self._texts(given, f"like '{pattern}'")
        begin, *middle, end = (part.encode() for part in pattern.split("%"))
        lines = [f"i64 at = {at}[i]; i64 const end = {at}[i + 1];"]
        if begin:
            size = len(begin)
            test = f"end - at < {size} || !is_at({text} + at, {_quoted(begin)}, {size})"
            lines.append(f"if ({test}) return false; at += {size};")
        for part in filter(None, middle):
            found = f"behind({text}, at, end, {_quoted(part)}, {len(part)})"
            lines.append(f"at = {found}; if (at < 0) return false;")
        size = len(end)
        last = f"end - at >= {size} && is_at({text} + end - {size}, {_quoted(end)}, {size})"
        lines.append(f"return {last if end else 'true'};")
        return Value(f"[&]() -> bool {{ {' '.join(lines)} }}()", "bool")

    def _texts(self, given: Expr, wanted: str) -> tuple[str, str]:
        """The parameters with a plain column's offsets and characters."""
        column = self.columns[given.args[0]] if given.how == "col" else None
        texts = isinstance(column, GpuColumn) and column.type in _TEXTS
        if not texts or column._may_hold_nulls():
            raise NotOnGpu(wanted)
        offsets, characters = column._texts()
        name = given.args[0]
        return (
            self._array(name, "o", c_type(offsets), offsets),
            self._array(name, "t", "char", characters),
        )

    def _of_codes(self, given: Expr, name: str) -> Value:
        """What Polars says for each text, looked up by the code."""
        import cupy

        coded = self.means[name]
        asked = (repr(given), coded, self.gpu)
        if asked not in _ANSWERS:
            texts = pl.DataFrame({name: coded.categories.cast(coded)})  # type: ignore[attr-defined]
            answers = texts.select(answer=to_polars(given))["answer"]
            if answers.dtype != pl.Boolean and not answers.dtype.is_integer():
                raise NotOnGpu(repr(given))
            kind, numpy_type = ("bool", "u1") if answers.dtype == pl.Boolean else ("i64", "i8")
            with cupy.cuda.Device(self.gpu):
                _ANSWERS[asked] = kind, cupy.asarray(answers.to_numpy().astype(numpy_type))
        kind, table = _ANSWERS[asked]
        param = "unsigned char" if kind == "bool" else "i64"
        answer = self._array(repr(given), "a", param, table)
        return Value(f"({kind}){answer}[{self._col(name).text}]", kind)

    def _array(self, name: str, what: str, kind: str, values: Any) -> str:
        """The parameter that points to it."""
        if (name, what) not in self._names:
            self._names[name, what] = f"{what}{len(self.params)}"
            self.params.append(f"{kind} const* __restrict__ {self._names[name, what]}")
            self.args.append(values)
        return self._names[name, what]


#: What is said for each text of an Enum, on a GPU.
_ANSWERS: dict[tuple[str, pl.DataType, int], tuple[str, Any]] = {}
_BINARY = {"+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!=", "&", "|"}


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "col": Code._col,
    "literal": Code.value,
    "choose": Code._choose,
    "~": Code._not,
    "is_in": Code._is_in,
    "head": Code._head,
    "like": Code._like,
    "year": Code._year,
    "or_if_null": Code._or_if_null,
    "to_float": Code._to_float,
    "to_int": Code._to_int,
}


def _is_column(given: Any) -> bool:
    return isinstance(given, Expr) and given.how == "col"


def _common(one: str, other: str) -> str:
    """The type that holds both."""
    if one != other and "text8" in (one, other):
        raise NotOnGpu("a text beside a number")
    return next(k for k in ("text8", "double", "__int128", "i64", "bool") if k in (one, other))


def c_type(array: Any) -> str:
    """Of an array's values in C++."""
    return _C_TYPES[array.__cuda_array_interface__["typestr"][1:]]


def _quoted(text: bytes) -> str:
    return '"' + "".join(f"\\{byte:03o}" for byte in text) + '"'
