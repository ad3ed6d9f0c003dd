"""Arrays in GPU memory as columns: through DLPack or ``__cuda_array_interface__``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from mgi import _mgi
from mgi.arrays import plain_type
from mgi.errors import InvalidArgument

if TYPE_CHECKING:
    from mgi.gpu_streams import CallStreams
    from mgi.schema import Schema

#: DLPack's numbers of devices: the memory of a GPU, and managed memory.
CUDA, CUDA_MANAGED = 2, 13
_ON_GPU = (CUDA, CUDA_MANAGED)
_DEVICES = {1: "the host's memory", 3: "pinned memory of the host"}

#: Arrow's types by DLPack's (code, bits).
_DLPACK_TYPES = {
    (0, 8): "int8",
    (0, 16): "int16",
    (0, 32): "int32",
    (0, 64): "int64",
    (1, 8): "uint8",
    (1, 16): "uint16",
    (1, 32): "uint32",
    (1, 64): "uint64",
    (2, 32): "float",
    (2, 64): "double",
}
_DLPACK_CODES = ["int", "uint", "float", "handle", "bfloat", "complex", "bool"]
#: By Arrow's type, what goes the other way.
DLPACK_TYPES = {name: key for key, name in _DLPACK_TYPES.items()}

#: Arrow's types by the type strings of ``__cuda_array_interface__``.
_TYPE_STRINGS = {
    "i1": "int8",
    "i2": "int16",
    "i4": "int32",
    "i8": "int64",
    "u1": "uint8",
    "u2": "uint16",
    "u4": "uint32",
    "u8": "uint64",
    "f4": "float",
    "f8": "double",
}
TYPE_STRINGS = {
    name: ("|" if code[1] == "1" else "<") + code for code, name in _TYPE_STRINGS.items()
}


class GpuArray(NamedTuple):
    """A column's values, as somebody else holds them."""

    address: int
    length: int
    type: str
    """As Arrow prints it."""
    gpu: int | None
    """N of ``cuda:N``; None of an array without elements that does not say."""
    owner: object
    """Who keeps the memory."""


def is_gpu_array(given: Any) -> bool:
    """Whether this is an array in a GPU's memory."""
    device = getattr(given, "__dlpack_device__", None)
    if device is not None:
        return int(device()[0]) in _ON_GPU
    return hasattr(given, "__cuda_array_interface__")


def check_writable(table: Any, what: str) -> None:
    """Refuses arrays that say that they are for reading alone."""
    for name, array in table.items() if isinstance(table, Mapping) else ():
        interface = getattr(array, "__cuda_array_interface__", None)
        if interface is not None and interface["data"][1]:
            raise InvalidArgument(f"{what}: column '{name}' may not be written: it is read-only")


def gpu_array(given: Any, column: str, streams: CallStreams | None = None) -> GpuArray:
    """The array of a column; what fills it has ended when this returns.

    Where `streams` has one of its GPU, that one is behind it instead.

    DLPack comes first, since it says which streams are to wait; ``__cuda_array_interface__`` is for
    who has no other.
    """
    device = getattr(given, "__dlpack_device__", None)
    if device is None:
        return _of_interface(given, column, streams)
    kind, number = device()
    if int(kind) not in _ON_GPU:
        raise InvalidArgument(
            f"column '{column}' is in {_DEVICES.get(int(kind), 'the memory of another device')}, "
            "where a GPU's is needed"
        )
    return _of_dlpack(given, column, int(number), streams)


