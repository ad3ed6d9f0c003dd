"""tools/faults: a few exchanges of each fault, and that its verdict sees what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from beds import needs_kernel
from mgi.testbed import Testbed, known_testbeds
from processes import CONTROL, ROOT

sys.path.insert(0, str(ROOT / "tools"))

from fault_suite.counted import whole
from fault_suite.grounds import bed_name
from fault_suite.job import Setup
from fault_suite.verdict import Outcome, judge

LIMIT = 280
"""Seconds; a run takes two or three, its own deadlines end it before that."""

FEW = int(os.environ.get("MGI_TEST_CASES", "100")) < 100
"""Half as many exchanges."""


needs_programs = pytest.mark.skipif(
    not CONTROL.exists(), reason=f"no {CONTROL}: it needs protobuf and libcurl"
)


def exchanges(folder: Path, kinds: str, times: int) -> None:
    """Runs the suite, and takes its testbed away should it be killed."""
    seed = ["--seed", seed] if (seed := os.environ.get("MGI_TEST_SEED")) else []
    found = folder / "found.json"
    if FEW:
        times = (times + 1) // 2
    words = ["--kinds", kinds, "--times", times, "--minutes", "1", "--json", found, *seed]
    suite = subprocess.Popen(
        [sys.executable, str(ROOT / "tools/faults"), *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    bed = bed_name(suite.pid)
    try:
        printed, _ = suite.communicate(timeout=LIMIT)
        assert suite.returncode == 0, printed
        assert bed not in known_testbeds()
    finally:
        suite.kill()
        suite.wait()
        Testbed(bed).down()
    runs = json.loads(found.read_text())["runs"]
    assert runs
    assert not any(run["complaints"] for run in runs)


@needs_programs
@pytest.mark.parametrize(
    ("kinds", "times"),
    [
        ("kill|launched", 4),
        ("stop|freeze", 2),
        ("controller-.*", 3),
        ("agent-.*", 4),
        ("descriptors|memory|shm|garbage", 5),
    ],
)
def test_complete_or_an_error_and_nothing_left(tmp_path: Path, kinds: str, times: int) -> None:
    exchanges(tmp_path, kinds, times)


@needs_kernel
@needs_programs
@pytest.mark.parametrize(
    ("kinds", "times"), [("nic|nics|nic-slow|server", 4), ("server-for-ever|far-.*|port", 5)]
)
def test_the_same_between_servers(tmp_path: Path, kinds: str, times: int) -> None:
    exchanges(tmp_path, kinds, times)


def setup(routing: str = "partition") -> Setup:
    return Setup(2, 100, 0, routing, True, 64, False, 15, 5)


SENT = [whole(0, 100), whole(1, 100)]


def arrived() -> Outcome:
    """Everything of each sender at the destination of its own rank."""
    sums = {0: [SENT[0], [0, 0]], 1: [[0, 0], SENT[1]]}
    return Outcome(sums=sums, left={0, 1}, statuses={0: 0, 1: 0})


def complaints(outcome: Outcome, dead: Any = (), **options: Any) -> list[str]:
    return judge(outcome, options.get("setup", setup()), SENT, dead, options.get("lossless", False))


def test_what_is_exact_is_right() -> None:
    assert complaints(arrived(), lossless=True) == []


def test_lost_and_changed_rows_are_seen() -> None:
    lost = arrived()
    lost.sums[1] = [[0, 0], whole(1, 99)]
    assert "all have" in complaints(lost)[0]
    changed = arrived()
    changed.sums[1] = [[0, 0], [100, SENT[1][1] + 1]]
    assert "all have" in complaints(changed)[0]
    doubled = Outcome(wrong={0: "a row came twice"}, statuses={0: 0, 1: 0}, left={1})
    assert complaints(doubled) == ["rank 0: a row came twice"]


def test_each_destination_of_a_broadcast_has_all() -> None:
    found = complaints(arrived(), setup=setup("broadcast"))
    assert [text.split(",")[0][:6] for text in found] == ["rank 1", "rank 0"]


def test_more_than_was_sent_is_seen_though_some_have_died() -> None:
    outcome = arrived()
    outcome.sums = {0: [SENT[0], [101, 7]]}
    assert "more rows of rank 1" in complaints(outcome, dead=[1])[0]


def test_who_lives_must_say_something() -> None:
    silent = Outcome(statuses={0: 0, 1: -9})
    assert complaints(silent, dead=[1]) == ["rank 0 ended without a word"]
    crashed = Outcome(statuses={0: -6, 1: -9})
    assert complaints(crashed, dead=[1]) == ["rank 0 ended with -6"]
    told = Outcome(errors={0: "GroupFailed: rank 1 has died"}, statuses={0: 0, 1: -9})
    assert complaints(told, dead=[1]) == []
    assert "got an error" in complaints(told, dead=[1], lossless=True)[0]
