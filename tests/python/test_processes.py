"""Channels over several Python processes of one server, with a controller and an agent."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from processes import CONTROL, PATIENCE, ROOT, Agent, Controller, wait_for
from run_support import Runner, needs_control

MEMBER = Path(__file__).with_name("member.py")
ROWS = 6_000
LONG = 3 * PATIENCE
"""Several interpreters start at once here."""


class Job:
    """Processes of a job, as mgi run starts them, except that nobody ends them all if one fails."""

    def __init__(self, agent: Agent, size: int, name: str, *arguments: str) -> None:
        self.agent = agent
        place = {
            "MGI_SIZE": size,
            "MGI_LOCAL_SIZE": size,
            "MGI_JOB": name,
            "MGI_AGENT": agent.socket,
        }
        self.members = [
            subprocess.Popen(
                [sys.executable, str(MEMBER), *arguments],
                env=os.environ
                | {n: str(v) for n, v in place.items()}
                | {"MGI_RANK": str(rank), "MGI_LOCAL_RANK": str(rank), "MGI_SERVER": agent.name},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(size)
        ]

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            with contextlib.suppress(ProcessLookupError):
                member.kill()
            member.communicate()

    def found(self, rank: int) -> Any:
        """What a process has found out."""
        out, err = self.members[rank].communicate(timeout=LONG)
        assert self.members[rank].returncode == 0, f"rank {rank}: {err}"
        return json.loads(out.splitlines()[-1])

    def wait_until_rows_move(self, folder: Path) -> int:
        """The channel's id, once every process has received something."""

        def moving() -> list[str]:
            for rank, member in enumerate(self.members):
                assert member.poll() is None, f"rank {rank}: {member.communicate()}"
            texts = [folder / f"moves-{rank}" for rank in range(len(self.members))]
            return [text.read_text() for text in texts]

        wait_for("rows", lambda: all(moving()), LONG)
        return int(moving()[0])


@pytest.fixture(autouse=True, scope="module")
def programs() -> None:
    assert CONTROL.exists(), f"no {CONTROL}: cmake --build build/release, with libcurl installed"