def _of_dlpack(given: Any, column: str, gpu: int, streams: CallStreams | None) -> GpuArray:
    # Its owner lets this stream wait for what fills the array. MGI's is none that others use.
    callers = streams.of(gpu, given) if streams is not None else None
    stream = _mgi.stream_of_gpu(gpu) if callers is None else callers

    def export() -> object:
        try:
            return given.__dlpack__(stream=stream, max_version=(1, 0))
        except TypeError:  # it knows DLPack as it was before version 1
            return given.__dlpack__(stream=stream)

    try:
        # What fills it is for CuPy and PyTorch in the current stream of the thread's GPU.
        capsule = _mgi.call_on_gpu(gpu, export)
    except BufferError as error:
        raise InvalidArgument(f"column '{column}' cannot be shared: {error}") from error
    tensor = _mgi.DlTensor.take(capsule)
    if callers is None:
        _mgi.wait_stream(gpu, stream)
    (kind, number), code, bits = tensor.device, tensor.code, tensor.bits
    if kind not in _ON_GPU:
        raise InvalidArgument(f"column '{column}' came in {_DEVICES.get(kind, 'no GPU memory')}")
    known = _DLPACK_TYPES.get((code, bits)) if tensor.lanes == 1 else None
    if known is None:
        name = _DLPACK_CODES[code] if code < len(_DLPACK_CODES) else f"code {code}"
        name = "bool" if name == "bool" else f"{name}{bits}"
        raise _no_type(column, name if tensor.lanes == 1 else f"{name}x{tensor.lanes}")
    strides = tensor.strides
    length = _length(column, tensor.shape, strides, 1)
    return GpuArray(tensor.address if length else 0, length, known, number, tensor)


def _of_interface(given: Any, column: str, streams: CallStreams | None) -> GpuArray:
    interface = getattr(given, "__cuda_array_interface__", None)
    if not isinstance(interface, Mapping):
        raise InvalidArgument(
            f"column '{column}' is a {type(given).__name__}, no array in a GPU's memory: give one "
            "with __dlpack__ or __cuda_array_interface__ (CuPy, PyTorch, Numba)"
        )
    try:
        version = int(interface["version"])
        shape = [int(size) for size in interface["shape"]]
        kind = str(interface["typestr"])
        address = int(interface["data"][0] or 0)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InvalidArgument(
            f"column '{column}': its __cuda_array_interface__ is incomplete ({error!r})"
        ) from error
    if version < 2:
        raise InvalidArgument(
            f"column '{column}': its __cuda_array_interface__ has version {version}, "
            "where 2 or 3 is needed"
        )
    if interface.get("mask") is not None:
        raise InvalidArgument(
            f"column '{column}' has a mask, which MGI does not read: give a column with nulls as "
            "an Arrow device array (cuDF)"
        )
    order, code = kind[:1], kind[1:]
    known = _TYPE_STRINGS.get(code)
    if known is None or (order == ">" and code[1] != "1"):
        raise _no_type(column, "bool" if code == "b1" else kind)
    strides = interface.get("strides")
    length = _length(column, shape, strides, int(code[1:]))
    gpu = None
    if length:
        gpu = _mgi.gpu_of_address(address)
        if gpu is None:
            raise InvalidArgument(
                f"column '{column}': its __cuda_array_interface__ names memory that is no GPU's"
            )
        callers = streams.of(gpu, given) if streams is not None else None
        _wait_for(interface.get("stream"), gpu, column, callers)
    return GpuArray(address if length else 0, length, known, gpu, given)


def _wait_for(stream: Any, gpu: int, column: str, callers: int | None) -> None:
    """Waits for the stream that the array may only be used behind, or has the caller's wait."""
    if stream is None:
        return
    if isinstance(stream, bool) or not isinstance(stream, int) or stream <= 0:
        raise InvalidArgument(
            f"column '{column}': its __cuda_array_interface__ names the stream {stream!r}; there "
            "are 1, 2, a stream's handle, or None"
        )
    if callers is None:
        _mgi.wait_stream(gpu, stream)
    elif callers != stream:
        _mgi.wait_in_stream(gpu, callers, stream)


