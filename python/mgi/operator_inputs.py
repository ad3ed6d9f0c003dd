"""The tables that operators are given: on which endpoints they are, in which memory they lie."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

from mgi import _mgi
from mgi.allocators import GpuAllocator, checked, holding
from mgi.endpoint import Endpoint
from mgi.errors import InvalidArgument, NotFound
from mgi.gpu_streams import CallStreams
from mgi.gpu_table import gpu_tables_of, one_of
from mgi.runtime import Runtime, _whole
from mgi.table import as_table, is_table

#: The place of an endpoint that is another process', as the compiled module has it.
ELSEWHERE = 2**32 - 2

_NO_OPERATORS = (
    "the tables are in a GPU's memory, and this installation of MGI has no operators for GPUs: it "
    "was built without nvcc. With CUDA 13's nvcc on PATH (or CUDACXX naming it) install it again: "
    "from a clone 'MGI_CUDA=1 tools/setup.sh', else 'pip install "
    "--config-settings=cmake.define.MGI_BUILD_CUDA=ON .'. Or copy the tables to the host, with "
    "mgi.GpuTable(table).to_arrow()"
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
    handles: dict[int, int] = dataclasses.field(default_factory=dict)
    """By GPU the stream to work behind."""
    caller: Caller | None = None

    def options(self, runtime: Runtime) -> dict[str, Any]:
        """Those that tables on GPUs have beside the others."""
        if not self.on_gpus or self.caller is None:
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

    def function(self, name: str) -> Callable[..., Any]:
        """The operator over such tables."""
        return getattr(_mgi, f"gpu_{name}" if self.on_gpus else name)

    def dealt(self, pairs: Sequence[tuple[int, int]]) -> list[list[Any]]:
        """For each side a table for each endpoint; one's rows go to this process' own."""
        own = [place != ELSEWHERE for _, place in pairs]
        nothing = (_mgi.GpuTable if self.on_gpus else _mgi.Table).empty()
        dealt = []
        for side in self.sides:
            if isinstance(side, list):
                dealt.append([nothing if table is None else table for table in side])
                continue
            rows = iter(side.deal(sum(own)))
            dealt.append([next(rows) if mine else nothing for mine in own])
        return dealt


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
    if all(side is None for side in found.values()):
        return _on_host(count, elsewhere, sides)
    inputs = _on_gpus(count, endpoints, elsewhere, sides, found)
    tables = [table for side in found.values() for table in side or [] if table is not None]
    inputs.handles = caller.streams.handles({table.gpu for table in tables})
    inputs.caller = caller
    return inputs


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
    count = count or len(os.sched_getaffinity(0))
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
    for what, tables in found.items():
        where = _places_on_host(what, sides[what], tables, elsewhere)
        if where:
            raise InvalidArgument(
                f"{where} in the host's memory, and others on GPUs: copy it there with "
                "mgi.GpuTable.from_host(table, 'cuda:0'), or the others to the host with to_arrow()"
            )
    if not _mgi.gpu_operators:
        raise NotFound(_NO_OPERATORS)
    devices = _devices(count, endpoints, sides, found)
    others = elsewhere or [False] * len(devices)
    tables: list[list[Any] | Any] = []
    for what, side in found.items():
        assert side is not None
        lone = is_table(sides[what])
        at = side * len(devices) if lone else side
        for index, (table, device) in enumerate(zip(at, devices, strict=True)):
            if table is not None and not others[index] and f"cuda:{table.gpu}" != device:
                which = what if lone else f"{what}[{index}]"
                raise InvalidArgument(
                    f"{which} lies on cuda:{table.gpu}, and endpoint {index} is on {device}: give "
                    "tables where their endpoints are, a list with one for each"
                )
        tables.append(side[0] if lone else side)
    return Inputs(tables, devices, on_gpus=True)


def _places_on_host(what: str, side: Any, tables: _Side | None, elsewhere: list[bool]) -> str:
    """What of a side is on the host: "" for nothing."""
    if tables is None:
        return f"{what} is" if is_table(side) else f"{what} are"
    if is_table(side):
        return ""
    missing = [
        f"{what}[{i}]"
        for i, table in enumerate(tables)
        if table is None and not (side[i] is None and elsewhere[i])
    ]
    return f"{', '.join(missing)} is" if missing else ""


def _devices(
    count: int | None,
    endpoints: int | Sequence[Endpoint] | None,
    sides: dict[str, Any],
    found: dict[str, _Side | None],
) -> list[str]:
    """The endpoints' devices: those of the tables, where no endpoints are given."""
    if isinstance(endpoints, Sequence):
        return [getattr(endpoint, "device", "") for endpoint in endpoints]
    for what, side in found.items():
        if side is not None and not is_table(sides[what]):
            return [f"cuda:{table.gpu}" for table in side if table is not None]
    alone = next(side[0] for side in found.values() if side is not None)
    assert alone is not None
    return [f"cuda:{alone.gpu}"] * (count or 1)
