"""``mgi demo``: the order of events, the closing table and the exit status."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgi.demo import options as command_line
from mgi.demo import units
from mgi.demo.errors import DemoError
from mgi.demo.options import Options
from mgi.demo.progress import Progress
from mgi.demo.timed import Timed, complain

if TYPE_CHECKING:
    import pyarrow as pa

    from mgi.demo.operations import Operation
    from mgi.demo.team import Team
    from mgi.demo.verify import Verdict

#: Exit statuses.
FINE, DIFFERENT, FAILED, INTERRUPTED = 0, 1, 2, 130


@dataclasses.dataclass
class Outcome(Timed):
    """What one operation did: its inputs' size, every timed run, and the verdict."""

    operation: Operation
    rows: int
    """Rows that went in."""
    bytes: int
    """Arrow bytes of the columns that went in."""
    seconds: list[float]
    """MGI's timed runs: from the call to all results being Arrow tables."""
    duckdb_seconds: list[float]
    stats: dict[str, Any]
    """What MGI says of its last run: channels, plans, graph."""
    result_rows: int
    verdict: Verdict


@dataclasses.dataclass
class Endpoint:
    """An endpoint as the report shows it."""

    id: int
    device: str


@dataclasses.dataclass
class Report:
    """Everything the report page shows."""

    options: Options
    outcomes: list[Outcome]
    endpoints: list[Endpoint]
    graph: dict[str, Any]
    facts: list[tuple[str, str]]
    seconds: float
    """The whole demo, until the page was written."""


def main(argv: list[str] | None = None) -> int:
    """Runs the demo and returns the exit status.

    0: every result equals DuckDB's; 1: one does not; 2: something outside the program is wrong
    (bad options leave through argparse, also with 2); 130: Ctrl-C.
    """
    options = command_line.parse(argv)
    progress = Progress()
    try:
        _check_packages()
        from mgi.demo.team import Team, silence

        team = Team(options.endpoints)
        if team.leads:
            return _demo(options, progress, team)
        with silence() as nowhere:
            _run_all(options, Progress(nowhere), team)
        return FINE
    except DemoError as error:
        print(f"mgi demo: {progress.plain(str(error))}", file=sys.stderr)
        return FAILED
    except MemoryError:
        print(
            f"mgi demo: out of memory at scale factor {options.sf}: try a smaller --sf",
            file=sys.stderr,
        )
        return FAILED
    except KeyboardInterrupt:
        print("mgi demo: stopped by Ctrl-C; no report was written", file=sys.stderr)
        return INTERRUPTED


def _demo(options: Options, progress: Progress, team: Team) -> int:
    _check_report_place(options.report)
    from mgi.demo import data, report

    data.check_memory(options.scale)
    started = time.monotonic()
    how = "by copy" if options.by_copy else "by reference where memory is shared"
    many = "" if options.endpoints == 1 else "s"
    progress.line(
        f"MGI demo: TPC-H scale factor {options.sf}, {options.endpoints} endpoint{many}"
        f"{f' of {team.size} processes' if team.size > 1 else ''}, {how}"
    )
    outcomes, endpoints, graph, facts = _run_all(options, progress, team)
    page = Report(options, outcomes, endpoints, graph, facts, time.monotonic() - started)
    with progress.step("writing the report") as step:
        _write(options.report, report.page(page))
        step.detail = str(options.report)
    progress.line()
    for line in _table(outcomes):
        progress.line(line)
    progress.line()
    return _close(outcomes, options, progress)


def _check_packages() -> None:
    missing = []
    for package in ("numpy", "pyarrow", "duckdb"):
        try:
            importlib.import_module(package)
        except ModuleNotFoundError:
            missing.append(package)
    if missing:
        raise DemoError(
            f"the demo needs the Python package{'s' if len(missing) > 1 else ''} "
            f"{', '.join(missing)}: run '{sys.executable} -m pip install {' '.join(missing)}'"
        )


def _check_report_place(report: Path) -> None:
    """Finds out now, rather than after all the work, that the page could not be written."""
    if report.is_dir():
        raise DemoError(f"--report {report} is a folder: name a file in it")
    try:
        report.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DemoError(f"cannot make the folder of --report {report}: {error.strerror}") from error
    if not os.access(report.parent, os.W_OK):
        raise DemoError(f"cannot write --report {report}: its folder is not writable")


