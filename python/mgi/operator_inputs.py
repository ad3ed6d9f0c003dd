"""The tables that operators are given: on which endpoints they are, in which memory they lie."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from mgi import _mgi
from mgi.allocators import GpuAllocator, checked, holding
from mgi.endpoint import Endpoint
from mgi.errors import InvalidArgument, NotFound
from mgi.gpu_arrays import check_writable
from mgi.gpu_streams import CallStreams
from mgi.gpu_table import gpu_tables_of, one_of
from mgi.runtime import Runtime, _whole
from mgi.table import as_table, is_table

#: The place of an endpoint that is another process', as the compiled module has it.
ELSEWHERE = 2**32 - 2

_NO_OPERATORS = (
    "the {} on GPUs, and this installation of MGI has no operators for GPUs: it was built without "
    "nvcc. With CUDA 13's nvcc on PATH (or CUDACXX naming it) install it again: from a clone "
    "'MGI_CUDA=1 tools/setup.sh', else 'pip install "
    "--config-settings=cmake.define.MGI_BUILD_CUDA=ON .'. Or {}"
)


@dataclasses.dataclass
class Caller:
    """What the caller has on GPUs: streams to work behind, and who provides memory."""

    streams: CallStreams
    allocator: GpuAllocator | None

    @classmethod
    def of(cls, stream: Any, allocator: GpuAllocator | None) -> Caller:
        return cls(CallStreams(stream), checked(allocator, "allocator"))


@dataclasses.dataclass
class Inputs:
    """What an operator is given on each side: a table for each endpoint, or one to be dealt out."""

    sides: list[list[Any] | Any]
    devices: list[str]
    """Of each endpoint, as of :meth:`Runtime.create_endpoint`."""
    on_gpus: bool = False
    """The results are there; what lies on the host is copied."""
    at_gpus: bool = False
    """All lies on the host, as the results, and the endpoints are on GPUs."""
    handles: dict[int, int] = dataclasses.field(default_factory=dict)
    """By GPU the stream to work behind."""
    caller: Caller | None = None

    def options(self, runtime: Runtime) -> dict[str, Any]:
        """Those that work on GPUs has beside the others."""
        if self.caller is None:
            return {}
        allocator = self.caller.allocator
        if allocator is None:
            allocator = runtime._gpu_allocator
        return {
            "gpu_streams": self.handles,
            # A call that Ctrl-C has left behind still uses them.
            "gpu_stream_owners": self.caller.streams.keep,
            # Results give memory back in the streams.
            "gpu_allocator": holding(allocator, self.caller.streams.keep),
        }

    def out(self, out: Any, pairs: Sequence[tuple[int, int]]) -> dict[str, Any]:
        """The option for buffers of the caller's."""
        if out is None:
            return {}
        if not self.on_gpus or self.caller is None:
            raise InvalidArgument("out is for tables in GPU memory; the results are on the host")
        given = [out] if is_table(out) else list(out)
        if len(given) != len(pairs):
            raise InvalidArgument(f"out has {len(given)} tables for {len(pairs)} endpoints")
        buffers = []
        for index, (buffer, (_, place)) in enumerate(zip(given, pairs, strict=True)):
            if buffer is None and place == ELSEWHERE:
                buffers.append(_mgi.GpuTable.empty())
                continue
            # What still fills it has ended when this returns: it would undo what the call writes.
            found = gpu_tables_of(buffer)
            if found is None:
                raise InvalidArgument(f"out[{index}] is in the host's memory: give arrays on GPUs")
            check_writable(buffer, f"out[{index}]")
            buffers.append(one_of(found))
        return {"gpu_out": buffers}

    def function(self, name: str) -> Callable[..., Any]:
        """The operator over such tables."""
        if self.at_gpus:
            return getattr(_mgi, f"{name}_on_gpus")
        return getattr(_mgi, f"gpu_{name}" if self.on_gpus else name)

    def dealt(self, pairs: Sequence[tuple[int, int]]) -> list[list[Any]]:
        """For each side a table for each endpoint; one's rows go to this process' own."""
        own = [place != ELSEWHERE for _, place in pairs]
        nothing = (_mgi.GpuTable if self.on_gpus else _mgi.Table).empty()
        dealt = []
        for side in self.sides:
            if isinstance(side, list):
                tables = [nothing if table is None else table for table in side]
            else:
                rows = iter(side.deal(sum(own)))
                tables = [next(rows) if mine else nothing for mine in own]
            if self.on_gpus:
                places = zip(tables, self.devices, strict=True)
                tables = [_on_its_gpu(table, device) for table, device in places]
            dealt.append(tables)
        return dealt


