"""Channels between servers: processes on a testbed, whose NICs and servers fail while rows move."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from beds import NAME, fail, needs_control, needs_kernel, standing
from processes import PATIENCE, wait_for

pytestmark = [needs_kernel, needs_control]

MEMBER = Path(__file__).with_name("member.py")
LONG = 4 * PATIENCE
"""Several interpreters, agents and a controller start at once here."""
ROWS = 6_000


@pytest.fixture(scope="module", autouse=True)
def made() -> Iterator[None]:
    # A place of our own for jobs: `mgi top` is to find ours, and tests beside these have some, too.
    with (
        TemporaryDirectory(prefix="mgi-", dir="/tmp") as base,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("XDG_RUNTIME_DIR", base)
        with standing("--servers", "2", "--nics", "2", "--rate", "400mbit"):
            yield


class Job:
    """Processes of member.py, shared out to the servers of the testbed."""

    def __init__(self, size: int, *arguments: str, **environment: str) -> None:
        words = ["-n", str(size), "--servers-of-testbed", NAME]
        for name, value in environment.items():
            words += ["--env", f"{name}={value}"]
        words += ["--", sys.executable, str(MEMBER)]
        self.size = size
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "mgi.cli", "run", *words, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.popen.terminate()
        self.popen.communicate(timeout=LONG)

    def found(self) -> list[Any]:
        """What each process has found out, by rank."""
        out, err = self.popen.communicate(timeout=LONG)
        assert self.popen.returncode == 0, out + err
        last = dict(line[1:].split("] ", 1) for line in out.splitlines() if line.startswith("["))
        return [json.loads(last[str(rank)]) for rank in range(self.size)]

    def wait_until_rows_move(self, folder: Path) -> None:
        def moving() -> bool:
            assert self.popen.poll() is None, self.popen.communicate()
            return all((folder / f"moves-{rank}").exists() for rank in range(self.size))

        wait_for("rows", moving, LONG)


def sums(first: int, count: int) -> list[int]:
    keys = range(first, first + count)
    return [count, sum(keys)]


@pytest.mark.parametrize("size", [2, 3])
def test_every_row_arrives_once(size: int) -> None:
    with Job(size, "exchange", "ordered broadcast") as job:
        found = job.found()
    assert len(found[0]) == 8, found
    for name in found[0]:
        for source in map(str, range(size)):
            here = [of[name][source] for of in found]
            whole = sums(int(source) * ROWS, ROWS)
            if "broadcast" in name:
                assert here == [whole] * size, f"{name}: from {source}"
            else:
                assert [sum(column) for column in zip(*here, strict=True)] == whole, name


def test_one_server_makes_an_order() -> None:
    with Job(2, "exchange", "partition", "broadcast", "direct", "balance") as job:
        found = job.found()
    for each in found:
        assert each["error"] == "InvalidArgument"
        assert "an ordered broadcast has one order" in each["text"]


def stop(job: Job, folder: Path) -> None:
    """Lets them end; nothing may be lost."""
    (folder / "stop").touch()
    found = job.found()
    assert all("error" not in each for each in found), found
    assert sum(each["sent"] for each in found) == sum(each["received"] for each in found)
    assert all(each["sent"] > 0 for each in found)


def test_nics_go_down_and_come_back_while_rows_move(tmp_path: Path) -> None:
    with Job(2, "stream", str(tmp_path)) as job:
        job.wait_until_rows_move(tmp_path)
        for server, nic in [("0", "0"), ("1", "1"), ("0", "1")]:
            fail("nic", server, nic)
            time.sleep(0.5)
            fail("nic", server, nic, "--up")
            time.sleep(0.5)
        # All of them, for a moment.
        for nic in ("0", "1"):
            fail("nic", "0", nic)
        time.sleep(1)
        for nic in ("0", "1"):
            fail("nic", "0", nic, "--up")
        time.sleep(0.5)
        stop(job, tmp_path)


def top() -> Any:
    """What mgi top finds of the job without being told where it is."""
    said = subprocess.run(
        [sys.executable, "-m", "mgi.cli", "top", "--once", "--json"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)


def test_mgi_top_shows_wires_and_nics_and_what_is_sent_again(tmp_path: Path) -> None:
    with Job(2, "stream", str(tmp_path)) as job:
        job.wait_until_rows_move(tmp_path)

        def busy() -> Any:
            shown = top()
            wires = [path for path in shown["paths"] if path["nic"] and path["gbps"] > 0]
            return shown if len(wires) == 4 else None

        shown = wait_for("four wires that carry rows", busy, LONG)
        wires = {(path["server"], path["nic"]): path for path in shown["paths"] if path["nic"]}
        nics = {(nic["server"], nic["name"]): nic for nic in shown["nics"]}
        assert set(wires) == {(f"server{s}", f"nic{n}") for s in (0, 1) for n in (0, 1)}
        assert wires["server0", "nic0"]["peer"].startswith("rank 1 on server ")
        for name, wire in wires.items():
            assert (wire["by"], wire["from"], wire["to"]) == ("wire", None, None)
            assert wire["segments"] > 0
            assert nics[name]["payload_gbps"] > 0
            assert nics[name]["payload_bytes"] >= wire["bytes"]
            assert nics[name]["out_capacity_gbps"] == pytest.approx(0.05)
        ends = [path for path in shown["paths"] if not path["nic"]]
        assert {path["by"] for path in ends} <= {"wire", "reference"}

        fail("nic", "0", "0")
        wait_for("segments that are sent again", lambda: any(
            nic["resends"] > 0 for nic in top()["nics"]), LONG)  # fmt: skip
        fail("nic", "0", "0", "--up")
        stop(job, tmp_path)


def test_a_nic_that_is_no_device_of_ours_is_borrowed(tmp_path: Path) -> None:
    with Job(2, "stream", str(tmp_path), MGI_ADDRESSES="nic0@cpu:0,nic1@") as job:
        job.wait_until_rows_move(tmp_path)
        wait_for("both NICs that carry rows", lambda: len(
            {path["nic"] for path in top()["paths"] if path["nic"] and path["gbps"] > 0}) == 2,
            LONG)  # fmt: skip
        stop(job, tmp_path)


def test_a_nic_of_a_device_that_there_is_not_is_an_error() -> None:
    with Job(2, "exchange", MGI_ADDRESSES="nic0@cpu:77,nic1") as job:
        for each in job.found():
            assert each["error"] == "InvalidArgument"
            assert "'nic0@cpu:77'" in each["text"]


def test_a_server_is_cut_off_and_healed(tmp_path: Path) -> None:
    with Job(2, "stream", str(tmp_path)) as job:
        job.wait_until_rows_move(tmp_path)
        fail("server", "1")
        time.sleep(2)
        fail("server", "1", "--up")
        time.sleep(1)
        stop(job, tmp_path)


def pid_of(job: Job, rank: int) -> int:
    """A process of a job by its environment."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "environ").read_bytes().split(b"\0")
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if f"MGI_RANK={rank}".encode() in words and str(MEMBER).encode() in line.split(b"\0"):
            return int(entry.name)
    raise AssertionError(f"no rank {rank}")


def test_a_process_that_is_stopped_for_a_moment_loses_nothing(tmp_path: Path) -> None:
    with Job(2, "stream", str(tmp_path)) as job:
        job.wait_until_rows_move(tmp_path)
        pid = pid_of(job, 1)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.5)
        stop(job, tmp_path)


def test_a_process_that_is_killed_is_an_error_on_the_other_server(tmp_path: Path) -> None:
    with Job(2, "stream", str(tmp_path)) as job:
        job.wait_until_rows_move(tmp_path)
        os.kill(pid_of(job, 1), signal.SIGKILL)
        out, err = job.popen.communicate(timeout=LONG)
    assert job.popen.returncode == 128 + signal.SIGKILL, out + err
    assert "rank 1 (server1" in err
