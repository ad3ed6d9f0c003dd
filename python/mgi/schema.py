"""Ordered, typed, named columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from mgi import _mgi
from mgi.errors import InvalidArgument

if TYPE_CHECKING:
    import numpy as np

SchemaLike: TypeAlias = Any
"""An object with ``__arrow_c_schema__``, a mapping of names to types, or a structured dtype."""


class Field(NamedTuple):
    """A column of a schema."""

    name: str
    type: str
    """As Arrow prints it: ``int64``, ``double``, ``decimal128(15, 2)``, ``string``, ..."""
    nullable: bool


class Schema:
    """The columns of a channel or a batch, in order.

    Made of a mapping of names to types, ``{"key": "int64", "price": "decimal128(15, 2)?"}``, where
    ``?`` marks columns that may hold nulls. Types are ``bool``, ``int8`` to ``int64``, ``uint8`` to
    ``uint64``, ``float32``, ``float64``, ``date32``, ``date64``, ``timestamp[us]``,
    ``timestamp[us, tz=UTC]``, ``time32[s]``, ``time64[us]``, ``duration[us]`` (units ``s``, ``ms``,
    ``us``, ``ns``), ``decimal128(precision, scale)``, ``fixed_size_binary(width)``, ``string`` and
    ``binary``. Anything with ``__arrow_c_schema__`` (pyarrow, Polars) is taken too, with all types
    of docs/types.md, and so is a NumPy structured dtype.
    """

    __slots__ = ("_fields", "_native")

    def __init__(self, fields: SchemaLike) -> None:
        self._native = _native_schema(fields)
        self._fields = tuple(Field(*field) for field in self._native.fields())

    @classmethod
    def _of(cls, native: _mgi.Schema) -> Schema:
        made = cls.__new__(cls)
        made._native = native
        made._fields = tuple(Field(*field) for field in native.fields())
        return made

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return [field.name for field in self._fields]

    @property
    def types(self) -> list[str]:
        """The columns' types, as Arrow prints them."""
        return [field.type for field in self._fields]

    @property
    def row_bytes(self) -> int:
        """Bytes of one row as a C struct with natural alignment."""
        return self._native.row_bytes()

    def row_dtype(self) -> np.dtype[Any]:
        """The NumPy structured dtype of such a struct, for arrays that `send` takes as rows."""
        from mgi.arrays import row_dtype

        return row_dtype(self)

    def __len__(self) -> int:
        return len(self._fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self._fields)

    def __getitem__(self, column: int | str) -> Field:
        if isinstance(column, str):
            return self._fields[self._native.index_of(column)]
        return self._fields[column]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self._fields == other._fields

    def __hash__(self) -> int:
        return hash(self._fields)

    def __repr__(self) -> str:
        return f"mgi.Schema({self._native.text()})"

    def __arrow_c_schema__(self) -> object:
        """Arrow's PyCapsule interface."""
        return self._native.capsule()


def as_schema(given: SchemaLike) -> Schema:
    """A schema of whatever describes one."""
    return given if isinstance(given, Schema) else Schema(given)


def _native_schema(given: SchemaLike) -> _mgi.Schema:
    if hasattr(given, "__arrow_c_schema__"):
        return _mgi.Schema.from_arrow(given)
    if isinstance(given, Mapping):
        return _mgi.Schema.make([_field(name, kind) for name, kind in given.items()])
    if getattr(given, "names", None) and hasattr(given, "fields"):
        from mgi.arrays import fields_of_dtype

        return _mgi.Schema.make(fields_of_dtype(given))
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        fields = [tuple(field) for field in given]
        if all(2 <= len(field) <= 3 and isinstance(field[0], str) for field in fields):
            return _mgi.Schema.make([_field(*field) for field in fields])
    raise InvalidArgument(
        f"no schema can be made of {given!r}: give an Arrow schema (an object with "
        '__arrow_c_schema__) or a mapping of names to types such as {"key": "int64"}'
    )


def _field(name: str, kind: Any, nullable: bool = False) -> tuple[str, str, bool]:
    if not isinstance(name, str):
        raise InvalidArgument(f"a column is named {name!r}: names are strings")
    if not isinstance(kind, str):
        from mgi.arrays import type_of_dtype

        return name, type_of_dtype(kind, name), nullable
    return name, kind.removesuffix("?"), nullable or kind.endswith("?")