def _on_its_gpu(table: _mgi.Table | _mgi.GpuTable, device: str) -> _mgi.GpuTable:
    if isinstance(table, _mgi.GpuTable):
        return table
    return _mgi.GpuTable.copy_of(table, int(device.removeprefix("cuda:")))


def inputs_of(endpoints: int | Sequence[Endpoint] | None, caller: Caller, **sides: Any) -> Inputs:
    """The tables of each side, by the argument's name.

    A side that is one table has as many endpoints as the other, where that is a list.
    """
    count = _count(endpoints)
    lengths = {what: _length(side, what) for what, side in sides.items()}
    lists = {what: length for what, length in lengths.items() if length is not None}
    for what, length in lists.items():
        if count is not None and length != count:
            raise InvalidArgument(
                f"{what} is a list of {length} for {count} endpoints: give one table for "
                "each, or one table alone, whose rows are dealt out"
            )
    if len(set(lists.values())) > 1:
        (one, first), (other, second) = lists.items()
        raise InvalidArgument(
            f"{one} is a list of {first} tables and {other} one of {second}: give equally many"
        )
    count = count or next(iter(lists.values()), None)
    elsewhere = _elsewhere(count, endpoints)
    found = {what: _gpu_side(side, caller.streams) for what, side in sides.items()}
    if any(side is not None for side in found.values()):
        inputs = _on_gpus(count, endpoints, elsewhere, sides, found)
        tables = [table for side in found.values() for table in side or [] if table is not None]
        gpus = {table.gpu for table in tables}
    else:
        inputs = _on_host(count, elsewhere, sides)
        gpus = _gpus_of(endpoints, elsewhere)
        if not gpus:
            return inputs
        inputs.at_gpus = True
    if not _mgi.gpu_operators:
        what, instead = (
            ("tables are", "copy the tables to the host, with mgi.GpuTable(table).to_arrow()")
            if inputs.on_gpus
            else ("endpoints are", "create endpoints on CPU devices")
        )
        raise NotFound(_NO_OPERATORS.format(what, instead))
    inputs.handles = caller.streams.handles(gpus)
    inputs.caller = caller
    return inputs


def _gpus_of(endpoints: int | Sequence[Endpoint] | None, elsewhere: list[bool]) -> set[int]:
    """The GPUs that all of this process' endpoints are on; none of them are where this is empty."""
    if not isinstance(endpoints, Sequence):
        return set()
    devices = [getattr(endpoint, "device", "") for endpoint in endpoints]
    own = {i: device for i, device in enumerate(devices) if not elsewhere[i]}
    if not any(device.startswith("cuda:") for device in own.values()):
        return set()
    for index, device in own.items():
        _check_gpu(index, device)
    return {int(device.removeprefix("cuda:")) for device in own.values()}


def _check_gpu(index: int, device: str) -> None:
    if not device.startswith("cuda:"):
        raise InvalidArgument(
            f"endpoint {index} is on {device}, and others are on GPUs, or tables are: give "
            "endpoints on GPUs alone, or copy the tables to the host with to_arrow()"
        )


def _count(endpoints: int | Sequence[Endpoint] | None) -> int | None:
    """The number of endpoints, where the argument says it."""
    if endpoints is None:
        return None
    if isinstance(endpoints, int) and not isinstance(endpoints, bool):
        return _whole("endpoints", endpoints, 1)
    if isinstance(endpoints, bool | str | Endpoint) or not isinstance(endpoints, Sequence):
        raise InvalidArgument(
            f"endpoints is {endpoints!r}: give their number, a list of them, or None"
        )
    if not endpoints:
        raise InvalidArgument("endpoints is empty: give at least one")
    return len(endpoints)


