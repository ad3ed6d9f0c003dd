"""Operators and the demo over the processes of a job, by mgi run."""

from __future__ import annotations

import re
import sys

import pytest
from run_support import Runner, needs_control

pytest.importorskip("pyarrow")
pytestmark = needs_control

LIMIT = 180.0
"""Seconds a job may take on a machine that is busy with others."""


def run(runner: Runner, *arguments: str) -> tuple[int, str, str]:
    """Runs mgi run to its end: its exit status and what it printed."""
    started = runner.start(*arguments)
    out, err = started.communicate(timeout=LIMIT)
    return started.returncode, out.decode(), err.decode()


START = """
import mgi, os, signal, sys
import pyarrow as pa

job = mgi.job()
runtime = mgi.Runtime.connect(timeout=60)
mine = [runtime.create_endpoint("cpu") for _ in range(1 + job.rank % 2)]
endpoints = runtime.gather_endpoints(mine)
places = [place for place, one in enumerate(endpoints) if one.device != "elsewhere"]
call = {"endpoints": endpoints, "runtime": runtime, "patience": 60}


def rows(parts):
    return sorted(
        row for part in parts for row in zip(*part.to_arrow().to_pydict().values(), strict=True)
    )


def own(parts):
    assert len(parts) == len(endpoints)
    for place, part in enumerate(parts):
        assert place in places or part.num_rows == 0, (place, part)
    return [parts[place] for place in places]


def left(rank):
    keys = [(rank + 7 * i) % 101 for i in range(3000 * (rank + 1))]
    # One process alone has long texts.
    texts = [f"{'long ' * 20 * rank}text {key}" for key in keys]
    return pa.table({"key": keys, "value": list(range(len(keys))), "text": texts})


def right(rank):
    keys = list(range(rank, 101, job.size))
    return pa.table({"id": keys, "name": [f"name of {key}, which is long" for key in keys]})


everybody = range(job.size)
"""

OPERATORS = (
    START
    + """
for by_reference in (True, False):
    call["by_reference"] = by_reference
    moved = rows(own(mgi.exchange(left(job.rank), "key", **call)))
    keys = {row[0] for row in moved}
    mine_of = {key: [] for key in keys}
    for rank in everybody:
        for row in rows([mgi.exchange(left(rank), "key", endpoints=1)[0]]):
            if row[0] in keys:
                mine_of[row[0]].append(row)
    assert moved == sorted(row for each in mine_of.values() for row in each)

    parts = [None] * len(endpoints)
    parts[places[0]] = left(job.rank)
    for place in places[1:]:
        parts[place] = left(job.rank).slice(0, 0)
    wanted = [("sum", "value", "sum"), ("max", "text", "last"), ("count", None, "n")]
    wanted += [("count_distinct", "text", "texts"), ("first", "text", "any")]
    sums = rows(own(mgi.group_by(parts, "key", wanted, **call)))
    whole = pa.concat_tables([left(rank) for rank in everybody])
    expected = rows(mgi.group_by(whole, "key", wanted, endpoints=1))
    assert sums == [row for row in expected if row[0] in {one[0] for one in sums}]

    for broadcast in (False, True):
        sides = left(job.rank), right(job.rank)
        joined = rows(own(mgi.join(*sides, [("key", "id")], broadcast=broadcast, **call)))
        assert all(row[3:] == (row[0], f"name of {row[0]}, which is long") for row in joined)
        # Rows of a broadcast join stay where they were.
        here = sorted(zip(*sides[0].to_pydict().values(), strict=True))
        assert [row[:3] for row in joined] == (here if broadcast else moved)

    ways = zip(*whole.to_pydict().values(), strict=True)
    ways = sorted((key, -value, text) for key, value, text in ways)
    in_order = 0
    for part in own(mgi.sort(left(job.rank), ["key", ("value", "desc"), "text"], **call)):
        got = zip(*part.to_arrow().to_pydict().values(), strict=True)
        got = [(key, -value, text) for key, value, text in got]
        first = ways.index(got[0]) if got else 0
        assert got == ways[first : first + len(got)]
        in_order += len(got)
    print("checked", len(moved), len(sums), len(joined), in_order, flush=True)
"""
)


@pytest.mark.parametrize("processes", [2, 3])
def test_operators(runner: Runner, processes: int) -> None:
    words = ("-n", str(processes), "--", sys.executable, "-c", OPERATORS)
    code, out, err = run(runner, *words)
    assert code == 0, err + out
    found = re.findall(r"checked (\d+) (\d+) (\d+) (\d+)$", out, re.MULTILINE)
    assert len(found) == 2 * processes, out
    lines = 3000 * processes * (processes + 1) // 2
    sums = [sum(map(int, column)) for column in zip(*found, strict=True)]
    assert sums == [2 * lines, 2 * 101, 2 * lines, 2 * lines], out


