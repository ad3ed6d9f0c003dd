"""Channels: data flows from source endpoints to destination endpoints."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mgi import _mgi
from mgi.endpoint import Endpoint, pair_of
from mgi.errors import InvalidArgument
from mgi.schema import Schema
from mgi.table import BatchLike, RecordBatch, as_rows

if TYPE_CHECKING:
    from mgi.runtime import Runtime


class Channel:
    """A channel; :meth:`Runtime.create_channel` makes them.

    Every call may be made from any thread, also at the same time, and none holds the GIL while it
    waits. Where a channel has one source (or destination) it need not be named. Times are in
    seconds; None waits for ever. Ctrl-C is seen within 50 ms; it fails the channel, so that calls
    in other threads end with :class:`Interrupted` instead of waiting for rows that never come.

    As a context manager it is deleted at the end of the block.
    """

    def __init__(
        self,
        native: _mgi.Channel,
        runtime: Runtime,
        sources: list[Endpoint],
        destinations: list[Endpoint],
    ) -> None:
        self._native = native
        self._runtime = runtime  # the channel ends with its runtime
        self._sources = sources
        self._destinations = destinations

    @property
    def id(self) -> int:
        """Unique in the runtime, never used twice; of a connected one, in its cluster."""
        return self._native.id

    @property
    def name(self) -> str:
        """As errors and logs call it."""
        return self._native.name

    @property
    def sources(self) -> list[Endpoint]:
        """The endpoints that send."""
        return list(self._sources)

    @property
    def destinations(self) -> list[Endpoint]:
        """The endpoints that receive."""
        return list(self._destinations)

    @functools.cached_property
    def schema(self) -> Schema:
        """The columns; of a channel without a schema one binary column, ``message``."""
        return Schema._of(self._native.schema)

    def send(
        self, batch: BatchLike, source: Endpoint | None = None, timeout: float | None = None
    ) -> int:
        """Sends rows by the channel's routing; returns how many were accepted.

        `batch` is anything with ``__arrow_c_array__`` or ``__arrow_c_stream__`` and the channel's
        columns, a mapping of names to NumPy arrays, one array for a channel of one column, or a
        structured array. Columns in a GPU's memory (CuPy, PyTorch, Numba arrays,
        :class:`GpuTable`) are copied to the host first: kernels send without that. Waits for room
        until every row is accepted. ``timeout=0`` never waits: a prefix of the rows is accepted and
        its length returned.

        Raises :class:`Timeout` when the time was up before all rows were accepted, :class:`Closed`
        after a flush, :class:`Refused` for a row that fits no segment, :class:`InvalidArgument` for
        other columns than the channel's, and the channel's failure. `rows_accepted` of the
        exception says how many rows went before.
        """
        return self._send(batch, source, None, timeout)

    def send_to(
        self,
        destination: Endpoint,
        batch: BatchLike,
        source: Endpoint | None = None,
        timeout: float | None = None,
    ) -> int:
        """Sends rows to one destination alone, whatever the channel's routing says of them.

        Else like :meth:`send`. On a Broadcast channel each call takes segments of its own, which
        all destinations give back: send many rows with a call, or in bulk by a Direct channel
        between the same endpoints. Raises :class:`InvalidArgument` on Balance channels and on
        channels with sorters, too.
        """
        to = pair_of(destination, "destination", self._runtime._number)
        return self._send(batch, source, to, timeout)

    def _send(
        self,
        batch: BatchLike,
        source: Endpoint | None,
        destination: tuple[int, int] | None,
        timeout: float | None,
    ) -> int:
        rows = as_rows(batch, self.schema)
        return self._native.send(rows, self._source(source), destination, timeout)

    def send_bytes(
        self,
        message: Any,
        source: Endpoint | None = None,
        destination: Endpoint | None = None,
        timeout: float | None = None,
    ) -> bool:
        """Sends one message (bytes, or anything with a buffer) on a channel without a schema.

        `destination` is as of :meth:`send_to`. Returns whether it was accepted, which only
        ``timeout=0`` leaves open; raises like :meth:`send`.
        """
        to = None
        if destination is not None:
            to = pair_of(destination, "destination", self._runtime._number)
        return self._native.send_bytes(message, self._source(source), to, timeout)

    def push(self, source: Endpoint | None = None) -> bool:
        """Publishes the rows in half-full segments, for low latency, as far as there is room.

        True when that is all of the source's rows: destinations in the same memory can see them,
        and movers take them to the others. Until then, call it again.
        """
        return self._native.push(self._source(source))

    def flush(self, source: Endpoint | None = None, timeout: float | None = None) -> None:
        """Says that the source sends no more; returns when its rows stand in the receive queues.

        Every source has to flush, also one that sent nothing, for the destinations to see the end.
        Raises :class:`Timeout` when the time is up; call it again to go on waiting.
        """
        self._native.flush(self._source(source), timeout)

    def recv(
        self, destination: Endpoint | None = None, timeout: float | None = None
    ) -> RecordBatch | None:
        """The next rows for a destination; None when there will be no more.

        The batch is a view of memory that stays while the batch or anything made of it does; the
        channel's `receive_limit` says how much can be kept. Raises :class:`Timeout` when nothing
        came in time, and :class:`OutOfMemory` beyond that limit (drop batches and call again).
        """
        batch = self._native.recv(self._destination(destination), timeout)
        return None if batch is None else RecordBatch(batch, self.schema)

    def batches(
        self, destination: Endpoint | None = None, timeout: float | None = None
    ) -> Iterator[RecordBatch]:
        """Receives until the end; `timeout` is for each batch."""
        while (batch := self.recv(destination, timeout)) is not None:
            yield batch

    def stats(self) -> dict[str, Any]:
        """What moved so far: rows, bytes and segments of the channel, of each lane and queue."""
        return self._native.stats()

    def plan(self) -> dict[str, Any]:
        """What the planner decided: sizes, and every managed vertex's forwarding table."""
        return self._native.plan()

    def delete(self) -> None:
        """Deletes the channel, as :meth:`Runtime.delete_channel` does."""
        self._runtime.delete_channel(self)

    def _source(self, endpoint: Endpoint | None) -> tuple[int, int]:
        return self._end(endpoint, self._sources, "source")

    def _destination(self, endpoint: Endpoint | None) -> tuple[int, int]:
        return self._end(endpoint, self._destinations, "destination")

    def _end(self, endpoint: Endpoint | None, ends: list[Endpoint], what: str) -> tuple[int, int]:
        if endpoint is None:
            if len(ends) != 1:
                raise InvalidArgument(
                    f"channel '{self.name}' has {len(ends)} {what}s: name one with {what}="
                )
            endpoint = ends[0]
        return pair_of(endpoint, what, self._runtime._number)

    def __enter__(self) -> Channel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._runtime._forget(self)

    def __repr__(self) -> str:
        return (
            f"<mgi.Channel '{self.name}' from {len(self._sources)} to "
            f"{len(self._destinations)} endpoints: {self.schema._native.text()}>"
        )