def _run_all(
    options: Options, progress: Progress, team: Team
) -> tuple[list[Outcome], list[Endpoint], dict[str, Any], list[tuple[str, str]]]:
    import mgi
    from mgi.demo import data, facts
    from mgi.demo.operations import operations
    from mgi.demo.team import PATIENCE
    from mgi.demo.truth import Stopwatch, Truth, threads

    load = facts.load()
    with progress.step(f"TPC-H data, scale factor {options.sf}") as step:
        files = data.make(options.data, options.sf, step)
    # DuckDB, beside the first process, gets all rows; the others take their endpoints' alone.
    wanted = None if team.leads else team.own
    tables: dict[str, list[pa.Table | None]] = {}
    schemas = {}
    rows = {}
    with progress.step("loading, and dealing the rows out at random") as step:
        for place, (name, path) in enumerate(files.items()):
            step.detail = name
            table = data.load(path)
            schemas[name], rows[name] = table.schema, table.num_rows
            tables[name] = data.deal(table, options.endpoints, options.seed + place, wanted)
            del table
        step.detail = ", ".join(f"{units.count(n)} rows of {name}" for name, n in rows.items())
    todo = operations(options.endpoints, schemas)
    comparison = None
    if team.leads:
        with progress.step("DuckDB loads the same rows"):
            comparison = _Comparison(
                Truth(files), Stopwatch(tables), {one.name: one.size(tables) for one in todo}
            )
    for parts in tables.values():
        parts[:] = [part if place in team.own else None for place, part in enumerate(parts)]
    try:
        with team.runtime() as runtime, team.meet(runtime, options.data) as endpoints:
            call = {
                "endpoints": endpoints,
                "runtime": runtime,
                "by_reference": not options.by_copy,
                "groups": team.groups(threads()),
                "patience": PATIENCE,
            }
            run = _Run(tables, call, team, comparison, options.repeat, progress)
            outcomes = [run.one(operation) for operation in todo]
            if not team.leads:
                return [], [], {}, []
            places = zip(endpoints, team.devices(endpoints), strict=True)
            shown = [Endpoint(endpoint.id, device) for endpoint, device in places]
            return outcomes, shown, runtime.graph(), facts.collect(runtime.devices, load)
    except mgi.Error as error:
        raise DemoError(f"MGI refused or failed: {error}") from error


@dataclasses.dataclass
class _Comparison:
    """DuckDB, which the first process has."""

    truth: Any
    stopwatch: Any
    sizes: dict[str, tuple[int, int]]
    """Rows and bytes that go into each operation, of all processes."""


@dataclasses.dataclass
class _Run:
    """One process' part in the operations."""

    tables: dict[str, list[pa.Table | None]]
    call: dict[str, Any]
    team: Team
    comparison: _Comparison | None
    repeat: int
    progress: Progress

    def one(self, operation: Operation) -> Outcome | None:
        """Runs one operation as often as was asked for; the first process has the outcome."""
        from mgi.demo.verify import compare

        seconds: list[float] = []
        duckdb_seconds: list[float] = []
        result: list[pa.Table] = []
        stats: dict[str, Any] = {}
        with self.progress.step(operation.name) as step:
            for run in range(self.repeat):  # turn and turn about: a busy machine hurts both
                result = []
                if self.comparison is not None:
                    step.detail = f"DuckDB, run {run + 1} of {self.repeat}"
                    duckdb_seconds.append(self.comparison.stopwatch.seconds(operation.queries))
                step.detail = f"MGI, run {run + 1} of {self.repeat}"
                stats = {}
                start = time.perf_counter()
                answer = operation.call(self.tables, stats=stats, **self.call)
                result = [table.to_arrow() for table in answer]
                seconds.append(time.perf_counter() - start)
                del answer
            if self.comparison is None:
                self.team.hand_in(operation.name, result)
                return None
            mine, theirs = units.median(seconds), units.median(duckdb_seconds)
            step.detail = f"MGI {units.seconds(mine)}, DuckDB {units.seconds(theirs)}"
        title = f"{operation.name} against DuckDB, every row and column"
        with self.progress.step(title) as step:
            result = self.team.hand_in(operation.name, result)
            expected = self.comparison.truth.answer(operation.truth)
            verdict = compare(
                result, expected, operation.keys, operation.owner, operation.same_types
            )
            step.detail, step.failed = verdict.text(), not verdict.ok
        rows, number_of_bytes = self.comparison.sizes[operation.name]
        result_rows = sum(part.num_rows for part in result)
        return Outcome(
            operation, rows, number_of_bytes, seconds, duckdb_seconds, stats, result_rows, verdict
        )


def _write(path: Path, page: str) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(page, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise DemoError(f"cannot write {path}: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def _table(outcomes: list[Outcome]) -> list[str]:
    rows = [("operation", "rows", "bytes", "seconds", "GB/s", "DuckDB s", "verified")]
    for outcome in outcomes:
        rows.append(
            (
                outcome.operation.name,
                units.count(outcome.rows),
                units.size(outcome.bytes),
                f"{outcome.median:.3f}",
                units.rate(outcome.bytes, outcome.median),
                f"{outcome.duckdb_median:.3f}",
                f"{'✓' if outcome.verdict.ok else '✗'} {outcome.verdict.text()}",
            )
        )
    return ["  " + line for line in units.aligned(rows)]


def _close(outcomes: list[Outcome], options: Options, progress: Progress) -> int:
    wrong = [outcome for outcome in outcomes if not outcome.verdict.ok]
    for outcome in wrong:
        complain(outcome.operation.name, outcome.verdict, progress)
    place = options.report.resolve()
    progress.line(f"The report: {place}")
    if wrong:
        names = ", ".join(outcome.operation.name for outcome in wrong)
        print(f"mgi demo: verification failed: {names}", file=sys.stderr)
    return DIFFERENT if wrong else FINE
