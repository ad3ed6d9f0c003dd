"""Rows along a chain of servers, of which only neighbours reach each other."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from beds import fail, needs_control, needs_kernel, run, standing
from processes import wait_for
from test_servers import LONG, ROWS, Job, pid_of, stop, sums, top
from test_testbed import reaches

pytestmark = [needs_kernel, needs_control]

SERVERS = 4


@pytest.fixture(scope="module", autouse=True)
def made() -> Iterator[None]:
    with standing("--servers", str(SERVERS), "--nics", "2", "--rate", "400mbit", "--chain"):
        yield


def test_only_neighbours_reach_each_other() -> None:
    assert reaches("10.1.0.1", "10.1.0.2")
    for other in ("10.1.0.3", "10.1.0.4", "10.2.0.2"):
        assert not reaches("10.1.0.1", other)


def test_a_chain_takes_a_nic_to_each_neighbour() -> None:
    done = run("testbed", "up", "--name", "nobody", "--chain")
    assert done.returncode == 1
    assert "--chain takes --nics 2 at least" in done.stderr


def test_every_row_arrives_once() -> None:
    with Job(SERVERS, "exchange", "ordered broadcast", "balance", "direct") as job:
        found = job.found()
    assert len(found[0]) == 4, found
    for name in found[0]:
        for source in map(str, range(SERVERS)):
            here = [of[name][source] for of in found]
            whole = sums(int(source) * ROWS, ROWS)
            if "broadcast" in name:
                assert here == [whole] * SERVERS, f"{name}: from {source}"
            else:
                assert [sum(column) for column in zip(*here, strict=True)] == whole, name


def test_mgi_top_names_all_relays(tmp_path: Path) -> None:
    def between_ends() -> list[Any]:
        ends = [("server0", "server3"), ("server3", "server0")]
        there = [path for path in top()["paths"] if path["peer"] and path["bytes"]]
        return [path for path in there if (path["server"], path["peer"].split()[-1]) in ends]

    with Job(SERVERS, "stream", str(tmp_path)) as job:
        job.wait_until_rows_move(tmp_path)
        wait_for("rows both ways", lambda: len(between_ends()) == 2, LONG)
        by = {path["server"]: path["by"] for path in between_ends()}
        one, two = "rank 1 on server server1", "rank 2 on server server2"
        assert by == {
            "server0": f"wire through {one}, {two}",
            "server3": f"wire through {two}, {one}",
        }
        stop(job, tmp_path)


def test_a_chain_that_is_cut_is_an_error_on_every_server(tmp_path: Path) -> None:
    with Job(SERVERS, "stream", str(tmp_path)) as job:
        job.wait_until_rows_move(tmp_path)
        fail("nic", "1", "1")
        try:
            found = job.found()
        finally:
            fail("nic", "1", "1", "--up")
    assert all("error" in each for each in found), found
    assert any("there was no wire" in each["text"] for each in found), found


def test_a_relay_that_is_killed_ends_the_job(tmp_path: Path) -> None:
    with Job(SERVERS, "stream", str(tmp_path)) as job:
        job.wait_until_rows_move(tmp_path)
        os.kill(pid_of(job, 1), signal.SIGKILL)
        out, err = job.popen.communicate(timeout=LONG)
    assert job.popen.returncode == 128 + signal.SIGKILL, out + err
    assert "rank 1 (server1" in err


def test_a_relay_that_stands_still_is_an_error_on_every_server(tmp_path: Path) -> None:
    with Job(SERVERS, "stream", str(tmp_path)) as job:
        job.wait_until_rows_move(tmp_path)
        pids = [pid_of(job, rank) for rank in range(SERVERS)]
        os.kill(pids[1], signal.SIGSTOP)
        try:
            others = [Path("/proc", str(pids[rank])) for rank in (0, 2, 3)]
            wait_for("others' end", lambda: not any(path.exists() for path in others), LONG)
        finally:
            os.kill(pids[1], signal.SIGCONT)
        found = job.found()
    assert all("error" in each for each in found), found
