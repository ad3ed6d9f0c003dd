"""TPC-H tables: generated once, kept as Parquet, loaded as Arrow, dealt out at random."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mgi.demo import units
from mgi.demo.errors import DemoError
from mgi.demo.progress import Step

TABLES = ("lineitem", "orders")
#: All of TPC-H's.
ALL_TABLES = (*TABLES, "customer", "part", "partsupp", "supplier", "nation", "region")
#: Bytes of the Parquet files at scale factor 1, to foresee a full disk and to show progress.
PARQUET_BYTES = {
    "lineitem": 235e6,
    "orders": 65e6,
    "customer": 14e6,
    "part": 7e6,
    "partsupp": 45e6,
    "supplier": 1e6,
    "nation": 0.0,
    "region": 0.0,
}
#: Bytes of memory that one scale factor certainly needs: the dealt rows, DuckDB's own copy
#: of them, one result and the table it is compared with.
MEMORY_BYTES = 5.5e9


def check_memory(scale: float, each: float = MEMORY_BYTES) -> None:
    """Refuses a scale factor, of which one needs `each` bytes, that would only end in the kernel
    killing this process."""
    available = available_memory()
    if available is not None and scale * each > available:
        fits = available / each
        raise DemoError(
            f"scale factor {scale:g} needs about {units.size(scale * each)} of memory, "
            f"{units.size(available)} are available: try --sf {_round_down(fits)} or less"
        )


def available_memory() -> float | None:
    """Bytes that this process may still use: the machine's, or its control group's limit."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(float(x.split()[1]) * 1024 for x in lines if x.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return None
    try:
        limit = float(Path("/sys/fs/cgroup/memory.max").read_text())
        used = float(Path("/sys/fs/cgroup/memory.current").read_text())
        return min(free, max(0.0, limit - used))
    except (OSError, ValueError):  # no control group, or its limit is "max"
        return free


def _round_down(value: float) -> str:
    return f"{int(value)}" if value >= 1 else f"{max(int(value * 100), 1) / 100:g}"


def make(folder: Path, sf: str, step: Step, tables: tuple[str, ...] = TABLES) -> dict[str, Path]:
    """Returns the Parquet file of each table, generating those first that are missing.

    Each appears under ``folder/sf{SF}`` by one rename, so a file that is there is whole.
    Two demos at once on one folder: the second waits for the first.
    """
    final = folder / f"sf{sf}"
    files = {table: final / f"{table}.parquet" for table in tables}
    if _whole(files):
        step.detail = f"kept in {final}"
        return files
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder / f".sf{sf}.lock", step):
            missing = [table for table, path in files.items() if not _whole({table: path})]
            if missing:
                _generate(folder, final, sf, step, missing)
    except OSError as error:
        raise _disk_error(error, folder) from error
    return files


def _whole(files: dict[str, Path]) -> bool:
    try:
        return all(pq.read_metadata(path).num_rows > 0 for path in files.values())
    except (OSError, pa.ArrowException):
        return False


@contextmanager
def _lock(path: Path, step: Step) -> Iterator[None]:
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                step.detail = "waiting for another demo that makes the same data"
                time.sleep(0.1)
        yield


def _generate(folder: Path, final: Path, sf: str, step: Step, tables: list[str]) -> None:
    program = _find_generator()
    expected = float(sf) * sum(PARQUET_BYTES[table] for table in tables)
    free = shutil.disk_usage(folder).free
    if free < expected * 1.1 + 10e6:
        raise DemoError(
            f"no room for TPC-H data: scale factor {sf} takes about {units.size(expected)}, "
            f"{folder.resolve()} has {units.size(free)} free: free some, or give --data "
            "another disk or --sf a smaller number"
        )
    for left_over in folder.glob(f".sf{sf}.part-*"):  # of a run that was killed; we hold the lock
        shutil.rmtree(left_over, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(prefix=f".sf{sf}.part-", dir=folder))
    try:
        _run_generator(program, partial, sf, expected, step, tables)
        made = {table: partial / f"{table}.parquet" for table in tables}
        if not _whole(made):
            raise DemoError(f"{program} ended well but left no readable tables in {partial}")
        final.mkdir(exist_ok=True)
        for path in made.values():
            path.replace(final / path.name)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    step.detail = f"now in {final}"


def _find_generator() -> str:
    # The environment that runs us comes first: `.venv/bin/mgi` works without activating it.
    beside = Path(sys.executable).parent
    for place in (str(beside), sysconfig.get_path("scripts"), None):
        found = shutil.which("tpchgen-cli", path=place)
        if found:
            return found
    raise DemoError(
        "the TPC-H generator tpchgen-cli is not installed: "
        f"run '{sys.executable} -m pip install tpchgen-cli'"
    )


def _run_generator(
    program: str, into: Path, sf: str, expected: float, step: Step, tables: list[str]
) -> None:
    command = [program, "parquet", f"--scale-factor={sf}", f"--tables={','.join(tables)}"]
    command += [f"--output-dir={into}", "--no-progress"]
    with tempfile.TemporaryFile("w+") as log:
        try:
            child = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        except OSError as error:
            raise DemoError(f"cannot start {program}: {error.strerror}") from error
        try:
            while child.poll() is None:
                written = _bytes_in(into)
                if written:
                    step.detail = f"{units.size(written)} of about {units.size(expected)}"
                time.sleep(0.05)
        finally:
            if child.poll() is None:  # Ctrl-C, or the folder was taken away
                child.terminate()
                child.wait()
        if child.returncode != 0:
            log.seek(0)
            said = log.read().strip()[-800:]
            if "os error 28" in said or "No space left" in said:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raise DemoError(f"tpchgen-cli failed with status {child.returncode}: {said}")


def _bytes_in(folder: Path) -> int:
    """How much is in its files; those that the generator renames meanwhile are left out."""
    written = 0
    for path in folder.glob("*"):
        with suppress(FileNotFoundError):
            written += path.stat().st_size
    return written


def _disk_error(error: OSError, folder: Path) -> DemoError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DemoError(
            f"the disk of {folder.resolve()} is full: free some space, or give --data another "
            "disk or --sf a smaller number; nothing half-written was kept"
        )
    return DemoError(f"cannot keep TPC-H data in {folder}: {error.strerror or error}")


def load(path: Path) -> pa.Table:
    """A table as Arrow: decimals stay decimal128, strings become plain Arrow strings."""
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise DemoError(f"cannot read {path}: {error}; delete {path.parent} and retry") from error
    fields = []
    for field in table.schema:
        text = pa.types.is_string_view(field.type) or pa.types.is_large_string(field.type)
        fields.append(pa.field(field.name, pa.string() if text else field.type, field.nullable))
    return table.cast(pa.schema(fields))


def deal(
    table: pa.Table, hands: int, seed: int, wanted: range | None = None
) -> list[pa.Table | None]:
    """Deals the rows out at random: one contiguous table per endpoint, equal but for one row.

    The permutation depends on `seed` and the number of rows only. `wanted` are the hands that get
    theirs, None all of them.
    """
    order = np.random.default_rng(seed).permutation(table.num_rows)
    picks = {hand: pa.array(order[hand::hands]) for hand in wanted or range(hands)}
    columns: dict[int, list[pa.Array]] = {hand: [] for hand in picks}
    for name in table.column_names:  # column by column: only one is held twice at a time
        column = table.column(name).combine_chunks()
        for hand, pick in picks.items():
            columns[hand].append(column.take(pick))
    dealt: list[pa.Table | None] = [None] * hands
    for hand, arrays in columns.items():
        dealt[hand] = pa.Table.from_arrays(arrays, schema=table.schema)
    return dealt
