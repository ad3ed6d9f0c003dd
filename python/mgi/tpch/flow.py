"""A load-balancing flow: each consumer, a GPU or the cores, takes rows when it has room."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import polars as pl

import mgi
from mgi.tpch import cpu_rows
from mgi.tpch.cpu_rows import CpuRows
from mgi.tpch.expr import Expr

#: Rows that a consumer takes at once, and how many such parts each source has on their way.
SEGMENT_ROWS, SLOTS = 1 << 18, 8


@dataclasses.dataclass
class Consumer:
    """A taker of rows in this process."""

    endpoint: mgi.Endpoint
    gpu: int | None
    """N of the ``cuda:N`` that works for it; None: the endpoint's cores."""

    @property
    def device(self) -> str:
        """The device that folds the rows."""
        return self.endpoint.device if self.gpu is None else f"cuda:{self.gpu}"


@dataclasses.dataclass
class Flow:
    """From all endpoints with tables to all consumers of all processes."""

    runtime: mgi.Runtime
    sources: list[mgi.Endpoint]
    own_sources: list[mgi.Endpoint]
    destinations: list[mgi.Endpoint]
    consumers: list[Consumer]
    """Of this process."""
    patience: float
    shares: dict[str, int] = dataclasses.field(default_factory=dict)
    """Rows that each device took the last time."""
    bytes: int = 0
    """That the channel carried the last time."""


@dataclasses.dataclass
class FlowRows:
    """An endpoint's rows, which consumers take; what is to be done, they do to each part.

    `steps` are methods of rows, with their arguments.
    """

    flow: Flow
    rows: CpuRows
    steps: list[tuple[str, tuple[Any, ...]]] = dataclasses.field(default_factory=list)

    on_gpu, ready = False, False

    def _and(self, name: str, *arguments: Any) -> FlowRows:
        return dataclasses.replace(self, steps=[*self.steps, (name, arguments)])

    def where(self, conditions: Sequence[Expr]) -> FlowRows:
        """As of :class:`CpuRows`."""
        return self._and("where", conditions)

    def select(self, values: Mapping[str, Expr]) -> FlowRows:
        """As of :class:`CpuRows`."""
        return self._and("select", values)

    def fold(self, keys: Sequence[str], folds: Mapping[str, Any], exact: set[str]) -> FlowRows:
        """As of :class:`CpuRows`, of each part that a consumer takes."""
        return self._and("fold", keys, folds, exact)


def run(parts: Sequence[FlowRows]) -> list[CpuRows]:
    """What the process' consumers have folded, at its first endpoint; elsewhere nothing."""
    flow, steps = parts[0].flow, parts[0].steps
    tables = [part.rows.table for part in parts]
    kinds = tables[0].schema
    plain = [table.with_columns(pl.selectors.enum().to_physical()) for table in tables]
    channel = flow.runtime.create_channel(
        flow.sources,
        flow.destinations,
        plain[0].to_arrow().schema,
        mgi.Balance(),
        segment_rows=SEGMENT_ROWS,
        slots=SLOTS,
        stall_limit=flow.patience,
        name="lines to whoever has room",
    )
    with channel, ThreadPoolExecutor(len(tables) + len(flow.consumers)) as threads:
        sent = [
            threads.submit(_send, channel, source, table)
            for source, table in zip(flow.own_sources, plain, strict=True)
        ]
        taken = [
            threads.submit(_take, channel, consumer, kinds, steps) for consumer in flow.consumers
        ]
        # Consumers first: where one fails, it says why; the others still take all rows.
        found = [one.result() for one in taken]
        for one in sent:
            one.result()
        flow.bytes = int(channel.stats()["bytes"])
    flow.shares.clear()
    for consumer, (rows, _) in zip(flow.consumers, found, strict=True):
        flow.shares[consumer.device] = flow.shares.get(consumer.device, 0) + rows
    folded = [table for _, tables in found for table in tables]
    first = pl.concat(folded)
    return [CpuRows(first), *(CpuRows(first.clear()) for _ in parts[1:])]


def _send(channel: mgi.Channel, source: mgi.Endpoint, table: pl.DataFrame) -> None:
    try:
        channel.send(table, source)
    finally:
        channel.flush(source)


def _take(
    channel: mgi.Channel,
    consumer: Consumer,
    kinds: pl.Schema,
    steps: Sequence[tuple[str, tuple[Any, ...]]],
) -> tuple[int, list[pl.DataFrame]]:
    """Takes parts as long as there are any; returns the rows, and what was made of each part."""
    rows, made = 0, []
    try:
        made.append(_done(pl.DataFrame(schema=kinds), None, steps))
        for batch in channel.batches(consumer.endpoint):
            part = pl.DataFrame(batch).with_columns(
                pl.col(name).cat.to(kind) for name, kind in kinds.items() if kind == pl.Enum
            )
            made.append(_done(part, consumer.gpu, steps))
            rows += part.height
    except BaseException:
        for _ in channel.batches(consumer.endpoint):
            pass  # or else senders would wait for room
        raise
    return rows, made


def _done(
    part: pl.DataFrame, gpu: int | None, steps: Sequence[tuple[str, tuple[Any, ...]]]
) -> pl.DataFrame:
    rows: Any = CpuRows(part)
    work: Callable[[list[Any]], list[Any]] = cpu_rows.run
    if gpu is not None:
        from mgi.tpch import gpu_rows

        rows, work = gpu_rows.GpuRows.uploaded(part, gpu), gpu_rows.run
    for name, arguments in steps:
        # Keys that are not coded are folded on the host.
        rows = getattr(rows, name)(*arguments) or getattr(rows.on_host(), name)(*arguments)
    (done,) = work([rows])
    found = done.on_host().table
    return found.with_columns(pl.selectors.enum().cast(pl.String))
