"""A query on MGI, DuckDB and Polars, turn and turn about."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mgi.demo.errors import DemoError
from mgi.demo.options import scale_factor
from mgi.demo.progress import Progress, Step
from mgi.errors import InvalidArgument, NotFound
from mgi.perf.numbers import add_number, add_repeat

#: Before each run the threads of the one before come to rest: Polars' allocator, for one, goes on
#: returning memory in a thread of its own. Seconds in which this process shall use none of the CPU
#: but `IDLE`, and the longest wait for that.
REST, IDLE, LONGEST_REST = 0.1, 0.001, 3.0
WRONG = "the result differs from DuckDB's"
DETAILS = (
    "The same query on the same in-memory tables in MGI, DuckDB and Polars: same types, same order "
    "of rows, same number of threads, the result materialized on all three, runs taking turns, "
    "medians. The result is compared with DuckDB's, every row and column."
)


def add_options(parser: argparse.ArgumentParser, synthetic: str) -> None:
    """Adds what both operators take; `synthetic` names what asks for made-up tables."""
    add = parser.add_argument
    add("--sf", type=scale_factor, default="1", metavar="N", help="TPC-H scale factor")
    add(
        "--order",
        choices=["random", "clustered"],
        default="random",
        help="of the rows, on every side; clustered: by key, as TPC-H has them",
    )
    add("--types", choices=["decimal", "double"], default="decimal", help="of the values")
    add_number(parser, "--rows", f"of made-up tables, which {synthetic}", 6_000_000)
    add_number(parser, "--endpoints", "endpoints on the CPU devices (default: one for each core)")
    add_repeat(parser)
    add_number(parser, "--seed", "of random orders and tables", 1, least=0)
    add("--data", type=Path, default=Path("data"), metavar="DIR", help="where TPC-H data is kept")


def measure(
    options: argparse.Namespace, pattern: str, make: Callable[[argparse.Namespace, Step], Any]
) -> dict[str, Any]:
    """Runs `make`'s workload on all three and returns what ``--json`` writes."""
    from mgi.perf.peers import check_packages

    check_packages()
    try:
        return _measure(options, pattern, make)
    except DemoError as error:
        raise NotFound(str(error)) from error


def _measure(
    options: argparse.Namespace, pattern: str, make: Callable[[argparse.Namespace, Step], Any]
) -> dict[str, Any]:
    import mgi
    from mgi.demo.truth import threads
    from mgi.perf.check import verify
    from mgi.perf.peers import DuckDB, Polars

    endpoints = options.endpoints or threads()
    progress = Progress(sys.stderr)
    with progress.step("making the tables") as step:
        workload = make(options, step)
    with progress.step("DuckDB and Polars load them"):
        duckdb, polars = DuckDB(workload), Polars(workload)
    seconds: dict[str, list[float]] = {"mgi": [], "duckdb": [], "polars": [], "operator": []}
    with mgi.Runtime.local() as runtime, progress.step(workload.title) as step:
        places = [runtime.create_endpoint("cpu") for _ in range(endpoints)]
        for run in range(options.repeat + 1):  # the first one warms all three up
            step.detail = f"run {run} of {options.repeat}" if run else "warming up"
            timed = [_rested(duckdb.run), _rested(polars.run)]
            stats: dict[str, Any] = {}
            _rest()
            start = time.perf_counter()
            answer = workload.call(workload.tables, endpoints=places, runtime=runtime, stats=stats)
            result = [table.to_arrow() for table in answer]
            timed += [time.perf_counter() - start, stats["call_seconds"]]
            if run < options.repeat:
                del answer, result
            if run:
                for name, value in zip(("duckdb", "polars", "mgi", "operator"), timed, strict=True):
                    seconds[name].append(value)
    with progress.step("comparing every row and column with DuckDB's") as step:
        verdict = verify(result, duckdb.answer(), workload.keys, workload.order)
        step.detail, step.failed = verdict.text(), not verdict.ok
    for difference in verdict.differences:
        print(f"  {difference}", file=sys.stderr)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "pattern": pattern,
        **workload.facts,
        "endpoints": endpoints,
        "threads": threads(),
        "repeat": options.repeat,
        "rows_in": workload.rows(),
        "rows_out": verdict.rows,
        "title": workload.title,
        "seconds_median": median["mgi"],
        "seconds_min": min(seconds["mgi"]),
        "seconds_max": max(seconds["mgi"]),
        "operator_seconds": median["operator"],
        "python_overhead": statistics.median(
            whole / inside - 1
            for whole, inside in zip(seconds["mgi"], seconds["operator"], strict=True)
        ),
        "duckdb_seconds": median["duckdb"],
        "polars_seconds": median["polars"],
        "polars_engine": polars.engine,
        "speedup_duckdb": median["duckdb"] / median["mgi"],
        "speedup_polars": median["polars"] / median["mgi"],
        "verified": verdict.ok,
    }


def _rested(run: Callable[[], float]) -> float:
    _rest()
    return run()


def _rest() -> None:
    deadline = time.monotonic() + LONGEST_REST
    while time.monotonic() < deadline:
        used = time.process_time()
        time.sleep(REST)
        if time.process_time() - used < IDLE:
            return


def table(result: dict[str, Any]) -> list[str]:
    """The figures for people."""
    per_row = 1e9 / result["rows_in"]
    lines = [
        result["title"],
        f"{result['endpoints']} endpoints, {result['threads']} threads on every side, "
        f"{result['repeat']} runs, {result['rows_in']:,} rows in, {result['rows_out']:,} out",
        "",
        f"{'':<22}{'seconds':>9}{'ns/row':>9}{'speedup':>9}",
    ]
    for name, value, engine in (
        ("MGI", result["seconds_median"], ""),
        ("DuckDB", result["duckdb_seconds"], ""),
        ("Polars", result["polars_seconds"], f", {result['polars_engine']}"),
    ):
        ratio = value / result["seconds_median"]
        speedup = "" if name == "MGI" else f"{ratio:.2f} x"
        lines.append(f"{name + engine:<22}{value:>9.4f}{value * per_row:>9.1f}{speedup:>9}")
    lines.append(
        f"{'MGI, the call in C++':<22}{result['operator_seconds']:>9.4f}"
        f"{result['operator_seconds'] * per_row:>9.1f}"
        f"   Python adds {result['python_overhead']:.1%}"
    )
    return [*lines, "", f"equal to DuckDB's result: {'yes' if result['verified'] else 'NO'}"]


def refuse_both(options: argparse.Namespace, given: str) -> None:
    """`given` asks for made-up tables, which have no scale factor."""
    if options.sf != "1":
        raise InvalidArgument(f"--sf chooses TPC-H tables and {given} made-up ones: give one")