def test_keys_of_other_units_and_sums_in_any_order(runner: Runner) -> None:
    program = (
        START
        + """
from decimal import Decimal

# Half of the nanoseconds are no whole seconds. One process alone has any.
ticks = pa.array([500_000_000 * i for i in range(-200, 400)])
stamps = pa.table({"t": ticks.view(pa.timestamp("ns")), "i": range(600)})
stamps = stamps.slice(0, 0 if job.rank else 600)
seconds = range(-150 + 10 * job.rank, 150, 10 * job.size)
other = pa.table({"t": pa.array(list(seconds)).view(pa.timestamp("s")), "j": list(seconds)})
for broadcast in (False, True):
    joined = own(mgi.join(stamps, other, "t", broadcast=broadcast, **call))
    for part in joined:
        for row in part.to_arrow().to_pylist():
            assert row["i"] == 2 * row["j"] + 200, row
    print("pairs", sum(part.num_rows for part in joined), flush=True)

most, least = Decimal("9" * 38), Decimal("-" + "9" * 38)
exact = [[most, most, Decimal(5)], [least, least, Decimal(-2)]][job.rank]
floats = [[1e16, 1.0, 2.0**-30], [-1e16, 1.0, 1.0]][job.rank]
table = pa.table({"k": [1] * 3, "d": pa.array(exact, pa.decimal128(38, 0)), "f": floats})
sums = own(mgi.group_by(table, "k", [("sum", "d", "d"), ("sum", "f", "f")], **call))
for row in rows(sums):
    print("sums", *row, flush=True)
"""
    )
    code, out, err = run(runner, "-n", "2", "--", sys.executable, "-c", program)
    assert code == 0, err + out
    # Of -100 to 199 seconds every tenth.
    assert sum(map(int, re.findall(r"pairs (\d+)$", out, re.MULTILINE))) == 2 * 25, out
    assert re.findall(r"sums (.*)$", out, re.MULTILINE) == [f"1 3 {3 + 2.0**-30}"], out


def test_what_fails_in_one_process_raises_in_all(runner: Runner) -> None:
    program = (
        START
        + """
table = left(job.rank)
if job.rank == 1:
    table = table.rename_columns(["key", "other", "text"])
try:
    mgi.exchange(table, "key", **call)
except mgi.InvalidArgument as error:
    assert "rank" in str(error) and "other" in str(error), error
else:
    raise AssertionError("no error")
# The next call is another one.
print("rows", sum(map(len, mgi.exchange(left(job.rank), "key", **call))))
"""
    )
    code, out, err = run(runner, "-n", "2", "--", sys.executable, "-c", program)
    assert code == 0, err + out
    assert sum(map(int, re.findall(r"rows (\d+)$", out, re.MULTILINE))) == 9000, out


def test_a_process_that_dies_on_the_way(runner: Runner) -> None:
    program = (
        START.replace("timeout=60", "timeout=15")
        + """
if job.rank == 1:
    # After its last word before the channels are made.
    import threading
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
call["patience"] = 5
try:
    while True:
        mgi.group_by(left(job.rank), "key", [("sum", "value", "sum")], **call)
except mgi.Error as error:
    print("told:", error, flush=True)
"""
    )
    # What mgi run would end, since one has failed, is waited for.
    words = ("-n", "2", "--no-tag", "--grace", "60", "--", "sh", "-c")
    script = 'trap "" TERM; exec "$0" -c "$1"'
    code, out, err = run(runner, *words, script, sys.executable, program)
    assert code == 128 + 9, err + out
    assert out.startswith("told:"), out + err


def test_the_demo(runner: Runner) -> None:
    pytest.importorskip("duckdb")
    demo = [*runner.command, "demo", "--sf", "0.01", "--endpoints", "4", "--repeat", "1"]
    code, out, err = run(runner, "-n", "3", "--no-tag", "--", *demo)
    assert code == 0, err + out
    assert "4 endpoints of 3 processes" in out
    assert re.search(r"Exchange +60,175 .*60,175 rows . 16 columns equal", out)
    assert re.search(r"GroupBy +60,175 .*15,000 rows . 4 columns equal", out)
    assert re.search(r"Join +75,175 .*60,175 rows . 12 columns equal", out)
    assert (runner.folder / "demo-report.html").exists()
    assert [path.name for path in (runner.folder / "data").iterdir()] == [".sf0.01.lock", "sf0.01"]


def test_the_demo_with_too_few_endpoints(runner: Runner) -> None:
    code, _, err = run(runner, "-n", "2", "--", *runner.command, "demo", "--endpoints", "1")
    assert code == 2
    assert "2 processes share 1 endpoints" in err
