"""Operators on GPUs beside DuckDB, over random tables of all types, on GPUs and on the host.

python3 -m pytest tests/gpu/test_duckdb.py       MGI_TEST_CASES=1000: percent of the usual cases

By endpoints of this process on all GPUs, and, where there is a control plane, by two processes.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import mgi
import pyarrow as pa
import pytest
from random_tables import FLOATS, Case

duckdb = pytest.importorskip("duckdb")
pytestmark = pytest.mark.skipif(mgi._mgi.gpus() == 0, reason="needs a GPU")
CASES = max(4, 60 * int(os.environ.get("MGI_TEST_CASES", "100")) // 100)
SQL = {
    "count": "count({})",
    "min": "min({})",
    "max": "max({})",
    "first": "list({})",
    "count_distinct": "count(distinct {})",
    "sum": "sum({})",
    "avg": "avg({})",
    "var": "var_samp({})",
}


def rows_of(parts: list[pa.Table]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for part in parts:
        rows += zip(*(column.to_pylist() for column in part.columns), strict=True)
    return sorted(rows, key=repr)


def check(case: Case, found: dict[str, list[pa.Table]]) -> None:
    """Raises AssertionError where a result is another one than DuckDB's."""
    assert rows_of(found["exchange"]) == rows_of([case.left])
    homes = [set(rows_of([part.select(case.keys)])) for part in found["exchange"]]
    assert sum(map(len, homes)) == len(set().union(*homes))
    keys = ", ".join(case.keys)
    with duckdb.connect() as database:
        database.register("l", case.left)
        database.register("r", case.right)
        joined = database.sql(f"SELECT * FROM l {case.how} JOIN r USING ({keys})").fetchall()
        selected = [SQL[how].format(of) for how, of, _ in case.wanted[1:]]
        columns = ", ".join([keys, "count(*)", *selected])
        groups = database.sql(f"SELECT {columns} FROM l GROUP BY {keys}").fetchall()
    assert rows_of(found["join"]) == sorted(joined, key=repr)
    got = {row[: len(case.keys)]: row[len(case.keys) :] for row in rows_of(found["group_by"])}
    assert len(got) == len(groups) == sum(part.num_rows for part in found["group_by"])
    for row in groups:
        ours = got[row[: len(case.keys)]]
        for (how, name, _), mine, theirs in zip(
            case.wanted, ours, row[len(case.keys) :], strict=True
        ):
            check_value(case, how, name, mine, theirs)


def check_value(case: Case, how: str, name: str | None, mine: Any, theirs: Any) -> None:
    """Of an aggregate."""
    floats = name is not None and case.left.schema.field(name).type in FLOATS
    if how == "first":
        values = [value for value in theirs or [] if value is not None]
        assert mine in values if values else mine is None, (how, name)
    elif mine is not None and (how in ("avg", "var") or (how == "sum" and floats)):
        # DuckDB's own moments err, of large values that differ by little.
        assert math.isclose(mine, theirs, rel_tol=1e-6, abs_tol=1e-3), (how, name, mine, theirs)
    else:
        assert mine == theirs, (how, name, mine, theirs)


@pytest.mark.parametrize("seed", range(CASES))
def test_one_process(seed: int) -> None:
    case = Case(seed)
    with mgi.Runtime.local() as runtime:
        gpus = mgi._mgi.gpus()
        endpoints = [runtime.create_endpoint(f"cuda:{e % gpus}") for e in range(case.endpoints)]
        check(case, case.call(runtime, endpoints))


def test_two_processes(tmp_path: Path) -> None:
    program = [sys.executable, str(Path(__file__).with_name("random_tables.py"))]
    words = [str(tmp_path), "0", str(CASES // 2)]
    command = [sys.executable, "-m", "mgi.cli", "run", "-n", "2", "--", *program, *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if "control plane" in ended.stderr and ended.returncode != 0:
        pytest.skip("this installation has no control plane")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for seed in range(CASES // 2):
        found = {
            name: [
                pa.ipc.open_file(pa.memory_map(str(file))).read_all()
                for file in sorted(tmp_path.glob(f"{seed}-{name}-*.arrow"))
            ]
            for name in ("exchange", "group_by", "join")
        }
        check(Case(seed), found)
