"""NumPy arrays to and from batches, without a copy where they lie as Arrow wants them."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mgi import _mgi
from mgi.errors import InvalidArgument

if TYPE_CHECKING:
    import numpy as np

    from mgi.schema import Schema

# Arrow's names of the types that NumPy has.
_PLAIN = {
    "bool": "?",
    "int8": "i1",
    "int16": "i2",
    "int32": "i4",
    "int64": "i8",
    "uint8": "u1",
    "uint16": "u2",
    "uint32": "u4",
    "uint64": "u8",
    "float": "f4",
    "double": "f8",
}
_ARROW = {code: name for name, code in _PLAIN.items()}
# Of types that NumPy has no dtype for, or another one: the dtype that their values lie as.
_LIE_AS = {
    "date32[day]": "i4",
    "date64[ms]": "M8[ms]",
    "month_interval": "i4",
    "halffloat": "f4",
    "null": "?",
}
_NUMBERS = {
    "date32[day]": "int32",
    "date64[ms]": "int64",
    "month_interval": "int32",
    "halffloat": "float",
}
_TIME = re.compile(r"(timestamp|duration|time32|time64)\[(s|ms|us|ns)(, tz=.*)?\]")
_TIME_DTYPE = {"timestamp": "M8[{}]", "duration": "m8[{}]", "time32": "i4", "time64": "i8"}
_TIME_TYPE = {"M": "timestamp", "m": "duration"}


def _numpy() -> Any:
    try:
        import numpy
    except ModuleNotFoundError as error:
        raise ImportError("this needs NumPy: pip install numpy") from error
    return numpy


def plain_type(kind: str) -> str:
    """The type of numbers that values of this Arrow type lie as, else the type itself."""
    time = _TIME.fullmatch(kind)
    if time is not None:
        return "int32" if time[1] == "time32" else "int64"
    return _NUMBERS.get(kind, kind)


def type_of_dtype(given: Any, column: str) -> str:
    """The Arrow type whose values lie as this dtype's do."""
    numpy = _numpy()
    dtype = numpy.dtype(given)
    found = _ARROW.get(dtype.str[1:]) or _ARROW.get("?" if dtype.kind == "b" else "")
    if found:
        return found
    if dtype.kind in "SV" and dtype.names is None and dtype.itemsize > 0:
        return f"fixed_size_binary({dtype.itemsize})"
    if dtype == "M8[D]":
        return "date32"
    if dtype.kind in _TIME_TYPE:
        unit, count = numpy.datetime_data(dtype)
        if unit in ("s", "ms", "us", "ns") and count == 1:
            return f"{_TIME_TYPE[dtype.kind]}[{unit}]"
    raise InvalidArgument(
        f"column '{column}': NumPy dtype {dtype} has no fixed-width Arrow type here; give the "
        "column as an Arrow array (pyarrow, Polars)"
    )


def fields_of_dtype(dtype: np.dtype[Any]) -> list[tuple[str, str, bool]]:
    """The columns of a structured dtype."""
    return [(name, type_of_dtype(dtype[name], name), False) for name in dtype.names or ()]


def dtype_of_field(column: str, kind: str, width: int) -> np.dtype[Any]:
    """The dtype whose values lie as this Arrow type's do; `width` is a value's bytes."""
    numpy = _numpy()
    plain = _PLAIN.get(kind) or _LIE_AS.get(kind)
    if plain is not None:
        return numpy.dtype(plain)
    time = _TIME.fullmatch(kind)
    if time is not None:
        return numpy.dtype(_TIME_DTYPE[time[1]].format(time[2]))
    if kind in ("string", "binary") or "<" in kind:  # text, or nested
        raise InvalidArgument(
            f"column '{column}' is {kind}, which NumPy has no fixed-width dtype for: leave it out "
            f"with columns=[...], read it with strings('{column}'), or use to_arrow()"
        )
    return numpy.dtype(f"V{width}")


def row_dtype(schema: Schema) -> np.dtype[Any]:
    """The structured dtype of a schema's row structs."""
    numpy = _numpy()
    native = schema._native
    widths = native.widths()
    kinds = [
        dtype_of_field(field.name, field.type, width)
        for field, width in zip(schema, widths, strict=True)
    ]
    return numpy.dtype(
        {
            "names": schema.names,
            "formats": kinds,
            "offsets": native.row_offsets(),
            "itemsize": native.row_bytes(),
        }
    )


