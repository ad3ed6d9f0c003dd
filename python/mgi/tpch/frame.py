"""A table that is spread over endpoints: local steps by their rows, everything else by MGI."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

import mgi
from mgi.tpch import cpu_rows, flow
from mgi.tpch.cpu_rows import CpuRows
from mgi.tpch.expr import Expr, col, literal
from mgi.tpch.fixed import Fixed
from mgi.tpch.flow import Flow, FlowRows

Value = Expr | Fixed | str


@dataclasses.dataclass
class Step:
    """A node of a query's plan, and what it took in this process."""

    kind: str
    """``read``, ``local``, ``join``, ``group_by``, ``sort`` or ``exchange``."""
    says: str
    inputs: list[Step] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    rows: int = 0
    """That came out of it here."""
    bytes: int = 0
    """That went through channels."""


@dataclasses.dataclass
class Cluster:
    """Where a query runs, and what it has done so far."""

    runtime: mgi.Runtime
    endpoints: list[mgi.Endpoint]
    """On CPUs, one for each part of the tables."""
    own: range
    """Those of this process, by their place."""
    options: dict[str, Any]
    """Of every call of MGI."""
    meet: Callable[[], None] = lambda: None
    """Waits until all processes call it."""
    gpu_endpoints: list[mgi.Endpoint] | None = None
    """On GPUs, as many, where those have the tables; what is small comes to the CPUs."""
    gpus: list[int] = dataclasses.field(default_factory=list)
    """N of ``cuda:N`` of each of its own."""
    flow: Flow | None = None
    """To consumers that have room, where queries ask for it."""
    steps: list[Step] = dataclasses.field(default_factory=list)
    """In the order in which they ran."""

    def run(
        self,
        step: Step,
        result: Frame,
        *inputs: Frame,
        call: Callable[..., Any],
        means: Mapping[str, pl.DataType] | None = None,
    ) -> Frame:
        """An operator of MGI over all endpoints; `result` says what its columns are.

        `means` of columns on GPUs; None: what columns of these names meant.
        """
        stats: dict[str, Any] = {}
        on_gpu = any(frame.on_gpu for frame in inputs)
        where = self.gpu_endpoints if on_gpu else self.endpoints
        options = dict(self.options)
        if self.gpus and not on_gpu:  # few rows, for which no more threads are to wake
            options["groups"] = 1
        tables = [
            self.spread([part.table_for_gpus if on_gpu else part.table for part in frame.own])
            for frame in inputs
        ]
        started = time.perf_counter()
        found = call(*tables, endpoints=where, runtime=self.runtime, stats=stats, **options)
        mine = [found[place] for place in self.own]
        if on_gpu:
            from mgi.tpch.gpu_rows import GpuRows

            if means is None:
                means = {}
                for frame in inputs:
                    means = frame.means | means
            own = [
                GpuRows.of(table, gpu, means) for table, gpu in zip(mine, self.gpus, strict=True)
            ]
        else:
            own = [CpuRows.of(table) for table in mine]
        step.seconds = time.perf_counter() - started
        step.rows = sum(part.height for part in own)
        step.bytes = int(stats["bytes"])
        self.steps.append(step)
        return dataclasses.replace(result, own=own, step=step)

    def spread(self, own: Sequence[Any]) -> list[Any]:
        """Own parts at their endpoints' places, None at others'."""
        parts: list[Any] = [None] * len(self.endpoints)
        parts[self.own.start : self.own.stop] = own
        return parts


