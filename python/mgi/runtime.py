"""The way in: devices, endpoints and channels of this process, alone or in a cluster."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from collections.abc import Sequence
from typing import Any, Literal

from mgi import _mgi
from mgi.allocators import GpuAllocator, checked
from mgi.channel import Channel
from mgi.closing import Closing
from mgi.cluster import cluster_options
from mgi.declining import declining
from mgi.endpoint import Endpoint, pair_of, pairs_of
from mgi.errors import Deleted, InvalidArgument, NotFound
from mgi.kernels import KernelGroups
from mgi.routing import Routing
from mgi.schema import SchemaLike, as_schema

_numbers = itertools.count(1)


class Runtime(Closing):
    """MGI in one process, alone (:meth:`local`) or in a cluster (:meth:`connect`).

    Safe to use from several threads.

    When it is closed or dropped, every channel fails with :class:`Deleted`; batches and tables that
    were received stay as they are. As a context manager it is closed at the end of the block.
    """

    def __init__(self, native: _mgi.Runtime, gpu_allocator: GpuAllocator | None = None) -> None:
        self._native = native
        self._number = next(_numbers)
        self._devices = native.devices()
        self._gpu_allocator = gpu_allocator

    @classmethod
    def local(
        cls,
        cpu_devices: int | None = None,
        memory_limit: int | None = None,
        pin: bool = True,
        gpu_allocator: GpuAllocator | None = None,
    ) -> Runtime:
        """A runtime of this process alone; it needs no service and opens no port.

        `cpu_devices` divides the process's cores into so many devices (None: one for each NUMA
        node); `memory_limit` is the most bytes that all channels take together (None: half of the
        machine's memory); `pin` pins kernel threads to their device's cores. `gpu_allocator`
        provides the GPUs' memory for channels and operators, but for what other processes or NICs
        reach: :func:`cupy_allocator`, :func:`torch_allocator`, :func:`rmm_allocator` or a
        :class:`GpuAllocator` of the caller's (None: MGI takes it from the driver).
        """
        devices = _whole("cpu_devices", cpu_devices, 1)
        limit = _whole("memory_limit", memory_limit, 1)
        native = _mgi.Runtime.local(devices, limit, bool(pin), checked(gpu_allocator))
        return cls(native, gpu_allocator)

    @classmethod
    def connect(
        cls,
        agent: str | os.PathLike[str] | None = None,
        name: str | None = None,
        timeout: float = 10.0,
        cpu_devices: int | None = None,
        memory_limit: int | None = None,
        pin: bool = True,
        gpu_allocator: GpuAllocator | None = None,
    ) -> Runtime:
        """A runtime of this process in a cluster, joined through this server's agent.

        Endpoints and channels have the cluster's ids, and its controller plans channels and says
        when one has failed. What there is goes on while agent or controller are away; calls that
        need them wait. Channels may have endpoints of other processes (:meth:`gather_endpoints`).

        `agent` is the path of the agent's socket (None: ``$MGI_AGENT``, this user's, the system's);
        `name` names this application in logs and status (None: the program's); `timeout` is the
        longest that a call waits, in seconds. The rest as for :meth:`local`.
        """
        devices = _whole("cpu_devices", cpu_devices, 1)
        limit = _whole("memory_limit", memory_limit, 1)
        cluster = cluster_options(agent, name, timeout)
        native = _mgi.Runtime.connect(*cluster, devices, limit, bool(pin), checked(gpu_allocator))
        return cls(native, gpu_allocator)

    @property
    def devices(self) -> list[dict[str, Any]]:
        """Where endpoints live: ``name``, ``cores``, ``memory_bytes``, ``numa_node`` of each."""
        return self._native.devices()

    def graph(self) -> dict[str, Any]:
        """The infrastructure graph: ``vertices`` and directed ``edges`` with their GB/s."""
        return self._native.graph()

    def create_endpoint(self, device: str | None = None) -> Endpoint:
        """An endpoint on a device (``"cpu:0"``), or on the first free one.

        ``"cuda"`` is a GPU, ``"cpu"`` a CPU device, None a GPU where there is one: the one with the
        fewest endpoints. Processes of a job share their server's GPUs out.
        """
        if device is not None and not isinstance(device, str):
            raise InvalidArgument(f"device is {device!r}: give a name such as 'cpu:0'")
        if device == "":
            raise InvalidArgument("device is '': give a name such as 'cpu:0', or None")
        number, place = self._native.create_endpoint(device or "")
        return Endpoint(number, self._devices[place]["name"], place, self._number)

    def delete_endpoint(self, endpoint: Endpoint) -> None:
        """Deletes an endpoint that no channel uses."""
        self._native.delete_endpoint(pair_of(endpoint, "endpoint", self._number))

    def gather_endpoints(self, mine: Sequence[Endpoint]) -> list[Endpoint]:
        """All endpoints of all processes of the job (:func:`mgi.job`), in the order of their ranks.

        Every process calls it with its own. Those of others have the device ``"elsewhere"``, and
        may be named in :meth:`create_channel`. Waits for the others as long as the `timeout` of
        :meth:`connect`; :class:`mgi.Timeout` names the ranks that have not come. What fails in one
        process raises in all.
        """
        with declining(self._native.decline_endpoints):
            given = pairs_of(mine, "mine", self._number)
        pairs = self._native.gather_endpoints(given)
        own = {endpoint.id: endpoint for endpoint in mine}
        return [
            own.get(number) or Endpoint(number, self._place(place), place, self._number)
            for number, place in pairs
        ]

    def _place(self, place: int) -> str:
        return self._devices[place]["name"] if place < len(self._devices) else "elsewhere"

    def create_channel(
        self,
        sources: Sequence[Endpoint],
        destinations: Sequence[Endpoint],
        schema: SchemaLike | None,
        routing: Routing,
        ordered: bool = False,
        by_reference: bool = True,
        layout: Literal["columns", "rows"] = "columns",
        segment_bytes: int | None = None,
        slots: int | None = None,
        credits: int | None = None,
        receive_limit: int | None = None,
        stall_limit: float | None = None,
        sorters: int = 0,
        name: str | None = None,
        segment_rows: int | None = None,
        gone_limit: float | None = None,
        weight: float = 1.0,
        tile_rows: int | None = None,
        max_groups: int | None = None,
        expected_bytes: int | None = None,
        relay_gpus: bool = True,
        relay_host: bool = True,
        text_bytes_per_row: int | None = None,
    ) -> Channel:
        """A channel from sources to destinations; all its memory is allocated here.

        With endpoints of other processes (:meth:`gather_endpoints`), every process that has some of
        them calls this with the same arguments. It returns once all have the channel, or raises in
        all: :class:`mgi.Timeout` names the ranks that have not come, :class:`InvalidArgument` the
        argument that differs. With endpoints on several servers rows go over the NICs that
        ``MGI_ADDRESSES`` names in each process, ``eth0@cpu:0`` for one that is a device's own.

        :param schema: the columns (see :class:`Schema`); None for raw messages (``send_bytes``).
        :param routing: :class:`Partition`, :class:`Broadcast`, :class:`Direct` or :class:`Balance`.
        :param ordered: keep each source's order; with Broadcast one order at all destinations.
        :param by_reference: False moves rows through receive pools, also where memory is shared.
        :param layout: how rows lie in a segment; ``"rows"`` needs fixed-width columns, no nulls.
        :param segment_bytes: size of a segment; `segment_rows`, its rows, wins over it.
        :param slots: segments a lane owns, rounded up to a power of two.
        :param credits: by copy, receive segments for each pair of source and destination.
        :param receive_limit: bytes that received batches may take beyond the channel's pools while
            you keep them (None: what the runtime has left); beyond it `recv` raises
            :class:`OutOfMemory`. With 0 a batch that is kept keeps a segment of its sender's, which
            waits once it has no other.
        :param stall_limit: fails the channel when no row moved for so many seconds.
        :param gone_limit: the same when who is awaited is gone; 5 seconds if None.
        :param sorters: sorter groups of each source, for kernels that send row by row.
        :param name: for errors and logs.
        :param weight: share of a NIC that several channels of this process want: of channels with
            weights 3 and 1 the first has three bytes for each of the other's; what one does not use
            the others have. From 0.001 to 1000.
        :param tile_rows: rows that a kernel's group deals out at a time; fewer take less of a GPU's
            shared memory (:attr:`KernelGroups.shared_bytes`).
        :param max_groups: most groups that the kernels of an endpoint have.
        :param expected_bytes: payload that all sources send together, where you know it: segments
            on GPUs whose size is left to MGI take no more memory than that fills.
        :param relay_gpus: segments between two GPUs of a process may go through a third one, where
            that adds capacity; `relay_host`, through the host's memory. Between GPUs that are no
            peers the host's is used all the same if nothing else is left.
        :param text_bytes_per_row: characters that a row's texts of more than 12 bytes have
            together: 32 a column if None. Segments have room for so many in each row; without
            `segment_bytes` and `segment_rows` up to 4 MiB, or for one such row. A row of more than
            a segment's room (2 GiB at most) is :class:`Refused`. A lane has `slots` segments, and
            each group of a source (`max_groups`) keeps as much beside them.
        """

        def decline(code: str, text: str) -> None:
            pairs = pairs_of([*sources, *destinations], "endpoints", self._number)
            self._native.decline_channel(pairs, code, text)

        with declining(decline):
            if not isinstance(routing, Routing):
                raise InvalidArgument(
                    f"routing is {routing!r}: give mgi.Partition(key), mgi.Range(by, splitters), "
                    "mgi.Broadcast(), mgi.Direct() or mgi.Balance()"
                )
            options = {
                "name": name,
                "ordered": bool(ordered),
                "by_reference": bool(by_reference),
                "layout": layout,
                "segment_bytes": _whole("segment_bytes", segment_bytes, 1),
                "segment_rows": _whole("segment_rows", segment_rows, 1),
                "slots": _whole("slots", slots, 1),
                "credits": _whole("credits", credits, 1),
                "receive_limit": (
                    None if receive_limit is None else _whole("receive_limit", receive_limit, 0)
                ),
                "sorters": _whole("sorters", sorters, 0),
                "tile_rows": _whole("tile_rows", tile_rows, 1),
                "max_groups": _whole("max_groups", max_groups, 1),
                "expected_bytes": _whole("expected_bytes", expected_bytes, 1),
                "text_bytes_per_row": _whole("text_bytes_per_row", text_bytes_per_row, 1),
                "weight": _weight(weight),
                "relay_gpus": bool(relay_gpus),
                "relay_host": bool(relay_host),
                "stall_limit": _milliseconds("stall_limit", stall_limit),
                "gone_limit": _milliseconds("gone_limit", gone_limit),
            }
            spec = self._native.channel_spec(
                pairs_of(sources, "sources", self._number),
                pairs_of(destinations, "destinations", self._number),
                None if schema is None else as_schema(schema)._native,
                routing._name,
                list(routing._keys),
                routing._hash,
                list(routing._owners),
                list(routing._order),
                routing._splitters,
                options,
            )
        native = self._native.create_channel(spec)
        return Channel(native, self, list(sources), list(destinations))

    def attach(
        self,
        endpoint: Endpoint,
        channels: Sequence[Channel],
        blocks: int = 1,
        threads: int = 256,
        shared_bytes: int = 0,
    ) -> KernelGroups:
        """Groups for kernels on a GPU that you start yourself, with CuPy, Numba or anything else.

        :param endpoint: whose rows the kernels send and receive; on a GPU.
        :param channels: those that the kernels are given. They fail when a kernel ends without
            having flushed, and stay until it has ended.
        :param blocks: thread blocks of all these kernels together, which are all resident at once.
        :param threads: of a block: a multiple of 32.
        :param shared_bytes: shared memory of each block that is the kernel's own.
        """
        if not channels or not all(isinstance(channel, Channel) for channel in channels):
            raise InvalidArgument(
                "channels: give a list of the channels that the kernels are given"
            )
        native = _mgi.attach(
            self._native,
            pair_of(endpoint, "endpoint", self._number),
            _whole("blocks", blocks, 1),
            _whole("threads", threads, 1),
            [channel._native for channel in channels],
            _whole("shared_bytes", shared_bytes, 0),
        )
        return KernelGroups(native, endpoint.device)

    def delete_channel(self, channel: Channel) -> None:
        """Fails the channel with :class:`Deleted` and forgets it; received batches stay.

        With endpoints of other processes this one leaves it: it goes on for the others if its
        sources have flushed and its destinations have taken everything, else it fails everywhere.
        """
        if not isinstance(channel, Channel):
            raise InvalidArgument(f"{channel!r} is no channel")
        self._native.delete_channel(channel._native)

    def _forget(self, channel: Channel) -> None:
        """Deletes a channel that may be deleted already."""
        with contextlib.suppress(NotFound, Deleted):
            self._native.delete_channel(channel._native)

    def close(self) -> None:
        """Ends the runtime: its channels fail with :class:`Deleted`."""
        self._native.close()

    def __repr__(self) -> str:
        return f"<mgi.Runtime on {', '.join(device['name'] for device in self._devices)}>"


def set_log_level(level: str) -> None:
    """Logging: ``trace``, ``debug``, ``info``, ``warn``, ``error`` or ``off``.

    The environment variable ``MGI_LOG`` sets it at the start; the default is ``warn``.
    """
    _mgi.set_log_level(level)


def _whole(what: str, value: int | None, least: int) -> int:
    """A whole number, 0 for None; `what` is the argument's name."""
    if value is None:
        return 0
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidArgument(f"{what} is {value!r}: give a whole number")
    number = value.__index__()
    if number < least:
        raise InvalidArgument(f"{what} is {number}: give {least} or more")
    return number


def _weight(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgument(f"weight is {value!r}: give a number from 0.001 to 1000")
    return float(value)


def _milliseconds(what: str, value: float | None) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InvalidArgument(f"{what} is {value!r}: give seconds, more than 0, or None")
    return max(round(value * 1000), 1)
