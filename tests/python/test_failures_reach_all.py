"""What fails in one process in a call of several, or before it: all hear of it, and whose it is."""

from __future__ import annotations

import re
import sys

import pytest
from run_support import Runner, needs_control

pytest.importorskip("pyarrow")
pytestmark = needs_control

START = """
import os, signal, sys, time
import mgi
import pyarrow as pa

PATIENCE = 100.0  # far longer than this test may take
job = mgi.job()
runtime = mgi.Runtime.connect(timeout=60)
mine = runtime.create_endpoint("cpu")
endpoints = runtime.gather_endpoints([mine])
call = {"endpoints": endpoints, "runtime": runtime, "patience": PATIENCE}
table = pa.table({"k": [1, 2, 3], "x": [1.0, 2.0, 3.0]})


def refused(work, *words):
    start = time.monotonic()
    try:
        work()
    except BaseException as error:
        took = time.monotonic() - start
        for word in words:
            assert word in str(error), (word, type(error), str(error))
        assert took < PATIENCE / 2, (took, error)
        return error
    raise AssertionError(f"no error of {words}")


def together():
    rows = mgi.exchange(table, "k", **call)
    assert sum(part.num_rows for part in rows) in range(7)


def broken():
    yield pa.record_batch({"k": [1], "x": [1.0]})
    raise OSError("the disk is gone")


def stream(batches):
    return pa.RecordBatchReader.from_batches(table.schema, batches)


def interrupted():
    raise KeyboardInterrupt
    yield
"""


def run_all(runner: Runner, count: int, program: str) -> str:
    started = runner.start("-n", str(count), "--", sys.executable, "-c", START + program)
    out, err = started.communicate(timeout=90)
    assert started.returncode == 0, out.decode() + err.decode()
    return out.decode()


def test_what_fails_before_an_operator_begins(runner: Runner) -> None:
    """Each in rank 1 alone; the call after it is one of all."""
    program = """
import numpy as np
pointers = {"k": np.array([object()])}
bad = [
    (lambda: mgi.exchange(pointers, "k", **call), ["object" if job.rank == 1 else "k"]),
    (lambda: mgi.exchange(stream(broken()), "k", **call), ["the disk is gone"]),
    (lambda: mgi.exchange(table, 7, **call), ["TypeError" if job.rank != 1 else "int"]),
    (lambda: mgi.exchange(table, "k", hash="none", **call), ["none"]),
    (lambda: mgi.group_by(object(), "k", [("sum", "x", "s")], **call), ["object"]),
    (lambda: mgi.group_by(table, "k", [("no such", "x", "s")], **call), ["no such"]),
    (lambda: mgi.join(table, table, "k", how="sideways", **call), ["sideways"]),
    (lambda: mgi.sort(table, [("k", "up")], **call), ["up"]),
    (lambda: mgi.sort(table, "k", groups=-1, **call), ["groups"]),
]
good = {
    "exchange": lambda: mgi.exchange(table, "k", **call),
    "group_by": lambda: mgi.group_by(table, "k", [("sum", "x", "s")], **call),
    "join": lambda: mgi.join(table, table, "k", **call),
    "sort": lambda: mgi.sort(table, "k", **call),
}
for work, words in bad:
    name = next(name for name in good if name in work.__code__.co_names)
    told = [name + ": rank 1 has failed"] if job.rank != 1 else []
    refused(work if job.rank == 1 else good[name], *words, *told)
    together()
print("done")
"""
    assert run_all(runner, 3, program).count("done") == 3


def test_an_interrupt_and_no_memory_while_tables_are_read(runner: Runner) -> None:
    program = """
class Hungry:
    def __arrow_c_stream__(self, requested_schema=None):
        raise MemoryError

class Interrupted:
    def __arrow_c_stream__(self, requested_schema=None):
        raise KeyboardInterrupt

for given, kind, word in ((Hungry(), MemoryError, "MemoryError"),
                          (Interrupted(), KeyboardInterrupt, "KeyboardInterrupt")):
    if job.rank == 1:
        assert isinstance(refused(lambda: mgi.exchange(given, "k", **call)), kind)
    else:
        error = refused(lambda: mgi.exchange(table, "k", **call), "rank 1 has failed", word)
        assert isinstance(error, mgi.OutOfMemory) == (kind is MemoryError), error
    together()
print("done")
"""
    assert run_all(runner, 2, program).count("done") == 2