def is_array_like(given: Any) -> bool:
    """Whether NumPy reads this as an array without looking into Python objects."""
    return any(hasattr(given, name) for name in ("__array_interface__", "__array__", "__dlpack__"))


def rows_of_arrays(given: Any, schema: Schema) -> _mgi.Batch | _mgi.RowStructs:
    """What `send` gets: row structs where a structured array lies as the schema's do, else columns.

    `given` is a mapping of 1-D arrays, a structured array, or one 1-D array for a schema of one
    column.
    """
    if not isinstance(given, Mapping):
        given = _array(given, None)
        structs = _row_structs(given, schema) if given.dtype.names is not None else None
        if structs is not None:
            return structs
    return batch_of_arrays(given, schema)


def batch_of_arrays(given: Any, schema: Schema | None) -> _mgi.Batch:
    """Columns over arrays; `schema` None takes the arrays' own types."""
    from mgi.schema import Schema

    columns = _columns(given, schema)
    if not columns and schema is None:
        raise InvalidArgument("an empty mapping is no table: it has no column")
    if schema is None:
        schema = Schema(
            [
                (name, type_of_dtype(array.dtype, name), _nulls(array) is not None)
                for name, array in columns.items()
            ]
        )
    _check_names(columns, schema)
    lengths = {name: len(array) for name, array in columns.items()}
    first, rows = next(iter(lengths.items()))
    for name, length in lengths.items():
        if length != rows:
            raise InvalidArgument(
                f"column '{name}' has {length} values and column '{first}' {rows}: "
                "all columns of a batch are of one length"
            )
    widths = schema._native.widths()
    buffers = [
        _buffers(columns[field.name], field.name, field.type, width)
        for field, width in zip(schema, widths, strict=True)
    ]
    return _mgi.Batch.make(schema._native, rows, buffers)


def _columns(given: Any, schema: Schema | None) -> dict[str, Any]:
    """The arrays by column."""
    if isinstance(given, Mapping):
        return {name: _array(values, name) for name, values in given.items()}
    array = _array(given, None)
    if array.dtype.names is not None:
        return {name: array[name] for name in array.dtype.names}
    if schema is not None and len(schema) == 1:
        return {schema.names[0]: array}
    wanted = f"{len(schema)} columns" if schema is not None else "a table"
    raise InvalidArgument(
        f"one array for {wanted}: give a mapping of names to arrays, or a structured array"
    )


def _array(given: Any, column: str | None) -> Any:
    numpy = _numpy()
    what = "the array" if column is None else f"column '{column}'"
    if not isinstance(given, numpy.ndarray):
        if not is_array_like(given):
            raise InvalidArgument(f"{what} is a {type(given).__name__}, not a NumPy array")
        given = numpy.asarray(given)
    if given.ndim != 1:
        raise InvalidArgument(f"{what} has {given.ndim} dimensions: a column has one")
    return given


def _nulls(array: Any) -> Any:
    """Which values are nulls, as a mask has it or as NaT says; None where none is."""
    numpy = _numpy()
    nulls = None
    if isinstance(array, numpy.ma.MaskedArray) and numpy.ma.is_masked(array):
        nulls = numpy.ma.getmaskarray(array)
    if array.dtype.kind in "Mm":
        missing = numpy.isnat(numpy.ma.getdata(array))
        nulls = missing if nulls is None else nulls | missing
    return nulls if nulls is not None and nulls.any() else None


def _check_names(columns: Mapping[str, Any], schema: Schema) -> None:
    missing = [name for name in schema.names if name not in columns]
    unknown = [str(name) for name in columns if name not in schema.names]
    if missing or unknown:
        problems = []
        if missing:
            problems.append(f"there is no array for column {', '.join(map(repr, missing))}")
        if unknown:
            problems.append(f"the schema has no column {', '.join(map(repr, unknown))}")
        raise InvalidArgument(f"{' and '.join(problems)}; the schema is {schema._native.text()}")