def _length(side: Any, what: str) -> int | None:
    """Of a list of tables; None for a table alone."""
    if is_table(side):
        return None
    if not isinstance(side, Sequence) or isinstance(side, str | bytes):
        raise InvalidArgument(
            f"{what} is a {type(side).__name__}: give a table (an object with "
            "__arrow_c_stream__ or __arrow_c_array__) or a list of tables"
        )
    if not side:
        raise InvalidArgument(f"{what} is empty: give at least one table")
    return len(side)


def _elsewhere(count: int | None, endpoints: int | Sequence[Endpoint] | None) -> list[bool]:
    """Whether each endpoint is another process'; empty where not even their number is known."""
    if isinstance(endpoints, Sequence):
        return [getattr(endpoint, "_place", 0) == ELSEWHERE for endpoint in endpoints]
    return [False] * (count or 0)


def _on_host(count: int | None, elsewhere: list[bool], sides: dict[str, Any]) -> Inputs:
    count = count or _mgi.usable_cores()
    elsewhere = elsewhere or [False] * count
    tables: list[list[Any] | Any] = []
    for side in sides.values():
        if is_table(side):
            tables.append(as_table(side))
            continue
        tables.append(
            [
                _mgi.Table.empty() if table is None and other else as_table(table)
                for table, other in zip(side, elsewhere, strict=True)
            ]
        )
    return Inputs(tables, ["cpu"] * count)


#: A side's tables on GPUs, None for each that lies on the host; the whole None where all do.
_Side = list[_mgi.GpuTable | None]


def _gpu_side(side: Any, streams: CallStreams) -> _Side | None:
    parts = [side] if is_table(side) else side
    found = [gpu_tables_of(table, streams=streams) for table in parts]
    tables = [None if here is None else one_of(here) for here in found]
    return tables if any(table is not None for table in tables) else None


def _on_gpus(
    count: int | None,
    endpoints: int | Sequence[Endpoint] | None,
    elsewhere: list[bool],
    sides: dict[str, Any],
    found: dict[str, _Side | None],
) -> Inputs:
    devices = _devices(count, endpoints, sides, found)
    others = elsewhere or [False] * len(devices)
    tables: list[list[Any] | Any] = []
    for what, given in sides.items():
        lone = is_table(given)
        side = found[what] or [None] * (1 if lone else len(given))
        at = side * len(devices) if lone else side
        for index, (table, device) in enumerate(zip(at, devices, strict=True)):
            if others[index]:
                continue
            if table is None:
                _check_gpu(index, device)
            elif f"cuda:{table.gpu}" != device:
                which = what if lone else f"{what}[{index}]"
                raise InvalidArgument(
                    f"{which} lies on cuda:{table.gpu}, and endpoint {index} is on {device}: give "
                    "tables where their endpoints are, a list with one for each"
                )
        if lone:
            tables.append(as_table(given) if side[0] is None else side[0])
            continue
        tables.append(
            [
                None if one is None and other else as_table(one) if there is None else there
                for one, there, other in zip(given, side, others, strict=True)
            ]
        )
    return Inputs(tables, devices, on_gpus=True)


def _devices(
    count: int | None,
    endpoints: int | Sequence[Endpoint] | None,
    sides: dict[str, Any],
    found: dict[str, _Side | None],
) -> list[str]:
    """The endpoints' devices: those of the tables, where no endpoints are given."""
    if isinstance(endpoints, Sequence):
        return [getattr(endpoint, "device", "") for endpoint in endpoints]
    lists = {
        what: side for what, side in found.items() if side is not None and not is_table(sides[what])
    }
    if lists:
        devices = []
        for index, tables in enumerate(zip(*lists.values(), strict=True)):
            gpus = [table.gpu for table in tables if table is not None]
            if not gpus:
                raise InvalidArgument(
                    f"{next(iter(lists))}[{index}] is in the host's memory, and nothing says on "
                    "which GPU its endpoint is: give endpoints, or copy it there with "
                    "mgi.GpuTable.from_host(table, 'cuda:0')"
                )
            devices.append(f"cuda:{gpus[0]}")
        return devices
    alone = next(side[0] for side in found.values() if side is not None)
    assert alone is not None
    return [f"cuda:{alone.gpu}"] * (count or 1)