def test_who_fails_waits_for_nobody_and_is_heard_by_who_comes_later(runner: Runner) -> None:
    program = """
if job.rank == 1:
    start = time.monotonic()
    refused(lambda: mgi.exchange(table, "no key", **call, groups=-1), "groups")
    open("failed", "w").close()
else:
    while not os.path.exists("failed"):
        time.sleep(0.01)
    time.sleep(0.3)
    refused(lambda: mgi.exchange(table, "k", **call), "rank 1 has failed", "groups")
together()
print("done")
"""
    assert run_all(runner, 2, program).count("done") == 2


def test_what_fails_before_channels_and_endpoints(runner: Runner) -> None:
    program = """
schema = {"k": "int64"}
make = lambda **more: runtime.create_channel(
    endpoints, endpoints, **({"schema": schema, "routing": mgi.Partition("k")} | more))
for more, word in (({"routing": 3}, "routing"), ({"slots": -1}, "slots"), ({"schema": 5}, "")):
    error = refused(lambda: make(**more) if job.rank == 1 else make(), word)
    assert job.rank == 1 or "rank 1" in str(error), error
    runtime.delete_channel(make())
refused(lambda: runtime.gather_endpoints([mine] if job.rank == 0 else ["no endpoint"]),
        "no endpoint", *(["rank 1"] if job.rank == 0 else []))
assert len(runtime.gather_endpoints([mine])) == job.size
print("done")
"""
    assert run_all(runner, 2, program).count("done") == 2


def test_who_has_ended_is_named_and_not_waited_for(runner: Runner) -> None:
    program = """
together()
if job.rank == 1:
    if WAY == "close":
        runtime.close()
    sys.stdout.flush()
    os._exit(0)
elif job.rank == 2:
    time.sleep(0.5)  # it has ended before this one comes
refused(lambda: mgi.group_by(table, "k", [("sum", "x", "s")], **call), "rank 1", "is gone")
if job.rank == 2:
    open(WAY, "w").close()
while not os.path.exists(WAY):
    time.sleep(0.01)
print("done")
"""
    for way in ("close", "exit"):
        assert run_all(runner, 3, f"WAY = {way!r}\n" + program).count("done") == 2


def test_another_operator_and_other_arguments_are_named(runner: Runner) -> None:
    program = """
def differs():
    if job.rank == 1:
        return mgi.sort(table, "k", **call)
    return mgi.exchange(table, "k", **call)

refused(differs, "rank 0", "rank 1", "sort", "exchange")
together()
refused(lambda: mgi.exchange(table, "k" if job.rank else "x", **call), "rank 0", "rank 1", "keys")
together()
print("done")
"""
    assert run_all(runner, 2, program).count("done") == 2


def test_who_does_not_call_is_named_after_the_patience(runner: Runner) -> None:
    program = """
together()
if job.rank == 1:
    while not os.path.exists("told"):
        time.sleep(0.01)
else:
    call["patience"] = 0.5
    error = refused(lambda: mgi.exchange(table, "k", **call), "rank 1")
    assert isinstance(error, mgi.Timeout), error
    open("told", "w").close()
print("done")
"""
    assert run_all(runner, 2, program).count("done") == 2


def test_a_column_of_nulls_takes_the_others_type(runner: Runner) -> None:
    program = """
texts = pa.array(["a", "b", "c"])
x = pa.nulls(3) if job.rank == 1 else texts
given = pa.table({"k": [1, 2, 3], "x": x})
grouped = mgi.group_by(given, "k", [("max", "x", "m"), ("count", "x", "n")], **call)
rows = [row for part in grouped for row in part.to_arrow().to_pylist()]
assert all(row["m"] == "abc"[row["k"] - 1] and row["n"] == 1 for row in rows), rows
moved = mgi.exchange(given, "k", **call)
found = [part.to_arrow() for part in moved if part.num_rows]
assert all(part.schema.field("x").type == pa.string() for part in found), found
print("rows", sum(part.num_rows for part in found), "done")
"""
    out = run_all(runner, 2, program)
    assert sum(map(int, re.findall(r"rows (\d+)", out))) == 6, out