def parts_of(agent: Agent) -> list[str]:
    """What the agent keeps of channels' memory."""
    found = []
    for entry in Path(f"/proc/{agent.popen.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(str(entry.readlink()))
    return [name for name in found if name.startswith("/memfd:")]


def sums(first: int, count: int) -> list[int]:
    keys = range(first, first + count)
    return [count, sum(keys)]


@pytest.mark.parametrize("size", [2, 3])
def test_every_row_arrives_once(
    controller: Controller, agent: Agent, tmp_path: Path, size: int
) -> None:
    with Job(agent, size, "exchange", "exchange") as job:
        found = [job.found(rank) for rank in range(size)]
    for name in found[0]:
        for source in map(str, range(size)):
            here = [of[name][source] for of in found]
            whole = sums(int(source) * ROWS, ROWS)
            if "broadcast" in name:
                assert here == [whole] * size, f"{name}: from {source}"
            elif "direct" in name:
                shares = [
                    sums(int(source) * ROWS + part * ROWS // size, ROWS // size)
                    for part in range(size)
                ]
                assert here == shares, f"{name}: from {source}"
            else:
                assert [sum(column) for column in zip(*here, strict=True)] == whole, name
    wait_for("the end of all", lambda: not controller.status()["endpoints"])
    states = {channel["state"] for channel in controller.status()["channels"]}
    assert states == {"deleted"}
    assert parts_of(agent) == []


@needs_control
def test_the_example(runner: Runner) -> None:
    status, out, err = runner.run(
        "-n", "2", "--", sys.executable, str(ROOT / "examples" / "processes.py")
    )
    assert status == 0, err
    said = sorted(line.split(" has ") for line in out.splitlines())
    assert [who for who, _ in said] == ["[0] rank 0 of 2", "[1] rank 1 of 2"]
    assert sum(int(rows.split()[0]) for _, rows in said) == 200_000
    runner.wait_until_gone()


def test_a_killed_process_is_an_error_in_all_others(
    controller: Controller, agent: Agent, tmp_path: Path
) -> None:
    seed = int(os.environ.get("MGI_TEST_SEED", time.time_ns() % 1_000_000))
    print(f"MGI_TEST_SEED={seed}")
    moments = random.Random(seed)
    for turn in range(4):
        folder = tmp_path / str(turn)
        folder.mkdir()
        size = 2 + turn % 2
        with Job(agent, size, f"killed {turn}", "stream", str(folder)) as job:
            number = job.wait_until_rows_move(folder)
            assert len(parts_of(agent)) == 1
            time.sleep(moments.random() * 0.3)
            victim = moments.randrange(size)
            job.members[victim].kill()
            for rank in range(size):
                if rank == victim:
                    continue
                found = job.found(rank)
                assert found.get("error") in ("GroupFailed", "Stalled"), found
            # A failed channel is forgotten with its last process.
            assert controller.channel(number)["state"] in ("failed", "unknown")
    wait_for("the end of all", lambda: not controller.status()["endpoints"])
    wait_for("the end of their memory", lambda: parts_of(agent) == [])


def test_a_stopped_process_goes_on(controller: Controller, agent: Agent, tmp_path: Path) -> None:
    with Job(agent, 2, "stopped", "stream", str(tmp_path)) as job:
        job.wait_until_rows_move(tmp_path)
        job.members[1].send_signal(signal.SIGSTOP)
        time.sleep(1)
        job.members[1].send_signal(signal.SIGCONT)
        time.sleep(0.2)
        (tmp_path / "stop").touch()
        found = [job.found(rank) for rank in range(2)]
    assert sum(of["sent"] for of in found) == sum(of["received"] for of in found)


def test_agent_and_controller_may_be_started_again(
    controller: Controller, agent: Agent, tmp_path: Path
) -> None:
    with Job(agent, 2, "restarts", "stream", str(tmp_path)) as job:
        number = job.wait_until_rows_move(tmp_path)
        agent.kill()
        time.sleep(0.2)
        agent.start()
        wait_for("its part is there again", lambda: len(parts_of(agent)) == 1)
        controller.kill()
        controller.start()
        wait_for("its return", lambda: controller.channel(number)["state"] == "running")
        (tmp_path / "stop").touch()
        found = [job.found(rank) for rank in range(2)]
    assert sum(of["sent"] for of in found) == sum(of["received"] for of in found)
    wait_for("its end", lambda: controller.channel(number)["state"] == "deleted")
    wait_for("the end of its memory", lambda: parts_of(agent) == [])


def test_who_does_not_come_is_named(controller: Controller, agent: Agent, tmp_path: Path) -> None:
    with Job(agent, 2, "absent", "absent", str(tmp_path)) as job:
        found = job.found(0)
        assert found["error"] == "Timeout"
        assert "rank 1 of 2 has not come" in found["text"]
        assert job.found(1) is None
    wait_for("the end of all", lambda: not controller.status()["endpoints"])
    assert parts_of(agent) == []


def test_what_differs_is_named_in_all(agent: Agent) -> None:
    with Job(agent, 2, "differ", "differ") as job:
        first, second = job.found(0), job.found(1)
    # Each calls the channel by its own name for it.
    assert [text.split(": ", 1)[1] for text in first] == [t.split(": ", 1)[1] for t in second]
    slots, name, schema, key = first
    assert "slots is '2' for rank 0 and '4' for rank 1" in slots
    assert "name is 'x' for rank 0 and 'xx' for rank 1" in name
    assert "schema is" in schema
    assert "rank 1: " in key
    assert "nothing" in key
    assert parts_of(agent) == []


def test_who_leaves_early_fails_it_for_the_others(agent: Agent) -> None:
    with Job(agent, 3, "leave", "leave") as job:
        assert job.found(2) == "left"
        for rank in range(2):
            found = job.found(rank)
            assert found["error"] == "Deleted", found
            assert "rank 2" in found["text"]