def _row_structs(array: Any, schema: Schema) -> _mgi.RowStructs | None:
    """The array's memory as it is, if it lies as the schema's row structs do."""
    numpy = _numpy()
    if isinstance(array, numpy.ma.MaskedArray) or not array.flags.c_contiguous:
        return None
    if any(kind in ("string", "binary") for kind in schema.types):
        return None
    if any(array.dtype[name].kind in "Mm" for name in array.dtype.names):
        return None  # NaT is a null, which structs do not know
    wanted = row_dtype(schema)
    mine = array.dtype
    if mine.names != wanted.names or mine.itemsize != wanted.itemsize:
        return None
    for name in mine.names:
        kind, wanted_kind = mine[name], wanted[name]
        bytes_alike = wanted_kind.kind == "V" and kind.kind in "SV"
        alike = kind == wanted_kind or (bytes_alike and kind.itemsize == wanted_kind.itemsize)
        if not alike or mine.fields[name][1] != wanted.fields[name][1]:  # type: ignore[index]
            return None
    return _mgi.RowStructs.make(_bytes(array), mine.itemsize, len(array))


def _bytes(array: Any) -> Any:
    """A contiguous array's memory; an array of no bytes has none to share."""
    numpy = _numpy()
    return array.view(numpy.uint8) if array.nbytes else b""


def _buffers(array: Any, column: str, kind: str, width: int) -> tuple[Any, Any]:
    """Values and validity of a column as objects with the buffer protocol."""
    numpy = _numpy()
    nulls = _nulls(array)
    validity = None if nulls is None else numpy.packbits(~nulls, bitorder="little")
    array = numpy.ma.getdata(array)
    if nulls is not None and array.dtype.kind in "Mm":
        array = numpy.where(nulls, numpy.zeros(1, array.dtype), array)
    array = _values(array, column, dtype_of_field(column, kind, width), kind)
    if kind == "bool":
        return numpy.packbits(array, bitorder="little"), validity
    return _bytes(numpy.ascontiguousarray(array)), validity


def _values(array: Any, column: str, wanted: np.dtype[Any], kind: str) -> Any:
    """The values as the column wants them: copied only where they lie in another way."""
    numpy = _numpy()
    if kind == "date32[day]" and array.dtype == "M8[D]":
        days = array.view("i8")
        if len(days) and not (-(2**31) <= days.min() <= days.max() < 2**31):
            raise InvalidArgument(f"column '{column}' holds a date that date32 cannot")
        return days.astype(wanted)
    if wanted.kind == "V":
        fits = array.dtype.kind in "SV" and array.dtype.itemsize == wanted.itemsize
    else:
        alike = array.dtype.kind == wanted.kind and array.dtype.itemsize == wanted.itemsize
        fits = alike and (wanted.kind not in "Mm" or array.dtype == wanted)
    if not fits:
        raise InvalidArgument(
            f"column '{column}' is {kind}, but its array's dtype is {array.dtype}: "
            f"convert it, e.g. with astype({wanted.str[1:]!r})"
        )
    if wanted.kind != "V" and not array.dtype.isnative:
        return array.astype(array.dtype.newbyteorder("="))
    return numpy.asarray(array)


def array_of_column(batch: _mgi.Batch, index: int, column: str, kind: str, width: int) -> Any:
    """A received column: a read-only array over the batch's own memory.

    Bits of bool columns are spread to bytes, a copy. A column with nulls is a masked array.
    """
    numpy = _numpy()
    dtype = dtype_of_field(column, kind, width)
    rows = batch.rows
    if rows == 0:
        return numpy.empty(0, dtype)
    buffer, shift = batch.values(index)
    spread = kind in ("bool", "null")
    array = _bits(buffer, shift, rows) if spread else numpy.frombuffer(buffer, dtype, rows)
    validity = batch.validity(index)
    if validity is None:
        return array
    valid = _bits(*validity, rows)
    return array if valid.all() else numpy.ma.MaskedArray(array, mask=~valid)


def _bits(buffer: Any, shift: int, rows: int) -> Any:
    numpy = _numpy()
    bits = numpy.unpackbits(numpy.frombuffer(buffer, numpy.uint8), bitorder="little")
    return bits[shift : shift + rows].astype(bool)


assert sys.byteorder == "little", "MGI runs on little-endian machines"
