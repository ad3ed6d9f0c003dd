"""Rows with texts of many megabytes."""

from __future__ import annotations

import re
import sys
from typing import Any

import mgi
import pytest
from run_support import Runner, needs_control

pa = pytest.importorskip("pyarrow")

TEXTS = ["y" * 5_000_000, "z", None, "x" * 40_000_000, "w" * 13]
TABLE = pa.table({"k": [1, 2, 2, 1, 3], "doc": TEXTS, "n": [10, 20, 30, 40, 50]})


def rows(parts: list[Any]) -> list[tuple[Any, ...]]:
    found = [
        row for part in parts for row in zip(*part.to_arrow().to_pydict().values(), strict=True)
    ]
    return sorted(found, key=lambda row: tuple((value is None, value) for value in row))


EXPECTED = rows([mgi.exchange(TABLE, "k", endpoints=1)[0]])


@pytest.mark.parametrize("key", ["k", "doc"])
def test_exchange(key: str, by_reference: bool) -> None:
    stats: dict[str, Any] = {}
    got = mgi.exchange(TABLE, key, endpoints=2, by_reference=by_reference, stats=stats)
    assert rows(got) == EXPECTED
    assert stats["rows"] == len(TEXTS)
    assert all(part.to_arrow().schema.field("doc").type == pa.string() for part in got)


def test_group_by_such_keys(by_reference: bool) -> None:
    twice = pa.concat_tables([TABLE, TABLE])
    got = rows(
        mgi.group_by(
            twice, "doc", [("count", None, "rows")], endpoints=2, by_reference=by_reference
        )
    )
    assert got == [*sorted((text, 2) for text in TEXTS if text is not None), (None, 2)]


def test_aggregates_of_such_texts() -> None:
    wanted = [("max", "doc", "last"), ("min", "doc", "first"), ("first", "doc", "any")]
    got = rows(mgi.group_by(TABLE, "k", wanted, endpoints=2))
    assert [row[:3] for row in got] == [
        (1, TEXTS[0], TEXTS[3]),
        (2, "z", "z"),
        (3, TEXTS[4], TEXTS[4]),
    ]
    assert got[0][3] in (TEXTS[0], TEXTS[3])


@pytest.mark.parametrize("size", [600_000, 3_900_000])
def test_states_that_hold_a_text_several_times(size: int) -> None:
    texts = ["a" * size, "b" * size, *["c"] * 40_000]
    table = pa.table({"k": [1] * len(texts), "doc": texts})
    wanted = [("min", "doc", "first"), ("max", "doc", "last"), ("count", None, "rows")]
    assert rows(mgi.group_by(table, "doc", wanted, endpoints=2)) == [
        (texts[0], texts[0], texts[0], 1),
        (texts[1], texts[1], texts[1], 1),
        ("c", "c", "c", 40_000),
    ]
    assert rows(mgi.group_by(table, "k", wanted, endpoints=2)) == [(1, texts[0], "c", 40_002)]


def test_a_list_of_a_million_values() -> None:
    lists = pa.array([list(range(1_000_000)), [1], None])
    table = pa.table({"k": [1, 2, 3], "list": lists})
    for key in ("k", "list"):
        got = pa.concat_tables(p.to_arrow() for p in mgi.exchange(table, key, endpoints=2))
        assert got.sort_by("k").equals(table)


def test_sort() -> None:
    got = mgi.sort(TABLE, [("doc", "desc")], endpoints=2)
    texts = [text for part in got for text in part.to_arrow()["doc"].to_pylist()]
    assert texts == [*sorted((text for text in TEXTS if text is not None), reverse=True), None]


@pytest.mark.parametrize("broadcast", [False, True])
def test_join(broadcast: bool, by_reference: bool) -> None:
    names = pa.table({"k": [1, 2], "name": ["a" * 6_000_000, "b"]})
    got = mgi.join(TABLE, names, "k", endpoints=2, broadcast=broadcast, by_reference=by_reference)
    name = dict(zip(*names.to_pydict().values(), strict=True))
    assert rows(got) == [(*row, name[row[0]]) for row in EXPECTED if row[0] in name]


