"""Tables in GPU memory: what operators on GPUs return, and what may go into them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mgi import _mgi, arrays, gpu_arrays
from mgi.errors import InvalidArgument, NotFound
from mgi.rows import Rows
from mgi.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from mgi.gpu_streams import CallStreams

#: DLPack's (code, bits) and the type string of bytes.
_BYTES = ((1, 8), "|u1")


class GpuArray:
    """Memory of a GPU as one array: ``cupy.from_dlpack(a)``, ``torch.from_dlpack(a)``,
    ``numba.cuda.as_cuda_array(a)``. Nothing is copied. It keeps the memory alive, and so does every
    array made of it.
    """

    __slots__ = ("_address", "_gpu", "_length", "_owner", "_type", "_type_string")

    def __init__(
        self,
        address: int,
        length: int,
        gpu: int,
        kind: tuple[tuple[int, int], str],
        owner: object,
    ) -> None:
        self._address = address if length else 0
        self._length = length
        self._gpu = gpu
        self._type, self._type_string = kind
        self._owner = owner

    @property
    def device(self) -> str:
        """Where it lies: ``cuda:0``."""
        return f"cuda:{self._gpu}"

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"<mgi.GpuArray of {self._length} {self._type_string[1:]} on {self.device}>"

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3; no stream has to be waited for."""
        return {
            "shape": (self._length,),
            "typestr": self._type_string,
            "data": (self._address, False),
            "strides": None,
            "stream": None,
            "version": 3,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's name of the GPU."""
        return gpu_arrays.CUDA, self._gpu

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """DLPack's capsule. The memory is complete, whatever stream it is used in."""
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the array is on {self.device}, and MGI does not copy it elsewhere")
        if copy:
            raise BufferError("MGI shares the array; copy it where it has come to")
        versioned = max_version is not None and max_version[0] >= 1
        return _mgi.dlpack_capsule(
            self._address, self._gpu, *self._type, self._length, self._owner, versioned
        )


class GpuColumn:
    """A column of a :class:`GpuTable`.

    Arrays know no nulls, and bool columns are bits. So a column without validity and of another
    type is an array itself (DLPack, ``__cuda_array_interface__``). Of the others take
    :attr:`values` and :attr:`validity`, the table as an Arrow device array, or
    :meth:`GpuTable.to_arrow`.
    """

    __slots__ = ("_index", "_table", "name", "nullable", "type")

    def __init__(self, table: _mgi.GpuTable, index: int, name: str, kind: str) -> None:
        self._table = table
        self._index = index
        self.name: str = name
        self.type: str = kind
        """As Arrow prints it."""
        self.nullable: bool = table.column(index)[1] != 0
        """Whether there is a validity bit for each row."""

    def _may_hold_nulls(self) -> bool:
        """As its schema says, which is the same for all parts of a result."""
        return self.nullable or bool(self._table.schema.fields()[self._index][2])

    @property
    def values(self) -> GpuArray:
        """The values, whatever is in the place of nulls.

        Of a bool column bytes of eight rows each, the lowest bit first; of dates and times
        the integers that they are; of decimals and fixed-size binaries their bytes, one row behind
        the other. Strings and binaries, which have none, raise :class:`InvalidArgument`.
        """
        address, _, offset = self._table.column(self._index)
        if self.type == "bool":
            return self._bits(address, offset)
        width = self._table.schema.widths()[self._index]
        if self.type.startswith(("decimal128", "fixed_size_binary")):
            begin = address + offset * width
            return GpuArray(begin, len(self) * width, self._table.gpu, _BYTES, self._table)
        plain = arrays.plain_type(self.type)
        if plain not in gpu_arrays.DLPACK_TYPES:
            raise InvalidArgument(
                f"column '{self.name}' is {self.type}, whose values are no array: use the table as "
                "an Arrow device array, or to_arrow()"
            )
        code = gpu_arrays.DLPACK_TYPES[plain]
        kind = (code, gpu_arrays.TYPE_STRINGS[plain])
        return GpuArray(
            address + offset * (code[1] // 8), len(self), self._table.gpu, kind, self._table
        )

    @property
    def validity(self) -> GpuArray | None:
        """Bytes of eight rows each, the lowest bit first: 1 is a value, 0 a null.

        None where every row has a value.
        """
        _, address, offset = self._table.column(self._index)
        return self._bits(address, offset) if address else None

    def _texts(self) -> tuple[GpuArray, int]:
        """A string column's offsets, one more than it has rows, and its characters' address."""
        address, _, offset = self._table.column(self._index)
        characters, width = self._table.characters(self._index)
        plain = f"int{8 * width}"
        kind = (gpu_arrays.DLPACK_TYPES[plain], gpu_arrays.TYPE_STRINGS[plain])
        begin = address + offset * width
        return GpuArray(begin, len(self) + 1, self._table.gpu, kind, self._table), characters

    def _bits(self, address: int, offset: int) -> GpuArray:
        if offset % 8:
            raise InvalidArgument(
                f"column '{self.name}' begins inside a byte of its bits: use the table as an Arrow "
                "device array, or to_arrow()"
            )
        return GpuArray(
            address + offset // 8, (len(self) + 7) // 8, self._table.gpu, _BYTES, self._table
        )

    def _array(self) -> GpuArray:
        if self.nullable:
            raise BufferError(
                f"column '{self.name}' may hold nulls, which arrays do not know: take its .values "
                "and .validity, or the table as an Arrow device array"
            )
        if self.type == "bool":
            raise BufferError(
                f"column '{self.name}' is bool, a bit a row: take its .values, bytes of eight rows "
                "each, or the table as an Arrow device array"
            )
        if arrays.plain_type(self.type) not in gpu_arrays.DLPACK_TYPES:
            raise BufferError(
                f"column '{self.name}' is {self.type}, which arrays do not know: use the table as "
                "an Arrow device array, or to_arrow()"
            )
        return self.values

    @property
    def device(self) -> str:
        """Where it lies: ``cuda:0``."""
        return f"cuda:{self._table.gpu}"

    def __len__(self) -> int:
        return self._table.rows

    def __repr__(self) -> str:
        return f"<mgi.GpuColumn '{self.name}' of {len(self)} {self.type} on {self.device}>"

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """As of :class:`GpuArray`."""
        try:
            return self._array().__cuda_array_interface__
        except BufferError as error:
            raise AttributeError(str(error)) from error

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's name of the GPU."""
        return gpu_arrays.CUDA, self._table.gpu

    def __dlpack__(self, **how: Any) -> object:
        """As of :class:`GpuArray`; BufferError for a column with validity, and for bool."""
        return self._array().__dlpack__(**how)


class GpuTable(Rows):
    """Rows of one schema in the memory of one GPU; complete on every stream.

    Columns come by name, ``table["total"]``, as :class:`GpuColumn`. Arrow libraries take the table
    as a device array (``__arrow_c_device_array__``); :meth:`to_arrow` copies it to the host.

    Made of a mapping of names to arrays on one GPU (CuPy, PyTorch, Numba: anything with DLPack or
    ``__cuda_array_interface__``) and columns of such tables, of any type and with nulls, or of an
    Arrow device array (cuDF). Nothing is copied, and the arrays are kept alive.
    """

    __slots__ = ()
    _native: _mgi.GpuTable

    def __init__(self, table: Any) -> None:
        super().__init__(gpu_table_of(table))

    @classmethod
    def _of(cls, native: _mgi.GpuTable) -> GpuTable:
        made = cls.__new__(cls)
        Rows.__init__(made, native)
        return made

    @classmethod
    def from_host(cls, table: Any, device: str = "cuda:0") -> GpuTable:
        """A copy of a host's table (pyarrow, Polars, NumPy arrays) in a GPU's memory.

        Arrow's ``string_view`` and ``binary_view`` come as ``string`` and ``binary``.
        """
        from mgi.table import as_table

        name, _, number = device.partition(":")
        if name != "cuda" or not number.isdigit():
            raise InvalidArgument(f"device is {device!r}: give a GPU, e.g. 'cuda:0'")
        _check_driver()
        return cls._of(_mgi.GpuTable.copy_of(as_table(table), int(number)))

    @property
    def device(self) -> str:
        """Where it lies: ``cuda:0``."""
        return f"cuda:{self._native.gpu}"

    @property
    def columns(self) -> dict[str, GpuColumn]:
        """The columns by name, in order."""
        return {name: self[name] for name in self.schema.names}

    def __getitem__(self, column: int | str) -> GpuColumn:
        index = self.schema._native.index_of(column) if isinstance(column, str) else column
        field = self.schema[index]
        return GpuColumn(self._native, index, field.name, field.type)

    def __iter__(self) -> Iterator[GpuColumn]:
        return iter(self.columns.values())

    def _text(self) -> str:
        return f"{super()._text()} on {self.device}"

    def to_arrow(self) -> pa.Table:
        """A copy in the host's memory, as pyarrow's."""
        from mgi.table import RecordBatch, _pyarrow

        batch = RecordBatch(self._native.to_host()).to_arrow()
        return _pyarrow().Table.from_batches([batch])

    def __arrow_c_schema__(self) -> object:
        """Arrow's PyCapsule interface."""
        return self._native.schema_capsule()

    def __arrow_c_device_array__(
        self, requested_schema: object = None, **how: Any
    ) -> tuple[object, object]:
        """Arrow's PyCapsule interface; the table comes as it is, whatever schema is requested."""
        unknown = [name for name, value in how.items() if value is not None]
        if unknown:
            raise NotImplementedError(f"__arrow_c_device_array__ knows no {', '.join(unknown)}")
        return self._native.schema_capsule(), self._native.capsule()


def _check_driver() -> None:
    if _mgi.gpus() == 0:
        raise NotFound(f"GPUs: {_mgi.gpu_absence()}")


def gpu_tables_of(
    given: Any, schema: Schema | None = None, streams: CallStreams | None = None
) -> list[_mgi.GpuTable] | None:
    """The tables on GPUs that this is; None where it lies in the host's memory.

    What fills them has ended, or `streams` are behind it. An Arrow object that has an interface for
    each is asked where it lies, if there is a GPU at all.
    """
    if isinstance(given, GpuTable):
        return [given._native]
    if isinstance(given, Mapping):
        if not any(gpu_arrays.is_gpu_array(values) for values in given.values()):
            return None
        _check_driver()
        if schema is None and any(isinstance(values, GpuColumn) for values in given.values()):
            return [_of_columns(given, streams)]
        return [gpu_arrays.table_of_arrays(given, schema, streams)]
    has_array = hasattr(given, "__arrow_c_device_array__")
    if has_array or hasattr(given, "__arrow_c_device_stream__"):
        host_too = hasattr(given, "__arrow_c_array__") or hasattr(given, "__arrow_c_stream__")
        if host_too and _mgi.gpus() == 0:
            return None
        if has_array:
            table = _mgi.GpuTable.from_arrow(given)
            if table is not None or host_too:
                return None if table is None else [table]
            raise InvalidArgument(
                f"a {type(given).__name__} in the host's memory has only Arrow's interface for "
                "devices: give one with __arrow_c_stream__ or __arrow_c_array__"
            )
        tables = None if host_too else _mgi.tables_from_device_stream(given)
        return tables if isinstance(tables, list) else None
    if schema is not None and gpu_arrays.is_gpu_array(given):
        _check_driver()
        return [gpu_arrays.table_of_arrays(given, schema)]
    return None


def _of_columns(given: Mapping[Any, Any], streams: CallStreams | None) -> _mgi.GpuTable:
    """Of tables' columns, which keep their types, and maybe arrays."""
    arrays = {name: one for name, one in given.items() if not isinstance(one, GpuColumn)}
    names = list(arrays)
    gpu = next(one._table.gpu for one in given.values() if isinstance(one, GpuColumn))
    table = gpu_arrays.table_of_arrays(arrays, None, streams) if arrays else _mgi.GpuTable.empty()
    columns = [
        (str(name), one._table, one._index)
        if isinstance(one, GpuColumn)
        else (str(name), table, names.index(name))
        for name, one in given.items()
    ]
    return _mgi.GpuTable.of_columns(gpu, columns)


def gpu_table_of(given: Any) -> _mgi.GpuTable:
    """The one table on a GPU that this is."""
    tables = gpu_tables_of(given)
    if tables is None:
        raise InvalidArgument(
            f"a {type(given).__name__} is no table in a GPU's memory: give a mapping of names to "
            "arrays of one GPU (CuPy, PyTorch, Numba), or an Arrow device array; "
            "mgi.GpuTable.from_host copies a host's table"
        )
    return one_of(tables)


def one_of(tables: list[_mgi.GpuTable]) -> _mgi.GpuTable:
    """The only one with rows, or an empty one."""
    full = [table for table in tables if table.rows] or tables[:1]
    if len(full) != 1:
        raise InvalidArgument(
            f"an Arrow stream on a GPU has {len(full)} batches, where a table there has one: "
            "combine them first"
        )
    return full[0]
