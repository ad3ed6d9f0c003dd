"""mgi run: inside Slurm, MPI and torchrun."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from mgi.errors import Error
from mgi.jobs import Job
from mgi.run import launched, main
from run_support import LAUNCHERS, SHOW, Runner, changed, in_shell, needs_control


def slurm(rank: int, size: int, step: str = "0") -> dict[str, str]:
    return {
        "SLURM_JOB_ID": "4711",
        "SLURM_STEP_ID": step,
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank),
        "SLURM_NODEID": "0",
        "SLURM_STEP_NUM_TASKS": str(size),
        "SLURM_STEP_TASKS_PER_NODE": str(size),
    }


@needs_control
def test_ranks_of_slurm_share_an_agent(runner: Runner) -> None:
    show = f'{SHOW}; echo "$MGI_AGENT"; sleep 0.$((9 * MGI_RANK))'
    started = [
        runner.start("--no-tag", "--", "sh", "-c", show, **slurm(rank, 3)) for rank in (2, 1, 0)
    ]
    found = [runner.finish(one) for one in started]
    host = os.uname().nodename
    agents = set()
    for rank, (status, out, err) in zip((2, 1, 0), found, strict=True):
        assert status == 0, err
        place, agent = out.splitlines()
        assert place == f"{rank}/3 {rank}/3 {host} 4711"
        agents.add(agent)
    assert len(agents) == 1
    runner.wait_until_gone()


@pytest.mark.parametrize(
    ("words", "per_node", "why"),
    [
        (["-n", "4"], "3", "-n is 4, and this is process 1 of 3 that Slurm has started"),
        (["--hosts", "hosts"], "3", "leave out --hosts"),
        ([], "1,2", "SLURM_LOCALID is 1 and SLURM_STEP_TASKS_PER_NODE is 1"),
        ([], "2,1", "several servers, which need a controller"),
    ],
)
def test_what_a_rank_of_a_launcher_cannot_ask_for(
    words: list[str],
    per_node: str,
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in [name for name in os.environ if name.startswith(LAUNCHERS)]:
        monkeypatch.delenv(name)
    for name, value in (slurm(1, 3) | {"SLURM_STEP_TASKS_PER_NODE": per_node}).items():
        monkeypatch.setenv(name, value)
    assert main([*words, "--", "true"]) == 1
    assert why in capsys.readouterr().err


@needs_control
def test_a_failure_ends_all_ranks_that_a_launcher_has_made_here(runner: Runner) -> None:
    script = '[ "$MGI_RANK" = 1 ] && exit 6; sleep 1000'
    started = [runner.start("--", "sh", "-c", script, **slurm(rank, 3)) for rank in range(3)]
    found = [runner.finish(one) for one in started]
    assert [status for status, _, _ in found] == [143, 6, 143]
    for rank in (0, 2):
        assert (
            f"rank {rank} was ended, since another one of its server has failed" in found[rank][2]
        )
    runner.wait_until_gone()


@needs_control
def test_nothing_is_left_when_the_first_rank_of_a_launcher_is_killed(runner: Runner) -> None:
    script = "echo >> ready; exec sleep 1000"
    words = ("--grace", "0.3", "--", "sh", "-c", script)
    first, second = (runner.start(*words, **slurm(rank, 2)) for rank in range(2))
    runner.wait_for_file("ready", 2)
    first.kill()
    second.kill()
    runner.wait_until_gone()


SAYS_THAT_IT_LOOKS = """
import pathlib, mgi.run.launched as l
join = l.Meeting.join
def says_and_joins(self):
    pathlib.Path("looks").write_text("for the first\\n")
    return join(self)