@dataclasses.dataclass
class Frame:
    """Rows at each endpoint. Local steps are put together and run when MGI needs the rows.

    Decimals are whole numbers of their unit (:class:`Fixed`); `scales` says which columns are.
    """

    cluster: Cluster
    own: list[Any]
    """The rows of each endpoint of this process."""
    scales: dict[str, int]
    step: Step
    gathered: bool = False
    """All rows are at the first endpoint."""

    @property
    def on_gpu(self) -> bool:
        """Where the rows are."""
        return any(part.on_gpu for part in self.own)

    @property
    def means(self) -> dict[str, pl.DataType]:
        """What numbers on GPUs stand for, by the column's name."""
        return self.own[0].meanings() if self.on_gpu else {}

    @property
    def flows(self) -> bool:
        """Consumers take the rows."""
        return any(isinstance(part, FlowRows) for part in self.own)

    def where(self, *conditions: Expr) -> Frame:
        """Rows for which all of these hold."""
        return self._with([part.where(conditions) for part in self.own])

    def select(self, *names: str, **values: Value) -> Frame:
        """These columns, and these values under their names."""
        scales = {name: self.scales[name] for name in names if name in self.scales}
        expressions = {name: col(name) for name in names}
        for name, value in values.items():
            if isinstance(value, str):
                if value in self.scales:
                    scales[name] = self.scales[value]
                value = col(value)
            if isinstance(value, Fixed):
                scales[name] = value.scale
                value = value.expr
            expressions[name] = value
        return self._with([part.select(expressions) for part in self.own], scales)

    def balanced(self) -> Frame:
        """Where the cluster has a flow, rows go to its consumers, CPUs and GPUs, as each has room.

        The consumers do what is to be done to the rows, which must end with few groups.
        """
        if self.cluster.flow is None:
            return self
        return self._with([FlowRows(self.cluster.flow, part) for part in self.own])

    def join(
        self,
        other: Frame,
        on: str | Sequence[str | tuple[str, str]],
        how: str = "inner",
        left: Sequence[str] | None = None,
        right: Sequence[str] | None = None,
        broadcast: bool | None = None,
    ) -> Frame:
        """MGI's join; `left` and `right` name the columns that the result keeps."""
        keys = [on] if isinstance(on, str) else list(on)
        pairs = [(key, key) if isinstance(key, str) else key for key in keys]
        mine = self._only(left, [pair[0] for pair in pairs]).rows()
        others = other._only(right, [pair[1] for pair in pairs]).rows()
        text = ", ".join(key if isinstance(key, str) else " = ".join(key) for key in keys)
        if mine.on_gpu and others.on_gpu:
            for one, two in pairs:
                if mine.means.get(one) != others.means.get(two):
                    raise mgi.InvalidArgument(f"join on {text}: the keys number other texts")
        scales = self.scales if how in ("semi", "anti") else {**other.scales, **self.scales}
        return self.cluster.run(
            Step("join", f"{how} on {text}", [mine.step, others.step]),
            dataclasses.replace(mine, scales=scales, gathered=False),
            mine,
            others,
            call=lambda one, two, **where: mgi.join(
                one,
                two,
                keys,
                how,
                left_columns=left,
                right_columns=right,
                broadcast=broadcast,
                **where,
            ),
        )

    def with_scalar(self, other: Frame) -> Frame:
        """Each row next to the only one of `other`, as SQL has scalar subqueries."""
        one = "the only row"
        rows, only = (frame._and(one, literal(0)) for frame in (self, other))
        # Its left rows never move.
        joined = rows.join(only, one, broadcast=True)
        return joined._without(one)

    def group_by(
        self, *keys: str, few: bool = False, **aggregates: tuple[str, str | None]
    ) -> Frame:
        """MGI's group-by; ``total=("sum", "price")`` and the like.

        Without keys all rows are one group. With `few` groups each endpoint folds its own rows,
        and the first one what comes of them, with decimals in 128 bits; those of many groups
        are added up in 64, and MGI raises an error where one does not fit.
        """
        scales = {key: self.scales[key] for key in keys if key in self.scales}
        for name, (function, column) in aggregates.items():
            if column in self.scales and function in ("sum", "min", "max", "first"):
                scales[name] = self.scales[column]
        wanted = [(how, column, name) for name, (how, column) in aggregates.items()]
        folded = None
        if few or not keys:
            folded = [part.fold(keys, aggregates, set(self.scales)) for part in self.own]
        if folded is not None and None not in folded:
            return self._with(folded, scales)._merged(keys, aggregates)
        rows = self.rows()
        same = {name: name for name in keys}
        same |= {n: str(c) for n, (how, c) in aggregates.items() if how in ("min", "max", "first")}
        return self.cluster.run(
            Step("group_by", ", ".join(keys), [rows.step]),
            dataclasses.replace(rows, scales=scales, gathered=False),
            rows,
            means={name: rows.means[of] for name, of in same.items() if of in rows.means},
            call=lambda tables, **where: mgi.group_by(tables, list(keys), wanted, **where),
        )

    def _merged(self, keys: Sequence[str], aggregates: Mapping[str, tuple[str, Any]]) -> Frame:
        """What endpoints have folded, folded once more at the first one."""
        rows, one, by = self.rows(), "all rows", list(keys)
        if len(self.cluster.endpoints) == 1 and not self.flows:
            return rows
        if not keys:  # at other endpoints are none
            rows, by = rows._and(one, literal(0)), [one]
        gathered = rows.gather()
        folds = {name: (_MERGED[how], name) for name, (how, _) in aggregates.items()}
        result = gathered._with([part.fold(by, folds, set(self.scales)) for part in gathered.own])
        return result if keys else result._without(one)

    def sort(self, *by: str | tuple[str, str], limit: int | None = None) -> Frame:
        """MGI's sort; with a `limit` each endpoint's first rows come to one that sorts them."""
        names = [key if isinstance(key, str) else key[0] for key in by]
        down = [not isinstance(key, str) and key[1] == "desc" for key in by]
        if limit is None:
            rows = self.rows()
            alone = rows.gathered or len(self.cluster.endpoints) == 1
            if alone and not rows.on_gpu:
                return rows.local(lambda part: part.sort(names, descending=down))
            text = ", ".join(key if isinstance(key, str) else " ".join(key) for key in by)
            return self.cluster.run(
                Step("sort", text, [rows.step]),
                dataclasses.replace(rows, gathered=False),
                rows,
                call=lambda tables, **where: mgi.sort(tables, list(by), **where),
            )

        def first(frame: Frame) -> Frame:
            return frame._with([part.first(names, down, limit) for part in frame.own])

        found = first(self).rows()
        return found if len(self.cluster.endpoints) == 1 else first(found.gather())

    def gather(self) -> Frame:
        """All rows at the first endpoint."""
        if len(self.cluster.endpoints) == 1 or self.gathered:
            return self
        to = "the first endpoint"
        rows = self.rows()._and(to, literal(0)).rows()
        gathered = self.cluster.run(
            Step("exchange", f"to {to}", [rows.step]),
            dataclasses.replace(rows, gathered=True),
            rows,
            call=lambda tables, **where: mgi.exchange(tables, to, hash="modulo", **where),
        )
        return gathered._without(to)

    def rows(self) -> Frame:
        """Runs the local steps: what MGI takes."""
        if all(part.ready for part in self.own):
            return self
        step = Step("local", "CuPy" if self.on_gpu else "Polars", [self.step])
        started = time.perf_counter()
        own: list[Any]
        if self.flows:
            own = list(flow.run(self.own))
            shares = self.own[0].flow.shares.items()
            step.kind, step.bytes = "exchange", self.own[0].flow.bytes
            step.says = "to who has room: " + ", ".join(f"{who} {rows:,}" for who, rows in shares)
        elif self.on_gpu:
            from mgi.tpch import gpu_rows

            own = gpu_rows.run(self.own)
        else:
            own = list(cpu_rows.run(self.own))
        step.seconds = time.perf_counter() - started
        step.rows = sum(part.height for part in own)
        self.cluster.steps.append(step)
        return dataclasses.replace(self, own=own, step=step)

    def on_host(self) -> Frame:
        """The same in the host's memory."""
        return self._with([part.on_host() for part in self.own])

    def local(self, work: Callable[[pl.LazyFrame], pl.LazyFrame]) -> Frame:
        """Has Polars do this to the rows of each endpoint, in the host's memory."""
        return self._with([CpuRows(work(part.on_host().rows)) for part in self.own])

    def _only(self, names: Sequence[str] | None, keys: Sequence[str]) -> Frame:
        """Of all columns these, and keys; None: all."""
        if names is None:
            return self
        return self.select(*keys, *(name for name in names if name not in keys))

    def _and(self, name: str, value: Expr) -> Frame:
        """A column more."""
        return self.select(*self.own[0].names, **{name: value})

    def _without(self, name: str) -> Frame:
        """A column less."""
        return self.select(*(other for other in self.own[0].names if other != name))

    def _with(self, own: Sequence[Any], scales: Mapping[str, int] | None = None) -> Frame:
        kept = self.scales if scales is None else dict(scales)
        return dataclasses.replace(self, own=list(own), scales=kept)


#: How what endpoints have folded is folded once more.
_MERGED = {"sum": "sum", "count": "sum", "min": "min", "max": "max", "first": "first"}