def _length(column: str, shape: Any, strides: Any, step: int) -> int:
    """Number of elements; they lie behind each other, `step` apart as `strides` counts."""
    if len(shape) != 1:
        raise InvalidArgument(f"column '{column}' has {len(shape)} dimensions: a column has one")
    length = int(shape[0])
    if strides is not None and length > 1 and int(strides[0]) != step:
        raise InvalidArgument(
            f"column '{column}' has gaps between its elements (a stride of {int(strides[0])} where "
            f"{step} is contiguous): copy it first, e.g. with cupy.ascontiguousarray(x) or "
            "x.contiguous()"
        )
    return length


def _no_type(column: str, name: str) -> InvalidArgument:
    if name == "bool":
        return InvalidArgument(
            f"column '{column}' is bool, one byte a row, where Arrow has a bit: give "
            "x.view('uint8'), of a PyTorch tensor x.view(torch.uint8), or an Arrow device array"
        )
    return InvalidArgument(
        f"column '{column}' is {name}, which is no column type on a GPU; there are int8 to int64, "
        "uint8 to uint64, float32 and float64"
    )


def table_of_arrays(
    given: Any, schema: Schema | None, streams: CallStreams | None = None
) -> _mgi.GpuTable:
    """Columns over arrays of one GPU, nothing copied; `schema` None takes the arrays' own types.

    With `streams` as of :func:`gpu_array`.
    """
    from mgi.arrays import _check_names
    from mgi.schema import Schema

    if not isinstance(given, Mapping):
        if schema is None or len(schema) != 1:
            wanted = "a table" if schema is None else f"{len(schema)} columns"
            raise InvalidArgument(f"one array for {wanted}: give a mapping of names to arrays")
        given = {schema.names[0]: given}
    if not given:
        raise InvalidArgument("an empty mapping is no table: it has no column")
    _check_all_on_gpu(given)
    columns = {str(name): gpu_array(values, str(name), streams) for name, values in given.items()}
    _check_lengths(columns)
    gpu = _gpu_of(columns)
    if schema is None:
        schema = Schema([(name, array.type, False) for name, array in columns.items()])
    else:
        _check_names(columns, schema)
        _check_types(columns, schema)
    rows = len_of(columns)
    ordered = [(columns[name].address, columns[name].owner) for name in schema.names]
    return _mgi.GpuTable.make(schema._native, gpu, rows, ordered)


def len_of(columns: Mapping[str, GpuArray]) -> int:
    """Rows of columns that are equally long."""
    return next(iter(columns.values())).length


def _check_all_on_gpu(given: Mapping[Any, Any]) -> None:
    elsewhere = [str(name) for name, values in given.items() if not is_gpu_array(values)]
    if elsewhere:
        names = ", ".join(map(repr, elsewhere))
        raise InvalidArgument(
            f"column {names} is not in a GPU's memory, as others of the table are: copy it there "
            "first, e.g. with cupy.asarray(x) or x.cuda()"
        )


def _check_lengths(columns: Mapping[str, GpuArray]) -> None:
    first, rows = next((name, array.length) for name, array in columns.items())
    for name, array in columns.items():
        if array.length != rows:
            raise InvalidArgument(
                f"column '{name}' has {array.length} values and column '{first}' {rows}: "
                "all columns of a batch are of one length"
            )


def _gpu_of(columns: Mapping[str, GpuArray]) -> int:
    found: dict[int, str] = {}
    for name, array in columns.items():
        if array.gpu is not None:
            found.setdefault(array.gpu, name)
    if len(found) > 1:
        where = " and ".join(f"column '{name}' on cuda:{gpu}" for gpu, name in found.items())
        raise InvalidArgument(f"{where}: all columns of a table are on one GPU")
    return next(iter(found), 0)


def _check_types(columns: Mapping[str, GpuArray], schema: Schema) -> None:
    for field in schema:
        kind = columns[field.name].type
        # Dates and times come as the integers that they are.
        wanted = plain_type(field.type)
        if kind not in (field.type, wanted):
            raise InvalidArgument(
                f"column '{field.name}' is {field.type}, but its array is {kind}: convert it, e.g. "
                f"with astype({TYPE_STRINGS.get(wanted, wanted)!r})"
            )
