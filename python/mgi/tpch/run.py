"""``mgi tpch``: loads, runs the queries by turns with DuckDB, verifies, and tells."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mgi
from mgi import _mgi
from mgi.demo import data, units
from mgi.demo.errors import DemoError
from mgi.demo.progress import Progress
from mgi.demo.verify import Verdict
from mgi.tpch.options import Options
from mgi.tpch.queries import query

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from mgi.tpch.frame import Cluster, Step
    from mgi.tpch.tables import Tables

#: Seconds for which processes wait for each other: one of them runs DuckDB meanwhile.
PATIENCE = 600.0


@dataclasses.dataclass
class Outcome:
    """What a query did, as the first process saw it."""

    number: int
    seconds: list[float]
    """From the call to the whole result as an Arrow table in one place."""
    duckdb_seconds: list[float]
    steps: list[Step]
    """Of the last run, in their order."""
    plan: Step
    """The last of them."""
    floor: float
    verdict: Verdict

    @property
    def median(self) -> float:
        """MGI's seconds."""
        return units.median(self.seconds)

    @property
    def duckdb_median(self) -> float:
        """DuckDB's seconds."""
        return units.median(self.duckdb_seconds)

    @property
    def moved(self) -> int:
        """Bytes that went through channels."""
        return sum(step.bytes for step in self.steps if step.kind not in ("read", "local"))


@dataclasses.dataclass
class Report:
    """All that is printed and written."""

    options: Options
    outcomes: list[Outcome]
    endpoints: int
    processes: int
    devices: list[str]
    """Of the first process."""
    memory_rate: float
    """Bytes a second that this process' cores read."""


