"""``mgi tpch``: loads, runs the queries by turns with DuckDB, verifies, and tells."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import mgi
from mgi import _mgi
from mgi.demo import data, units
from mgi.demo.errors import DemoError
from mgi.demo.progress import Progress
from mgi.demo.timed import Timed, complain
from mgi.demo.truth import Truth
from mgi.demo.verify import Verdict
from mgi.tpch import answer, page, table
from mgi.tpch.cluster import made, own_gpus
from mgi.tpch.frame import Step
from mgi.tpch.options import Options
from mgi.tpch.queries import query
from mgi.tpch.rates import Rates, measured
from mgi.tpch.tables import Tables

if TYPE_CHECKING:
    import pyarrow as pa

#: Bytes of memory that one scale factor needs in the first process: all columns of all queries,
#: DuckDB's own tables, and what a query makes of them.
MEMORY_BYTES = 3e9
#: Whose errors are told without a trace.
LIBRARIES = ("duckdb", "_duckdb", "polars", "cupy", "cupy_backends")
#: Where GPUs have the columns.
MEMORY_BYTES_OF_GPUS = 1.5e9


@dataclasses.dataclass
class Outcome(Timed):
    """What a query did, as the first process saw it."""

    number: int
    sql: str
    """With this scale factor."""
    seconds: list[float]
    """From the call to the whole result as an Arrow table in one place."""
    duckdb_seconds: list[float]
    steps: list[Step]
    """Of the last run, in their order: the last is on top of the plan."""
    floor: float
    verdict: Verdict

    @property
    def moved(self) -> int:
        """Bytes that went through channels."""
        return moved(self.steps)


@dataclasses.dataclass
class Report:
    """All that is printed and written."""

    options: Options
    outcomes: list[Outcome]
    endpoints: int
    processes: int
    devices: list[str]
    """Of the first process."""
    rates: Rates


def run(options: Options) -> int:
    """Returns the exit status: 0, or 1 where a result is not DuckDB's."""
    job = mgi.job()
    leads = job.rank == 0
    with contextlib.ExitStack() as stack:
        nowhere = stack.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
        progress = Progress(None if leads else nowhere)
        try:
            if leads:
                # Now, rather than after all the work, that a file cannot be written.
                for file in filter(None, (options.json, options.html)):
                    file.open("a").close()
                on_host = options.gpus is None or options.flow
                each = MEMORY_BYTES if on_host else MEMORY_BYTES_OF_GPUS
                data.check_memory(options.scale, each)
            report = _run(options, job, progress)
        except DemoError as error:
            raise mgi.Error(progress.plain(str(error))) from error
        except MemoryError as error:
            raise mgi.OutOfMemory(
                f"no memory for scale factor {options.sf}: try a smaller --sf ({error})"
            ) from error
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in LIBRARIES:
                raise
            raise mgi.Error(f"{type(error).__name__}: {error}") from error
        if report is None:
            return 0
        for line in table.lines(report):
            progress.line(line)
        if options.json is not None:
            _write(options.json, json.dumps(table.figures(report), indent=1) + "\n")
        if options.html is not None:
            _write(options.html, page.page(report))
            progress.line(f"The page: {options.html.resolve()}")
    wrong = [outcome for outcome in report.outcomes if not outcome.verdict.ok]
    for outcome in wrong:
        complain(f"Q{outcome.number}", outcome.verdict, progress)
    return 1 if wrong else 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


@dataclasses.dataclass
class _Rival:
    """DuckDB, beside the first process, with all cores of its server."""

    timed: Truth
    """Tables of its own, in memory."""
    truth: Truth
    """The files, which MGI's tables were read from by others' hands."""

    @classmethod
    def of(cls, files: dict[str, Path]) -> _Rival:
        """Loads the tables."""
        with _all_cores():
            cores = _mgi.usable_cores()
            return cls(Truth(files, True, cores), Truth(files, False, cores))

    def seconds(self, sql: str) -> float:
        """What a query takes, its result as Arrow."""
        with _all_cores():
            started = time.perf_counter()
            self.timed.answer(sql)
            return time.perf_counter() - started


@contextlib.contextmanager
def _all_cores() -> Iterator[None]:
    """The server's, of which a launcher may have given this process a share."""
    share = os.sched_getaffinity(0)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        yield
    finally:
        os.sched_setaffinity(0, share)


def _run(options: Options, job: mgi.Job, progress: Progress) -> Report | None:
    leads = job.rank == 0
    gpus = [] if options.gpus is None else own_gpus(options.gpus, job)
    many = f", {job.size} processes" if job.size > 1 else ""
    progress.line(f"TPC-H on MGI: scale factor {options.sf}{many}")
    with progress.step("data") as step:
        files = data.make(options.data, options.sf, step, data.ALL_TABLES)
    rival = None
    if leads:
        with progress.step("DuckDB loads its own tables"):
            rival = _Rival.of(files)
    with made(options, job, gpus) as cluster:
        tables = Tables(cluster, files, options.scale)
        rates = measured(cluster) if leads else Rates(0.0, 0.0)
        outcomes = []
        for number in options.queries:
            with progress.step(f"Q{number}") as step:
                outcome = _query(number, options, tables, rival, rates)
                if outcome is None:
                    continue
                step.failed = not outcome.verdict.ok
                step.detail = (
                    f"{units.seconds(outcome.median)}, DuckDB "
                    f"{units.seconds(outcome.duckdb_median)}: {outcome.verdict.text()}"
                )
                outcomes.append(outcome)
        if not leads:
            return None
        at = cluster.gpu_endpoints or cluster.endpoints
        devices = sorted({at[place].device for place in cluster.own})
        if cluster.flow is not None:
            devices = sorted({*devices, *(one.device for one in cluster.flow.consumers)})
        return Report(options, outcomes, len(cluster.endpoints), job.size, devices, rates)


def _query(
    number: int, options: Options, tables: Tables, rival: _Rival | None, rates: Rates
) -> Outcome | None:
    """Runs it once to load its columns, then by turns with DuckDB; the last result is verified."""
    asked, cluster = query(number), tables.cluster
    if cluster.gpus:  # what local steps of another query have left
        importlib.import_module("cupy").get_default_memory_pool().free_all_blocks()
    sql = asked.SQL.replace("{sf}", options.sf)
    seconds: list[float] = []
    duckdb_seconds: list[float] = []
    result: pa.Table | None = None
    for _ in range(options.repeat + 1):
        cluster.meet()  # the other processes wait while the first runs DuckDB
        cluster.steps.clear()
        started = time.perf_counter()
        result = answer.collect(asked.plan(tables))
        seconds.append(time.perf_counter() - started)
        if rival is not None:
            duckdb_seconds.append(rival.seconds(sql))
    if rival is None or result is None:
        return None
    verdict = answer.compare(result, rival.truth.answer(sql), sql)
    steps = list(cluster.steps)
    touched = sum(step.bytes for step in _reads(steps[-1]))
    floor = touched / rates.memory + moved(steps) / rates.links
    return Outcome(number, sql, seconds[1:], duckdb_seconds[1:], steps, floor, verdict)


def moved(steps: list[Step]) -> int:
    """Bytes that went through channels."""
    return sum(step.bytes for step in steps if step.kind not in ("read", "local"))


def _reads(plan: Step) -> list[Step]:
    """The tables below a step, each once."""
    found: dict[int, Step] = {}
    todo = [plan]
    while todo:
        step = todo.pop()
        if step.kind == "read":
            found[id(step)] = step
        todo += step.inputs
    return list(found.values())
