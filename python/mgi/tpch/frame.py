"""A table that is spread over endpoints: local steps by Polars, everything else by MGI."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

import mgi
from mgi.tpch.fixed import Fixed

Value = pl.Expr | Fixed | str


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
    own: range
    """The endpoints of this process."""
    options: dict[str, Any]
    """Of every call of MGI."""
    meet: Callable[[], None] = lambda: None
    """Waits until all processes call it."""
    steps: list[Step] = dataclasses.field(default_factory=list)
    """In the order in which they ran."""

    def run(
        self,
        step: Step,
        scales: Mapping[str, int],
        call: Callable[..., list[mgi.Table]],
    ) -> Frame:
        """An operator of MGI over all endpoints."""
        stats: dict[str, Any] = {}
        started = time.perf_counter()
        tables = call(endpoints=self.endpoints, runtime=self.runtime, stats=stats, **self.options)
        parts = [pl.DataFrame(tables[place]) for place in self.own]
        step.seconds = time.perf_counter() - started
        step.rows = sum(part.height for part in parts)
        step.bytes = int(stats["bytes"])
        self.steps.append(step)
        return Frame(self, self.spread([part.lazy() for part in parts]), scales, step)

    def spread(self, own: Sequence[Any]) -> list[Any]:
        """Own parts at their endpoints' places, None at others'."""
        parts: list[Any] = [None] * len(self.endpoints)
        parts[self.own.start : self.own.stop] = own
        return parts


class Frame:
    """Rows at each endpoint. Local steps are put together and run when MGI needs the rows.

    Decimals are whole numbers of their unit (:class:`Fixed`); `scales` says which columns are.
    """

    def __init__(
        self,
        cluster: Cluster,
        parts: list[pl.LazyFrame | None],
        scales: Mapping[str, int],
        step: Step,
    ) -> None:
        self.cluster, self.parts, self.scales, self.step = cluster, parts, dict(scales), step

    def where(self, *conditions: pl.Expr) -> Frame:
        """Rows for which all of these hold."""
        return self.local(lambda part: part.filter(*conditions))

    def select(self, *names: str, **values: Value) -> Frame:
        """These columns, and these values under their names."""
        scales = {name: self.scales[name] for name in names if name in self.scales}
        expressions: list[pl.Expr] = [pl.col(name) for name in names]
        for name, value in values.items():
            if isinstance(value, str):
                if value in self.scales:
                    scales[name] = self.scales[value]
                value = pl.col(value)
            if isinstance(value, Fixed):
                scales[name] = value.scale
                value = value.expr
            expressions.append(value.alias(name))
        return self.local(lambda part: part.select(expressions), scales)

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
        mine, others = self.rows(), other.rows()
        keys = [on] if isinstance(on, str) else list(on)
        text = ", ".join(key if isinstance(key, str) else " = ".join(key) for key in keys)
        scales = self.scales if how in ("semi", "anti") else {**other.scales, **self.scales}
        return self.cluster.run(
            Step("join", f"{how} on {text}", [mine.step, others.step]),
            scales,
            lambda **where: mgi.join(
                mine.parts,
                others.parts,
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
        rows, only = (
            frame.local(lambda part: part.with_columns(pl.lit(0).alias(one)))
            for frame in (self, other)
        )
        # A left join: its left rows never move.
        joined = rows.join(only, one, how="left", broadcast=True)
        return joined.local(lambda part: part.drop(one))

    def group_by(
        self, *keys: str, few: bool = False, **aggregates: tuple[str, str | None]
    ) -> Frame:
        """MGI's group-by; ``total=("sum", "price")`` and the like.

        Without keys all rows are one group. With `few` groups each endpoint folds its own rows
        first, so that next to nothing moves, and adds decimals up in 128 bits; those of many groups
        are added up in 64, and MGI raises an error where one does not fit.
        """
        source, scales = self, {key: self.scales[key] for key in keys if key in self.scales}
        for name, (function, column) in aggregates.items():
            if column in self.scales and function in ("sum", "min", "max", "first"):
                scales[name] = self.scales[column]
        by = list(keys) or ["all rows"]
        wanted = [(how, column, name) for name, (how, column) in aggregates.items()]
        if few or not keys:
            folds = [self._fold(name, *how) for name, how in aggregates.items()]
            # Without keys a row also where there are none, as in SQL.
            source = source.local(
                lambda part: (
                    part.group_by(by).agg(folds)
                    if keys
                    else part.select(pl.lit(0).alias(by[0]), *folds)
                ),
                scales,
            )
            wanted = [(_MERGED[how], name, name) for how, _, name in wanted]
        rows = source.rows()
        result = self.cluster.run(
            Step("group_by", ", ".join(keys) or "all rows", [rows.step]),
            scales,
            lambda **where: mgi.group_by(rows.parts, by, wanted, **where),
        )
        return result if keys else result.local(lambda part: part.drop(by))

    def sort(self, *by: str | tuple[str, str], limit: int | None = None) -> Frame:
        """MGI's sort; with a `limit` each endpoint's first rows come to one that sorts them."""
        if limit is None:
            rows = self.rows()
            text = ", ".join(key if isinstance(key, str) else " ".join(key) for key in by)
            return self.cluster.run(
                Step("sort", text, [rows.step]),
                self.scales,
                lambda **where: mgi.sort(rows.parts, list(by), **where),
            )
        names = [key if isinstance(key, str) else key[0] for key in by]
        down = [not isinstance(key, str) and key[1] == "desc" for key in by]

        def first(part: pl.LazyFrame) -> pl.LazyFrame:
            return part.sort(names, descending=down).head(limit)

        return self.local(first).gather().local(first)

    def gather(self) -> Frame:
        """All rows at the first endpoint."""
        if len(self.parts) == 1:
            return self
        to = "the first endpoint"
        rows = self.local(lambda part: part.with_columns(pl.lit(0).alias(to))).rows()
        gathered = self.cluster.run(
            Step("exchange", f"to {to}", [rows.step]),
            self.scales,
            lambda **where: mgi.exchange(rows.parts, to, hash="modulo", **where),
        )
        return gathered.local(lambda part: part.drop(to))

    def rows(self) -> Frame:
        """Runs the local steps: what MGI takes."""
        step = Step("local", "Polars", [self.step])
        started = time.perf_counter()
        own = pl.collect_all([part.lazy() for part in self.parts if part is not None])
        step.seconds = time.perf_counter() - started
        step.rows = sum(part.height for part in own)
        self.cluster.steps.append(step)
        return Frame(self.cluster, self.cluster.spread(own), self.scales, step)

    def local(
        self,
        work: Callable[[pl.LazyFrame], pl.LazyFrame],
        scales: Mapping[str, int] | None = None,
    ) -> Frame:
        """Does this to the rows of each endpoint; `scales` are those of what comes out."""
        parts = [None if part is None else work(part.lazy()) for part in self.parts]
        return Frame(self.cluster, parts, self.scales if scales is None else scales, self.step)

    def _fold(self, name: str, function: str, column: str | None) -> pl.Expr:
        """An endpoint's own share of an aggregate; null where it has no rows."""
        if function == "count":
            rows = pl.len() if column is None else pl.col(column).count()
            return rows.cast(pl.Int64).alias(name)
        value = pl.col(column)
        if function == "sum" and column in self.scales:
            value = value.cast(pl.Int128).sum().cast(_WIDE)
        else:
            value = getattr(value, function)()
        return pl.when(pl.len() > 0).then(value).alias(name)


#: Whole numbers of 128 bits.
_WIDE = pl.Decimal(38, 0)
#: How what endpoints have folded is folded once more.
_MERGED = {"sum": "sum", "count": "sum", "min": "min", "max": "max", "first": "first"}