def run(options: Options) -> int:
    """Returns the exit status: 0, or 1 where a result is not DuckDB's."""
    job = mgi.job()
    # Polars asks once, when it is imported.
    share = max(1, _mgi.usable_cores() // job.local_size)
    os.environ.setdefault("POLARS_MAX_THREADS", str(share))
    leads = job.rank == 0
    with contextlib.ExitStack() as stack:
        nowhere = stack.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
        progress = Progress(None if leads else nowhere)
        try:
            _check_packages()
            if leads:
                data.check_memory(options.scale)
                _check_places(options)
            report = _run(options, job, progress)
        except DemoError as error:
            raise mgi.Error(progress.plain(str(error))) from error
    if report is None:
        return 0
    from mgi.tpch import page, table

    for line in table.lines(report):
        progress.line(line)
    if options.json is not None:
        options.json.write_text(json.dumps(table.figures(report), indent=1) + "\n")
    if options.html is not None:
        options.html.write_text(page.page(report), encoding="utf-8")
        progress.line(f"The page: {options.html.resolve()}")
    wrong = [outcome for outcome in report.outcomes if not outcome.verdict.ok]
    for outcome in wrong:
        print(f"Q{outcome.number} differs from DuckDB:", file=sys.stderr)
        for difference in outcome.verdict.differences:
            print(f"  {progress.plain(difference)}", file=sys.stderr)
    return 1 if wrong else 0


def _check_packages() -> None:
    missing = [name for name in ("duckdb", "numpy", "polars", "pyarrow") if find_spec(name) is None]
    if missing:
        words = " ".join(missing)
        raise DemoError(
            f"needs Python packages that are missing: run '{sys.executable} -m pip install {words}'"
        )


def _check_places(options: Options) -> None:
    """Finds out now, rather than after all the work, that a file could not be written."""
    for file in (options.json, options.html):
        if file is None:
            continue
        if file.is_dir():
            raise DemoError(f"{file} is a folder: name a file in it")
        if not os.access(file.resolve().parent, os.W_OK):
            raise DemoError(f"cannot write {file}: its folder is not there, or not writable")


def _run(options: Options, job: mgi.Job, progress: Progress) -> Report | None:
    from mgi.tpch.tables import Tables

    leads = job.rank == 0
    many = f", {job.size} processes" if job.size > 1 else ""
    progress.line(f"TPC-H on MGI: scale factor {options.sf}{many}")
    with progress.step("data") as step:
        files = data.make(options.data, options.sf, step, data.ALL_TABLES)
    rival = None
    if leads:
        with progress.step("DuckDB loads its own tables"):
            rival = _duckdb(files)
    with _cluster(options, job) as cluster:
        tables = Tables(cluster, files)
        outcomes = []
        for number in options.queries:
            with progress.step(f"Q{number}") as step:
                outcome = _query(number, options.repeat, cluster, tables, rival, files)
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
        rate = memory_rate()
        for outcome in outcomes:
            touched = sum(step.bytes for step in _reads(outcome.plan))
            outcome.floor = (touched + outcome.moved) / rate
        devices = sorted({cluster.endpoints[place].device for place in cluster.own})
        return Report(options, outcomes, len(cluster.endpoints), job.size, devices, rate)


@contextlib.contextmanager
def _cluster(options: Options, job: mgi.Job) -> Iterator[Cluster]:
    """Endpoints of all processes, of which each has as many but for one."""
    from mgi.tpch.frame import Cluster

    cores = _mgi.usable_cores()
    count = options.endpoints or max(cores, job.size)
    if count < job.size:
        raise mgi.InvalidArgument(
            f"{job.size} processes share {count} endpoints: give --endpoints {job.size} or more"
        )
    first, end = (count * (job.rank + i) // job.size for i in (0, 1))
    own = range(first, end)
    how: dict[str, Any] = {"patience": PATIENCE}
    if job.size == 1:
        with mgi.Runtime.local() as runtime:
            endpoints = [runtime.create_endpoint("cpu") for _ in own]
            yield Cluster(runtime, endpoints, own, how)
        return
    how["groups"] = max(1, cores * job.size // (count * job.local_size))
    with mgi.Runtime.connect(name="mgi tpch", timeout=PATIENCE) as runtime:
        endpoints = runtime.gather_endpoints([runtime.create_endpoint("cpu") for _ in own])
        yield Cluster(runtime, endpoints, own, how)


def _query(
    number: int,
    repeat: int,
    cluster: Cluster,
    tables: Tables,
    rival: duckdb.DuckDBPyConnection | None,
    files: dict[str, Path],
) -> Outcome | None:
    """Runs it once to load its columns, then by turns with DuckDB."""
    from mgi.tpch import answer

    asked = query(number)
    seconds: list[float] = []
    duckdb_seconds: list[float] = []
    result: pa.Table | None = None
    for turn in range(repeat + 1):
        cluster.steps.clear()
        started = time.perf_counter()
        result = answer.collect(asked.plan(tables))
        if turn > 0:
            seconds.append(time.perf_counter() - started)
        if turn > 0 and rival is not None:
            started = time.perf_counter()
            rival.sql(asked.SQL).to_arrow_table()
            duckdb_seconds.append(time.perf_counter() - started)
    if rival is None or result is None:
        return None
    # From the files, which MGI's tables were read from by others' hands.
    verdict = answer.compare(result, _truth(files).sql(asked.SQL).to_arrow_table(), asked.SQL)
    steps = list(cluster.steps)
    return Outcome(number, seconds, duckdb_seconds, steps, steps[-1], 0.0, verdict)


def _reads(step: Step) -> Iterator[Step]:
    """The tables below a step."""
    if step.kind == "read":
        yield step
    for source in step.inputs:
        yield from _reads(source)


def _duckdb(files: dict[str, Path]) -> duckdb.DuckDBPyConnection:
    """All its tables in memory, in its own format, with all cores."""
    import duckdb

    connection = duckdb.connect(config={"threads": _mgi.usable_cores()})
    connection.execute("SET enable_progress_bar = false")
    for name, path in files.items():
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM {_parquet(path)}")
    return connection


def _truth(files: dict[str, Path]) -> duckdb.DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect(config={"threads": _mgi.usable_cores()})
    for name, path in files.items():
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {_parquet(path)}")
    return connection


def _parquet(path: Path) -> str:
    literal = str(path).replace("'", "''")
    return f"read_parquet('{literal}')"


def memory_rate() -> float:
    """Bytes a second that all cores read together, in the best of a few turns."""
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np

    cores = _mgi.usable_cores()
    words = [np.ones(1 << 23) for _ in range(cores)]
    best = 0.0
    with ThreadPoolExecutor(cores) as pool:
        for _ in range(5):
            started = time.perf_counter()
            list(pool.map(np.max, words))
            best = max(best, cores * words[0].nbytes / (time.perf_counter() - started))
    return best
