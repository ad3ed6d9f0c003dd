"""Rows in memory: what comes out of channels and operators, and what may go in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from mgi import _mgi, arrays
from mgi.errors import InvalidArgument
from mgi.gpu_table import gpu_tables_of
from mgi.rows import Rows
from mgi.schema import Schema

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

TableLike: TypeAlias = Any
"""An object with ``__arrow_c_stream__`` or ``__arrow_c_array__``, or a mapping of NumPy arrays.

In a GPU's memory one with ``__arrow_c_device_array__`` or ``__arrow_c_device_stream__``, or a
mapping of arrays there (CuPy, PyTorch, Numba)."""

BatchLike: TypeAlias = Any
"""What a table may be, a NumPy structured array, or one array for a channel of one column."""

_INTERFACES = (
    "__arrow_c_stream__",
    "__arrow_c_array__",
    "__arrow_c_device_array__",
    "__arrow_c_device_stream__",
)


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise ImportError(
            "to_arrow() needs pyarrow: pip install pyarrow. Polars, DuckDB and others read the "
            "object itself, through Arrow's PyCapsule interface"
        ) from error
    return pyarrow


class RecordBatch(Rows):
    """Received rows, in place: a read-only view of memory that stays as long as anybody uses it.

    Hand it to Arrow libraries as it is (``pyarrow.record_batch(b)``, ``polars.DataFrame(b)``), or
    read it as NumPy arrays. Strings come as the channel's schema has them, those of a schema in
    MGI's own words as Arrow's ``string_view``.
    """

    __slots__ = ()
    _native: _mgi.Batch

    def to_numpy(self, columns: Sequence[str] | None = None) -> dict[str, np.ndarray[Any, Any]]:
        """Fixed-width columns as arrays over the batch's own memory; `columns` chooses some.

        bool columns are copied (Arrow stores bits). Columns that hold nulls come as masked arrays,
        date32 as days since 1970 in int32, times of day as integers, float16 as float32, decimal128
        and fixed_size_binary as dtype ``V``.
        Raises :class:`InvalidArgument` for a string or binary column.
        """
        schema = self.schema
        names = schema.names if columns is None else list(columns)
        widths = schema._native.widths()
        result = {}
        for name in names:
            index = schema._native.index_of(name)
            kind = schema[index].type
            result[name] = arrays.array_of_column(self._native, index, name, kind, widths[index])
        return result

    def strings(self, column: str) -> list[Any]:
        """Values of a string (``str``) or binary (``bytes``) column; None for a null."""
        return self._native.strings(self.schema._native.index_of(column))

    def to_arrow(self) -> pa.RecordBatch:
        """The batch as pyarrow's, copied only where Arrow stores a column otherwise."""
        return _pyarrow().record_batch(self)

    def __arrow_c_schema__(self) -> object:
        """Arrow's PyCapsule interface."""
        return self._native.capsules()[0]

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Arrow's PyCapsule interface; the batch comes as it is, whatever schema is requested."""
        return self._native.capsules()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow's PyCapsule interface: in several batches where one cannot hold all rows."""
        return _mgi.Table.of_batch(self._native).capsule()


class Table(Rows):
    """Rows of one schema in a number of batches: one endpoint's part of a result.

    Arrow libraries take it as it is: ``polars.DataFrame(table)``, ``pyarrow.table(table)``, and
    DuckDB queries over ``table.to_arrow()``.
    """

    __slots__ = ()
    _native: _mgi.Table

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self._native.rows()

    def batches(self) -> Iterator[RecordBatch]:
        """The batches the table consists of."""
        return (RecordBatch(batch) for batch in self._native.batches())

    def to_arrow(self) -> pa.Table:
        """The table as pyarrow's, copied only where Arrow stores a column otherwise."""
        return _pyarrow().table(self)

    def __arrow_c_schema__(self) -> object:
        """Arrow's PyCapsule interface."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow's PyCapsule interface; the table comes as it is, whatever schema is requested."""
        return self._native.capsule()


def is_table(given: Any) -> bool:
    """Whether this is one table rather than a list of tables."""
    return isinstance(given, Mapping) or any(hasattr(given, name) for name in _INTERFACES)


def _refuse_pointers(given: Any) -> None:
    """Polars exports columns of Python objects as the bytes of pointers to them."""
    if type(given).__module__.partition(".")[0] != "polars":
        return
    for name, dtype in getattr(given, "schema", {}).items():
        if str(dtype) == "Object":
            raise InvalidArgument(
                f"column '{name}' is Polars' Object: it holds pointers to this process' objects, "
                "which mean nothing elsewhere; convert it or leave it out"
            )


def as_table(given: TableLike) -> _mgi.Table:
    """A table of anything that is one."""
    _refuse_pointers(given)
    if isinstance(given, Table):
        return given._native
    if isinstance(given, RecordBatch):
        return _mgi.Table.of_batch(given._native)
    if hasattr(given, "__arrow_c_stream__"):
        return _mgi.Table.from_arrow(given)
    if hasattr(given, "__arrow_c_array__"):
        return _mgi.Table.of_batch(_mgi.Batch.from_arrow(given))
    if isinstance(given, Mapping) or getattr(getattr(given, "dtype", None), "names", None):
        return _mgi.Table.of_batch(arrays.batch_of_arrays(given, None))
    raise InvalidArgument(
        f"a {type(given).__name__} is no table: give an object with __arrow_c_stream__ or "
        "__arrow_c_array__ (pyarrow, Polars, DuckDB results), or a mapping of names to NumPy arrays"
    )


def as_rows(given: BatchLike, schema: Schema) -> list[_mgi.Batch | _mgi.RowStructs]:
    """What `send` gets, for a channel of this schema."""
    _refuse_pointers(given)
    if isinstance(given, RecordBatch):
        return [given._native]
    if isinstance(given, Table):
        return _or_empty(given._native, schema)
    on_gpu = gpu_tables_of(given, schema)
    if on_gpu is not None:
        return [table.to_host() for table in on_gpu]
    if hasattr(given, "__arrow_c_array__"):
        return [_mgi.Batch.from_arrow(given)]
    if hasattr(given, "__arrow_c_stream__"):
        return _or_empty(_mgi.Table.from_arrow(given), schema)
    if isinstance(given, Mapping) or arrays.is_array_like(given):
        return [arrays.rows_of_arrays(given, schema)]
    raise InvalidArgument(
        f"a {type(given).__name__} cannot be sent: give an object with __arrow_c_array__ or "
        "__arrow_c_stream__ (pyarrow, Polars, DuckDB results), a mapping of names to NumPy arrays, "
        "or a NumPy structured array"
    )


def _or_empty(table: _mgi.Table, schema: Schema) -> list[_mgi.Batch | _mgi.RowStructs]:
    """A table's batches; one without any is checked here, since nothing else will."""
    batches = list(table.batches())
    theirs = Schema._of(table.schema)
    if not batches and (theirs.names, theirs.types) != (schema.names, schema.types):
        raise InvalidArgument(
            f"the table's columns ({theirs._native.text()}) are not the channel's "
            f"({schema._native.text()})"
        )
    return list(batches)