l.Meeting.join = says_and_joins
"""


@needs_control
def test_the_others_hear_that_the_first_has_no_agent(runner: Runner) -> None:
    usual, runner.command = runner.command, changed(SAYS_THAT_IT_LOOKS)
    second = runner.start("--controller", "nowhere", "--", "true", **slurm(1, 2))
    # Who came when the first has gone would look for it for long.
    runner.wait_for_file("looks")
    runner.command = usual
    first = runner.start("--controller", "nowhere", "--", "true", **slurm(0, 2))
    status, _, err = runner.finish(first)
    assert status == 1
    assert "the agent of" in err
    assert "did not start" in err
    status, _, err = runner.finish(second)
    assert status == 1
    assert "the first mgi run of this server has ended" in err
    runner.wait_until_gone()


@needs_control
def test_the_first_rank_that_fails_waits_for_nobody(runner: Runner) -> None:
    status, _, err = runner.run("--", "sh", "-c", "exit 5", **slurm(0, 2))
    assert status == 5
    assert "rank 0" in err
    runner.wait_until_gone()


@needs_control
def test_the_first_rank_does_not_wait_for_ever_for_one_that_never_comes(runner: Runner) -> None:
    runner.command = changed("import mgi.run.launched as l; l.PATIENCE = 0.2")
    status, _, err = runner.run("--", "true", **slurm(0, 2))
    assert (status, err) == (0, "")
    runner.wait_until_gone()


def torchrun(rank: int, size: int) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(size),
        "TORCHELASTIC_RUN_ID": "none",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29512",
    }


@needs_control
def test_ranks_of_torchrun_find_each_other_from_shells_of_their_own(runner: Runner) -> None:
    runner.command = in_shell('"$@"; exit $?')
    words = ("--no-tag", "--", "sh", "-c", 'echo "$MGI_AGENT"')
    started = [runner.start(*words, **torchrun(rank, 2)) for rank in range(2)]
    found = [runner.finish(one) for one in started]
    assert [status for status, _, _ in found] == [0, 0], found
    assert found[0][1] == found[1][1] != ""
    runner.wait_until_gone()


def test_a_first_rank_that_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (torchrun(0, 2) | {"XDG_RUNTIME_DIR": "/tmp"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", str(tmp_path))
    monkeypatch.setattr(launched, "PATIENCE", 0.2)
    first, second = (
        launched.Meeting(Job("", rank, 2, rank, 2, "here", "torchrun")) for rank in range(2)
    )
    try:
        assert first.join() is None
        with pytest.raises(Error, match="has not said where its agent is in"):
            second.join()
    finally:
        first.close()


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Of whose name a socket's may begin, wherever the tests run."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


def test_folders_of_others_are_passed_by(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launched, "private_base", lambda: short_folder)
    meetings = [launched.Meeting(Job("name", rank, 2, rank, 2, "here", "test")) for rank in (0, 1)]
    taken = meetings[0]._folders[0]
    taken.mkdir()
    taken.chmod(0o777)  # as one that somebody else has made
    assert meetings[0].join() is None
    meetings[0].tell("/an/agent.sock")
    ended: list[str | None] = []
    joins = threading.Thread(target=lambda: ended.append(meetings[1].join()), daemon=True)
    joins.start()
    watched = Watched()
    meetings[0].watch(watched, lambda: None)  # type: ignore[arg-type]
    next(iter(watched.values()))()
    joins.join(30)
    assert ended == ["/an/agent.sock"]
    assert meetings[0].own_folder == meetings[0]._folders[1]
    for meeting in meetings:
        meeting.close()
    assert not meetings[0]._folders[1].exists()
    assert taken.exists()


class Watched(dict[int, Callable[[], None]]):
    """What a supervisor is asked to watch; the test says when there is something to read."""

    def watch(self, descriptor: int, readable: Callable[[], None]) -> None:
        self[descriptor] = readable

    def unwatch(self, descriptor: int) -> None:
        del self[descriptor]


def test_half_a_word_of_another_rank_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as other:
        monkeypatch.setattr(launched, "private_base", lambda: Path(folder))
        meeting = launched.Meeting(Job("name", 0, 2, 0, 2, "here", "test"))
        assert meeting.join() is None
        watched = Watched()
        meeting.watch(watched, lambda: None)  # type: ignore[arg-type]
        assert meeting.own_folder is not None
        other.connect(str(meeting.own_folder / "meeting.sock"))
        (take_in,) = watched.values()
        take_in()
        other.sendall(b"fai")
        hears = threading.Thread(target=list(watched.values())[-1], daemon=True)
        hears.start()
        hears.join(30)
        assert not hears.is_alive()
        meeting.close()
