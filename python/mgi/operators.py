"""Operators over tables that are spread over endpoints."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from mgi import _mgi
from mgi.allocators import GpuAllocator
from mgi.endpoint import Endpoint, pairs_of
from mgi.errors import InvalidArgument
from mgi.gpu_table import GpuTable
from mgi.operator_inputs import Caller, Inputs, inputs_of
from mgi.operator_turn import operator_turn
from mgi.routing import SortKeyLike, column_names, sort_keys
from mgi.runtime import Runtime, _milliseconds, _whole
from mgi.table import Table, TableLike


@dataclasses.dataclass
class _Place:
    """Where an operator runs."""

    runtime: Runtime
    pairs: list[tuple[int, int]]


def exchange(
    tables: Sequence[TableLike] | TableLike,
    key: str | Sequence[str],
    endpoints: int | Sequence[Endpoint] | None = None,
    runtime: Runtime | None = None,
    hash: str = "murmur3",
    by_reference: bool = True,
    groups: int | None = None,
    stats: dict[str, Any] | None = None,
    patience: float = 60.0,
    two_level: Literal["auto", "on", "off"] = "auto",
    stream: Any = None,
    allocator: GpuAllocator | None = None,
    receive_limit: int | None = None,
    spill_limit: int | None = None,
    out: Any = None,
) -> list[Table] | list[GpuTable]:
    """Moves every row to the endpoint that owns its key; returns one table per endpoint.

    :param tables: a list, table *i* lying at endpoint *i*, or one table, whose rows are dealt out
        evenly. A table is anything with ``__arrow_c_stream__`` or ``__arrow_c_array__`` (pyarrow,
        Polars, DuckDB results, results of these functions), or a mapping of NumPy arrays. Tables in
        GPU memory are mappings of arrays there (CuPy, PyTorch, Numba), Arrow device arrays (cuDF)
        or :class:`GpuTable`; see below.
    :param key: one column, or several with murmur3.
    :param endpoints: how many, or a list of `runtime`'s, also those that
        :meth:`Runtime.gather_endpoints` returns. None: one for each table of a list, else one for
        each core.
    :param runtime: None makes one for the time of the call.
    :param hash: ``"murmur3"``, or ``"modulo"`` for one integer column.
    :param by_reference: False copies rows through receive pools, also where memory is shared.
    :param groups: kernel groups of each endpoint; None divides the cores among the endpoints.
    :param stats: a dictionary to be filled with ``seconds`` (of the launches), ``call_seconds``
        (of the whole call in C++), ``rows``, ``bytes``, ``two_level``, ``channels``, ``plans``,
        ``graph``, and ``phases``: of work on GPUs the seconds of each (``count``, ``exchange``,
        ``fold``, ``join``, how long they waited for ``partition``, ``upload``, ``download``, and
        ``spill``), else empty; of host tables at GPU endpoints, and of GPU tables that spilled,
        ``rounds``, else 0; of GPU tables ``links``, a list of ``(from, to, bytes)`` of endpoints'
        places in the list, without what went through a channel, and ``peak_bytes``, the most
        memory that an endpoint took beside its rows.
    :param patience: with endpoints of several processes, how many seconds one that has come to the
        beginning or to the end waits for the others while no row moves.
    :param two_level: with endpoints on several servers, whether rows go first to the endpoint of
        the same rank on their server, which sends them on; rows come to the same endpoints either
        way. ``"auto"`` does so for many endpoints in many processes.
    :param stream: of work on GPUs: what is put into it before the call comes before the
        call's work. A stream of CuPy, PyTorch or Numba, an object with ``__cuda_stream__``, a
        handle, or a mapping of GPUs (N of ``cuda:N``) to these. None: the current stream of the
        library whose array comes first on the GPU; where that is the legacy default stream, one of
        MGI's own behind it. The results are complete when the call returns.
    :param allocator: of work on GPUs: a :class:`GpuAllocator` that provides all GPU memory of the
        call, of its results as well, but for tables that are copied to GPU tables' GPUs; None: the
        runtime's, or else MGI itself.
    :param receive_limit: bytes that results and tables may take, on GPUs of each endpoint; None:
        what there is.
    :param spill_limit: of work on GPUs: bytes of this process' host memory that results of host
        tables, the rounds' parts, and GPU tables for which there is no room may take; None: what
        the runtime has left; 1: GPU tables do not spill.
    :param out: of tables in GPU memory: arrays of your own for the results, by the result's column
        names and in its order, in a mapping for each endpoint (one alone for one), or a
        :class:`GpuTable`. They have its columns' types and room for its rows; the results are views
        of their first rows. Where there is no room :class:`InvalidArgument` says how many rows
        there are. Strings and binaries cannot go there. Arrays that are read-only are refused where
        their ``__cuda_array_interface__`` says so.

    Endpoints may belong to several processes: each that has some among them makes the same calls
    in the same order and gives its own rows. A table alone is dealt out to its own endpoints; in a
    list the tables at others' endpoints are None or empty, and the results there have no rows. What
    fails in one process raises in all, and says whose it is: also a wrong argument, a table that
    cannot be read, and a process that has ended. The next call is made by all again.

    Tables in GPU memory stay there: the operators run on their GPUs, by default at an endpoint for
    each table, and the results are a :class:`GpuTable` each. Tables in the host's memory are copied
    to their endpoints' GPUs where others lie on GPUs. Where all are in the host's memory and
    `endpoints` are on GPUs, the GPUs do the work and the results are on the host: what does not fit
    the GPUs' memory goes in rounds, see docs/gpu.md.

    Ctrl-C stops it. Raises :class:`InvalidArgument` that names the offending column or argument,
    and :class:`OutOfMemory`.
    """
    with operator_turn("exchange", endpoints, runtime, patience):
        keys = list(column_names(key, "key"))
        inputs = inputs_of(endpoints, Caller.of(stream, allocator), tables=tables)
        options = _options(hash, by_reference, groups, patience, receive_limit, spill_limit) | {
            "two_level": two_level
        }
        with _place(inputs, endpoints, runtime) as place:
            outcome = inputs.function("exchange")(
                place.runtime._native,
                place.pairs,
                *inputs.dealt(place.pairs),
                keys,
                options | inputs.options(place.runtime) | inputs.out(out, place.pairs),
            )
            return _results(outcome, place, stats)


def group_by(
    tables: Sequence[TableLike] | TableLike,
    keys: str | Sequence[str],
    aggregates: Sequence[tuple[str, str | None, str]],
    endpoints: int | Sequence[Endpoint] | None = None,
    runtime: Runtime | None = None,
    hash: str = "murmur3",
    by_reference: bool = True,
    groups: int | None = None,
    stats: dict[str, Any] | None = None,
    patience: float = 60.0,
    stream: Any = None,
    allocator: GpuAllocator | None = None,
    receive_limit: int | None = None,
    spill_limit: int | None = None,
    one_endpoint_bytes: int | None = None,
    out: Any = None,
) -> list[Table] | list[GpuTable]:
    """Groups rows by the key columns; returns one table per endpoint, each group in one of them.

    `aggregates` lists ``(function, column, name)``; ``("count", None, name)`` counts rows. All
    others skip nulls, and null keys form one group, as in SQL. Functions, and what they give:

    - ``sum`` of integers int64, of decimals a decimal of 38 digits, of floats float64. One that
      does not fit raises :class:`Error` that names the column; partial sums may be larger.
    - ``count``: int64.
    - ``min``, ``max`` of any type: that type; texts and binary order by bytes.
    - ``avg`` of integers, decimals, floats: float64.
    - ``var`` (``variance``), ``std`` (``stddev``) of the same, of a sample: float64; null for fewer
      than two values, NaN where one is NaN or infinite.
    - ``first`` (``any_value``) of any type: one of the values, the same in every run.
    - ``count_distinct`` of any type: int64, how many values differ; all NaNs are equal.

    Without values a group has null, but ``count`` and ``count_distinct`` 0. See
    docs/aggregates.md for accuracy and cost.

    `one_endpoint_bytes`, of tables in GPU memory: inputs of at most so many bytes in all come to
    one endpoint, which has the whole result, since several GPUs would wait for each other for
    longer than one takes; the other tables have no rows. ``stats["at_one"]`` says whether it was
    so. 0: never; None: as MGI has measured it. The other parameters are those of
    :func:`exchange`.
    """
    with operator_turn("group_by", endpoints, runtime, patience):
        by = list(column_names(keys, "keys"))
        wanted = [_aggregate(aggregate) for aggregate in aggregates]
        inputs = inputs_of(endpoints, Caller.of(stream, allocator), tables=tables)
        options = _options(hash, by_reference, groups, patience, receive_limit, spill_limit)
        options |= _few(one_endpoint_bytes)
        with _place(inputs, endpoints, runtime) as place:
            outcome = inputs.function("group_by")(
                place.runtime._native,
                place.pairs,
                *inputs.dealt(place.pairs),
                by,
                wanted,
                options | inputs.options(place.runtime) | inputs.out(out, place.pairs),
            )
            return _results(outcome, place, stats)


def join(
    left: Sequence[TableLike] | TableLike,
    right: Sequence[TableLike] | TableLike,
    on: str | Sequence[str | tuple[str, str]],
    how: Literal["inner", "left", "right", "full", "semi", "anti"] = "inner",
    left_columns: Sequence[str] | None = None,
    right_columns: Sequence[str] | None = None,
    endpoints: int | Sequence[Endpoint] | None = None,
    runtime: Runtime | None = None,
    hash: str = "murmur3",
    by_reference: bool = True,
    groups: int | None = None,
    stats: dict[str, Any] | None = None,
    patience: float = 60.0,
    broadcast: bool | None = None,
    stream: Any = None,
    allocator: GpuAllocator | None = None,
    receive_limit: int | None = None,
    spill_limit: int | None = None,
    one_endpoint_bytes: int | None = None,
    out: Any = None,
) -> list[Table] | list[GpuTable]:
    """Joins two tables on equal keys; returns one table per endpoint.

    `on` is a column of both, or a list of columns or of pairs ``(left column, right column)``.
    Duplicates on both sides multiply; null keys match nothing, as in SQL. Keys are equal by value,
    whatever units they count in: seconds and nanoseconds, decimals of other scales, dates and
    timestamps (docs/types.md has them all; others raise InvalidArgument). `how` is ``"inner"``;
    ``"left"``, ``"right"`` or ``"full"``, where that side's rows without a partner come too, with
    nulls for the other's; ``"semi"`` or ``"anti"``: the left's rows that have a partner, or that
    have none, each once. `left_columns` and `right_columns` choose what the result holds; None
    takes all. Where the right's are None, keys that both sides call the same come once, and hold
    the right's where there is no left row, as with SQL's ``USING``; a semi or anti join has none
    of the right's. A column of the right that is named like one of the left gets the suffix
    ``_right``. The table is built on the side with fewer rows; ``stats["built"]`` says which.

    `broadcast` says how rows come together: True gives every endpoint all rows of one side (the
    smaller one, but never one whose rows may come alone: of a left, semi or anti join the right,
    of a right join the left; a full join of several endpoints raises), and the other side's rows
    stay where they are, as does each row of the result; False sends the rows of both to the
    endpoint that owns their keys. None: by the sizes of the sides; ``stats["broadcast"]`` says
    which it was. `one_endpoint_bytes` is that of :func:`group_by`, where `broadcast` is None. The
    other parameters are those of :func:`exchange`.
    """
    with operator_turn("join", endpoints, runtime, patience):
        pairs = _join_keys(on)
        if not isinstance(how, str):
            raise InvalidArgument(f"how is {how!r}: give the kind of join, such as 'left'")
        if broadcast is not None and not isinstance(broadcast, bool):
            raise InvalidArgument(f"broadcast is {broadcast!r}: give True, False or None")
        way = {None: "auto", True: "on", False: "off"}[broadcast]
        inputs = inputs_of(endpoints, Caller.of(stream, allocator), left=left, right=right)
        options = _options(hash, by_reference, groups, patience, receive_limit, spill_limit)
        options |= _few(one_endpoint_bytes)
        with _place(inputs, endpoints, runtime) as place:
            outcome = inputs.function("join")(
                place.runtime._native,
                place.pairs,
                *inputs.dealt(place.pairs),
                [pair[0] for pair in pairs],
                [pair[1] for pair in pairs],
                _columns(left_columns, "left_columns"),
                _columns(right_columns, "right_columns"),
                how,
                way,
                options | inputs.options(place.runtime) | inputs.out(out, place.pairs),
            )
            return _results(outcome, place, stats)


def sort(
    tables: Sequence[TableLike] | TableLike,
    by: str | Sequence[SortKeyLike],
    nulls: Literal["last", "first"] = "last",
    endpoints: int | Sequence[Endpoint] | None = None,
    runtime: Runtime | None = None,
    by_reference: bool = True,
    groups: int | None = None,
    stats: dict[str, Any] | None = None,
    patience: float = 60.0,
    stream: Any = None,
    allocator: GpuAllocator | None = None,
    receive_limit: int | None = None,
    spill_limit: int | None = None,
    one_endpoint_bytes: int | None = None,
    out: Any = None,
) -> list[Table] | list[GpuTable]:
    """Sorts; returns one table per endpoint, which together, in this order, are the sorted table.

    `by` is a column, or a list of columns and pairs ``(column, direction)``, the first one first;
    a direction is ``"asc"`` or ``"desc"`` (or in full). `nulls` come ``"last"`` or ``"first"``,
    whatever the direction, as Polars' ``nulls_last`` and pyarrow's ``null_placement`` have it.
    Texts and binary order by bytes, NaN comes behind all numbers, -0.0 equals 0.0, false comes
    before true.

    Rows with equal keys come in any order, which may differ from call to call: name more columns
    where it matters. Endpoints get about equally many rows, but those with equal keys come to one
    of them.

        first, second = mgi.sort(table, by=["city", ("price", "desc")], endpoints=2)

    On GPUs ``phases`` of `stats` has ``sample``, ``count``, ``exchange``, ``sort`` and ``gather``.
    `one_endpoint_bytes` is that of :func:`group_by`, and the other parameters are those of
    :func:`exchange`.
    """
    with operator_turn("sort", endpoints, runtime, patience):
        keys = sort_keys(by, nulls)
        inputs = inputs_of(endpoints, Caller.of(stream, allocator), tables=tables)
        options = _options("murmur3", by_reference, groups, patience, receive_limit, spill_limit)
        options |= _few(one_endpoint_bytes)
        with _place(inputs, endpoints, runtime) as place:
            outcome = inputs.function("sort")(
                place.runtime._native,
                place.pairs,
                *inputs.dealt(place.pairs),
                list(keys),
                options | inputs.options(place.runtime) | inputs.out(out, place.pairs),
            )
            return _results(outcome, place, stats)


def _options(
    hash: str,
    by_reference: bool,
    groups: int | None,
    patience: float,
    receive_limit: int | None,
    spill_limit: int | None,
) -> dict[str, Any]:
    milliseconds = _milliseconds("patience", patience)
    if milliseconds is None:
        raise InvalidArgument("patience is None: give seconds, more than 0")
    return {
        "hash": hash,
        "by_reference": bool(by_reference),
        "groups": _whole("groups", groups, 1),
        "receive_limit": _whole("receive_limit", receive_limit, 1),
        "spill_limit": _whole("spill_limit", spill_limit, 1),
        "patience": milliseconds,
    }


def _few(one_endpoint_bytes: int | None) -> dict[str, Any]:
    if one_endpoint_bytes is None:
        return {}
    return {"one_endpoint_bytes": _whole("one_endpoint_bytes", one_endpoint_bytes, 0)}


@contextlib.contextmanager
def _place(
    inputs: Inputs, endpoints: int | Sequence[Endpoint] | None, runtime: Runtime | None
) -> Iterator[_Place]:
    """A runtime with its endpoints; what was made here ends with the call."""
    if runtime is not None and not isinstance(runtime, Runtime):
        raise InvalidArgument(f"runtime is {runtime!r}: give a mgi.Runtime, or None")
    if isinstance(endpoints, Sequence):
        if runtime is None:
            raise InvalidArgument("a list of endpoints needs the runtime they belong to: runtime=")
        yield _Place(runtime, pairs_of(endpoints, "endpoints", runtime._number))
    elif runtime is None:
        with Runtime.local() as own:
            yield _Place(own, [own.create_endpoint(at)._pair for at in inputs.devices])
    else:
        made: list[Endpoint] = []
        try:
            made += (runtime.create_endpoint(device) for device in inputs.devices)
            yield _Place(runtime, [endpoint._pair for endpoint in made])
        finally:
            for endpoint in made:
                # An operator that was interrupted may still use them; the error matters more.
                with contextlib.suppress(InvalidArgument):
                    runtime.delete_endpoint(endpoint)


def _results(
    outcome: tuple[list[Any], dict[str, Any]], place: _Place, stats: dict[str, Any] | None
) -> list[Any]:
    tables, report = outcome
    if stats is not None:
        stats.update(report, graph=place.runtime.graph())
    return [
        GpuTable._of(table) if isinstance(table, _mgi.GpuTable) else Table(table)
        for table in tables
    ]


def _columns(names: Sequence[str] | None, what: str) -> list[str]:
    return [] if names is None else list(column_names(names, what))


def _aggregate(given: Any) -> tuple[str, str, str]:
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 3:
        raise InvalidArgument(
            f"aggregate {given!r}: give (function, column, name), e.g. ('sum', 'price', 'total')"
        )
    function, column, name = given
    if not isinstance(function, str) or not isinstance(name, str):
        raise InvalidArgument(f"aggregate {given!r}: function and name are strings")
    if column is None and function != "count":
        raise InvalidArgument(f"aggregate {given!r}: only count does without a column")
    if column is not None and not (isinstance(column, str) and column):
        raise InvalidArgument(f"aggregate {given!r}: the column is a name, or None for count")
    return function, column or "", name


def _join_keys(on: str | Sequence[str | tuple[str, str]]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for item in (on,) if isinstance(on, str) else on:
        pair = (item, item) if isinstance(item, str) else tuple(item)
        if len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise InvalidArgument(f"on holds {item!r}: give a column or (left, right) columns")
        pairs.append((pair[0], pair[1]))
    if not pairs:
        raise InvalidArgument("on is empty: give at least one column")
    return pairs
