"""Exchanges in two levels between the servers of a testbed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import mgi
import pytest
from beds import NAME, needs_control, needs_kernel, run, standing
from mgi.cli import main
from processes import PATIENCE

pa = pytest.importorskip("pyarrow")
pytestmark = [needs_kernel, needs_control]

LONG = 6 * PATIENCE
"""Several interpreters, agents and a controller start at once here."""

START = """
import mgi, os, signal, sys, threading
import pyarrow as pa

job = mgi.job()
runtime = mgi.Runtime.connect(timeout=60)
mine = [runtime.create_endpoint("cpu") for _ in range(1 + job.rank % 2)]
endpoints = runtime.gather_endpoints(mine)
places = [place for place, one in enumerate(endpoints) if one.device != "elsewhere"]
call = {"endpoints": endpoints, "runtime": runtime, "patience": 60}


def rows(parts):
    return sorted(
        (row for part in parts for row in zip(*part.to_arrow().to_pydict().values(), strict=True)),
        key=repr,
    )


def table(rank):
    keys = [(rank + 7 * i) % 101 if i % 3 else 5 for i in range(2000 * (rank + 1))]
    return pa.table({
        "key": pa.array(keys, pa.int32()),
        "value": [None if i % 11 == rank else float(i) for i in range(len(keys))],
        "flag": [i % 2 == 0 for i in range(len(keys))],
        "text": [f"{'long ' * 20 * (rank % 2)}text {key}" for key in keys],
    })
"""


@pytest.fixture(scope="module", autouse=True)
def made() -> Iterator[None]:
    with standing("--servers", "2", "--nics", "2"):
        yield


def job(program: str, *options: str, size: int = 4) -> subprocess.CompletedProcess[str]:
    words = ["run", "-n", str(size), "--servers-of-testbed", NAME, *options, "--"]
    return run(*words, sys.executable, "-c", program, timeout=LONG)


def test_rows_come_to_the_endpoints_of_one_level() -> None:
    done = job(
        START
        + """
whole = pa.concat_tables([table(rank) for rank in range(job.size)])
for options in ({}, {"hash": "modulo"}, {"by_reference": False}):
    expected = mgi.exchange(
        whole, "key", endpoints=len(endpoints), hash=options.get("hash", "murmur3")
    )
    for level in ("off", "on"):
        stats = {}
        got = mgi.exchange(table(job.rank), "key", two_level=level, stats=stats, **options, **call)
        assert stats["two_level"] == (level == "on"), stats
        for place, part in enumerate(got):
            wanted = rows([expected[place]]) if place in places else []
            assert rows([part]) == wanted, (options, level, place)
# Where one level does, auto takes it.
stats = {}
mgi.exchange(table(job.rank), "key", stats=stats, **call)
assert not stats["two_level"]
print("checked", flush=True)
"""
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("checked") == 4, done.stdout


def test_tables_of_any_type() -> None:
    program = Path(__file__).with_name("drawn.py")
    words = ["run", "-n", "4", "--servers-of-testbed", NAME, "--", sys.executable, str(program)]
    assert "20 cases held" in run(*words, "--cases", "20", timeout=LONG).stdout


def test_a_process_that_dies_on_the_way() -> None:
    done = job(
        START.replace("timeout=60", "timeout=15")
        + """
if job.rank == 1:
    # After its last word before the channels are made.
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGKILL)).start()
call["patience"] = 5
signal.signal(signal.SIGTERM, signal.SIG_IGN)
try:
    while True:
        mgi.exchange(table(job.rank), "key", two_level="on", **call)
except mgi.Error as error:
    print("told:", error, flush=True)
""",
        "--grace",
        "60",
    )
    assert done.returncode == 128 + 9, done.stdout + done.stderr
    # On its server and on the other one.
    assert len(re.findall(r"^\[[023]\] told:", done.stdout, re.MULTILINE)) == 3, done.stdout


def test_perf_measures_both(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    words = ["perf", "exchange", "--two-level", "--testbed", NAME, "--processes", "2"]
    words += ["--endpoints", "8", "--rows", "50k", "--repeat", "2", "--json", str(report)]
    assert main(words) == 0
    found = json.loads(report.read_text())
    assert (found["servers"], found["endpoints"], found["verified"]) == (2, 8, True)
    assert [level["name"] for level in found["levels"]] == ["one level", "two levels"]
    assert found["two_levels_to_one"] > 0


def test_what_cannot_be(capsys: pytest.CaptureFixture[str]) -> None:
    table = pa.table({"key": [1, 2]})
    with pytest.raises(mgi.InvalidArgument, match="two_level is 'maybe'.*auto, on, off"):
        mgi.exchange(table, "key", endpoints=1, two_level="maybe")
    for words, why in [
        (["--processes", "2"], "--testbed"),
        (["--processes", "3", "--testbed", NAME], "4 endpoints"),
        (["--processes", "2", "--testbed", NAME, "--staged"], "--staged"),
    ]:
        assert main(["perf", "exchange", "--two-level", *words]) == 2
        assert why in capsys.readouterr().err