def test_many_small_rows_with_a_large_one() -> None:
    count = 50_000
    table = pa.table(
        {"k": range(count), "doc": [f"the text of row {k}" for k in range(count - 1)] + [TEXTS[3]]}
    )
    stats: dict[str, Any] = {}
    with mgi.Runtime.local(memory_limit=512 << 20) as runtime:
        endpoints = [runtime.create_endpoint("cpu") for _ in range(8)]
        got = mgi.exchange(table, "k", endpoints=endpoints, runtime=runtime, stats=stats)
        assert sum(part.num_rows for part in got) == count == stats["rows"]
        assert rows(got) == rows([mgi.exchange(table, "k", endpoints=1)[0]])


def test_the_memory_limit_is_named() -> None:
    with mgi.Runtime.local(memory_limit=32 << 20) as runtime:
        endpoints = [runtime.create_endpoint("cpu") for _ in range(2)]
        with pytest.raises(
            mgi.OutOfMemory,
            match=r"exchange's result.* need 38\.1 MiB \(400\d+ bytes\).*"
            r"32 MiB \(33554432 bytes\) in all: raise receive_limit, or the runtime's memory_limit",
        ):
            mgi.exchange(TABLE, "k", endpoints=endpoints, runtime=runtime)


def test_channel(by_reference: bool, background: Any) -> None:
    with mgi.Runtime.local() as runtime:
        source, destination = runtime.create_endpoint("cpu"), runtime.create_endpoint("cpu")
        channel = runtime.create_channel(
            [source],
            [destination],
            TABLE.schema,
            mgi.Broadcast(),
            by_reference=by_reference,
            text_bytes_per_row=40_000_000,
            slots=2,
            max_groups=1,
            name="docs",
        )
        sender = background(lambda: (channel.send(TABLE.to_batches()[0]), channel.flush()))
        got = [pa.record_batch(batch) for batch in channel.batches(timeout=60)]
        sender.join()
        assert pa.Table.from_batches(got).to_pydict() == TABLE.to_pydict()
        with (
            runtime.create_channel(
                [source], [destination], TABLE.schema, mgi.Broadcast(), name="small"
            ) as small,
            pytest.raises(mgi.Refused, match=r"'small'.*row 0.*text_bytes_per_row"),
        ):
            small.send(TABLE.to_batches()[0])


PROGRAM = """
import mgi
import pyarrow as pa

job = mgi.job()
runtime = mgi.Runtime.connect(timeout=60)
endpoints = runtime.gather_endpoints([runtime.create_endpoint("cpu")])
call = {"endpoints": endpoints, "runtime": runtime, "patience": 60}
letter = "xy"[job.rank]
docs = [letter * 5_000_000, letter, letter * 40_000_000]
table = pa.table({"k": [job.rank, 2, 3], "doc": docs})


def lengths(parts, column):
    texts = [text for part in parts for text in part.to_arrow()[column].to_pylist()]
    assert all(text == text[0] * len(text) for text in texts)
    return [text[0] + str(len(text)) for text in texts]


def say(what, found):
    print(what, job.rank, *found, flush=True)


for by_reference in (True, False):
    found = mgi.exchange(table, "k", by_reference=by_reference, **call)
    say("exchange", lengths(found, "doc"))
say("keys", lengths(mgi.group_by(table, "doc", [("count", None, "n")], **call), "doc"))
say("max", lengths(mgi.group_by(table, "k", [("max", "doc", "m")], **call), "m"))
say("sort", lengths(mgi.sort(table, "doc", **call), "doc"))
for broadcast in (False, True):
    found = mgi.join(table[:2], table[:2], "k", broadcast=broadcast, **call)
    say("join", lengths(found, "doc_right"))
"""


@needs_control
def test_two_processes(runner: Runner) -> None:
    started = runner.start("-n", "2", "--no-tag", "--", sys.executable, "-c", PROGRAM)
    out, err = (text.decode() for text in started.communicate(timeout=180))
    assert started.returncode == 0, err + out
    found: dict[str, list[str]] = {}
    for line in out.splitlines():
        what, _, *texts = line.split()
        assert re.fullmatch(r"\w+", what), line
        found.setdefault(what, []).extend(texts)
    large = ["x1", "x40000000", "x5000000", "y1", "y40000000", "y5000000"]
    assert sorted(found["exchange"]) == sorted(2 * large)
    assert sorted(found["keys"]) == sorted(found["sort"]) == large
    assert sorted(found["max"]) == ["x5000000", "y1", "y40000000", "y5000000"]
    # Both processes have key 2.
    assert sorted(found["join"]) == sorted(2 * [*2 * ["x1", "y1"], "x5000000", "y5000000"])
