"""mgi run: places, output, failures and signals, and that nothing is left over."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from marks import marked, new_mark
from mgi.control import PROGRAM
from processes import PATIENCE, wait_for

MGI = [sys.executable, "-m", "mgi.cli"]
SSH = f"{sys.executable} {Path(__file__).with_name('fake_ssh.py')}"
LAUNCHERS = ("MGI_", "SLURM_", "PMI_", "OMPI_", "MPI_", "RANK", "WORLD_SIZE", "LOCAL_RANK")

needs_control = pytest.mark.skipif(
    not os.access(PROGRAM, os.X_OK), reason="this package was built without the control plane"
)


class Runner:
    """Starts mgi run; everything that comes of it has a mark, and is gone in the end."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mark = folder, new_mark()
        bare = {n: v for n, v in os.environ.items() if not n.startswith(LAUNCHERS)}
        # Short: there are sockets in it.
        self.private = Path(tempfile.mkdtemp(prefix="run-test-", dir="/tmp"))
        self.env = bare | self.mark | {"XDG_RUNTIME_DIR": str(self.private)}
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[bytes]:
        """Starts the command; its output is there to be read."""
        started = subprocess.Popen(
            [*MGI, "run", *arguments],
            env=self.env | env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A shell's background jobs are started with it ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self._started.append(started)
        return started

    def finish(self, started: subprocess.Popen[bytes]) -> tuple[int, str, str]:
        """Its exit status and what it printed."""
        out, err = started.communicate(timeout=PATIENCE)
        return started.returncode, out.decode(), err.decode()

    def run(self, *arguments: str, **env: str) -> tuple[int, str, str]:
        """Runs the command to its end."""
        return self.finish(self.start(*arguments, **env))

    def shell(self, count: int, script: str, *options: str) -> tuple[int, str, str]:
        """Runs a shell script without a cluster."""
        words = ("-n", str(count), "--no-cluster", *options, "--", "sh", "-c", script)
        return self.run(*words)

    def wait_for_file(self, name: str, lines: int = 1) -> list[str]:
        """Lines that processes have written to a file, once there are so many."""

        def whole() -> list[str]:
            found = (self.folder / name).read_text().splitlines()
            return found if len(found) >= lines else []

        return wait_for(f"{lines} lines of {name}", whole)

    def wait_until_gone(self) -> None:
        """Waits until no process has the mark, and no private folder is left."""
        wait_for("the end of all processes", lambda: not marked(self.mark))
        assert list(self.private.iterdir()) == []

    def close(self) -> None:
        # Before their pipes are waited for, which whoever is left holds open.
        while found := marked(self.mark):
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for started in self._started:
                started.poll()
        for started in self._started:
            started.communicate()
        shutil.rmtree(self.private)


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    made = Runner(tmp_path)
    try:
        yield made
    finally:
        made.close()


SHOW = 'echo "$MGI_RANK/$MGI_SIZE $MGI_LOCAL_RANK/$MGI_LOCAL_SIZE $MGI_SERVER $MGI_JOB"'


def test_each_process_has_its_place_and_its_tag(runner: Runner) -> None:
    status, out, err = runner.shell(3, f"{SHOW}; echo bad >&2", "--job", "q1")
    host = os.uname().nodename
    assert status == 0
    assert sorted(out.splitlines()) == [f"[{r}] {r}/3 {r}/3 {host} q1" for r in range(3)]
    assert sorted(err.splitlines()) == ["[0] bad", "[1] bad", "[2] bad"]
    runner.wait_until_gone()


def test_without_tags_output_is_as_it_was(runner: Runner) -> None:
    assert runner.shell(1, "printf 'a\\nb'; printf c >&2", "--no-tag") == (0, "a\nb", "c")


def test_lines_without_an_end_get_one(runner: Runner) -> None:
    status, out, _ = runner.shell(2, "printf 'first\\nsecond'")
    assert status == 0
    assert sorted(out.splitlines()) == ["[0] first", "[0] second", "[1] first", "[1] second"]


def test_the_first_failure_ends_all_and_is_the_exit_status(runner: Runner) -> None:
    status, _, err = runner.shell(3, '[ "$MGI_RANK" = 1 ] && exit 7; sleep 1000')
    assert status == 7
    assert re.fullmatch(
        r"mgi run: rank 1 \(\S+, pid \d+\) ended with exit status 7; "
        r"the others \(2\) were ended\n",
        err,
    )
    runner.wait_until_gone()


def test_a_killed_process_is_a_failure(runner: Runner) -> None:
    script = "echo $$ >> pids; exec sleep 1000"
    started = runner.start("-n", "2", "--no-cluster", "--", "sh", "-c", script)
    os.kill(int(runner.wait_for_file("pids", 2)[0]), signal.SIGKILL)
    status, _, err = runner.finish(started)
    assert status == 128 + signal.SIGKILL
    assert "was killed by SIGKILL; the others (1) were ended" in err
    runner.wait_until_gone()


def test_who_ignores_sigterm_is_killed(runner: Runner) -> None:
    script = """
        trap '' TERM
        echo ready >> ready
        [ "$MGI_RANK" = 0 ] && while [ "$(wc -l < ready)" -lt 2 ]; do sleep 0.05; done && exit 3
        sleep 1000"""
    status, _, err = runner.shell(2, script, "--grace", "0.3")
    assert status == 3, err
    runner.wait_until_gone()


@pytest.mark.parametrize(
    ("program", "status", "why"),
    [
        ("./absent", 127, "./absent: not found"),
        ("absent-program", 127, "absent-program: not found"),
        ("/etc/passwd", 126, "/etc/passwd: Permission denied"),
        ("./orphan", 126, "./orphan: the interpreter it names is not there"),
    ],
)
def test_what_cannot_be_started(runner: Runner, program: str, status: int, why: str) -> None:
    (runner.folder / "orphan").write_text("#!/nowhere/sh\n")
    (runner.folder / "orphan").chmod(0o755)
    found, _, err = runner.run("-n", "2", "--no-cluster", "--", program)
    assert found == status
    assert f"was not started: {why}" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all(runner: Runner, number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    script = f"trap 'echo got it; exit 0' {name}; echo >> ready; while :; do sleep 0.05; done"
    started = runner.start("-n", "2", "--no-cluster", "--", "sh", "-c", script)
    runner.wait_for_file("ready", 2)
    started.send_signal(number)
    status, out, err = runner.finish(started)
    assert status == 128 + number
    assert sorted(out.splitlines()) == ["[0] got it", "[1] got it"]
    assert f"{number.name}; all 2 processes have ended" in err
    runner.wait_until_gone()


def test_a_second_signal_kills(runner: Runner) -> None:
    script = "trap 'echo >> seen' INT; trap '' TERM; echo >> ready; while :; do sleep 0.05; done"
    words = ("-n", "2", "--no-cluster", "--grace", "3600", "--", "sh", "-c", script)
    started = runner.start(*words)
    runner.wait_for_file("ready", 2)
    started.send_signal(signal.SIGINT)
    runner.wait_for_file("seen", 2)  # two signals at once would be one
    assert started.poll() is None
    started.send_signal(signal.SIGINT)
    assert runner.finish(started)[0] == 130
    runner.wait_until_gone()


def test_signals_for_the_program_are_passed_on(runner: Runner) -> None:
    script = "trap 'exit 0' USR1; echo >> ready; while :; do sleep 0.05; done"
    started = runner.start("-n", "2", "--no-cluster", "--", "sh", "-c", script)
    runner.wait_for_file("ready", 2)
    started.send_signal(signal.SIGUSR1)
    assert runner.finish(started)[0] == 0


# Its child has left the process group and the session, and ignores what asks it to end.
ESCAPES = """
    setsid sh -c "trap '' TERM HUP; echo >> ready; while :; do sleep 0.05; done" &
    echo >> ready
    exec sleep 1000"""


def test_nothing_is_left_when_mgi_run_is_killed(runner: Runner) -> None:
    words = ("-n", "2", "--no-cluster", "--grace", "0.3", "--", "sh", "-c", ESCAPES)
    started = runner.start(*words)
    runner.wait_for_file("ready", 4)
    started.kill()
    started.wait()
    runner.wait_until_gone()


def test_nothing_is_left_when_a_warden_is_killed(runner: Runner) -> None:
    words = ("-n", "2", "--no-cluster", "--grace", "0.3", "--", "sh", "-c", ESCAPES)
    started = runner.start(*words)
    runner.wait_for_file("ready", 4)
    wardens = [pid for pid, words in marked(runner.mark).items() if "warden.py" in words]
    assert len(wardens) == 1
    os.kill(wardens[0], signal.SIGKILL)
    status, _, err = runner.finish(started)
    assert status == 1
    assert "was lost: the process that watched over it" in err
    runner.wait_until_gone()


def test_children_that_stay_behind_are_ended(runner: Runner) -> None:
    status, out, _ = runner.shell(2, "setsid sleep 1000 & echo done")
    assert status == 0
    assert sorted(out.splitlines()) == ["[0] done", "[1] done"]
    runner.wait_until_gone()


def test_much_output_comes_whole(runner: Runner) -> None:
    script = "head -c 50000000 /dev/zero | tr '\\0' x | fold -w 999; echo; echo the end"
    started = runner.start("-n", "2", "--no-cluster", "--", "sh", "-c", script)
    assert started.stdout is not None
    counts, ends = {b"0": 0, b"1": 0}, 0
    for line in started.stdout:
        rank, text = line[1:2], line[4:-1]
        assert line[:4] == b"[%c] " % rank
        if text == b"the end":
            ends += 1
        else:
            assert text.strip(b"x") == b""
            counts[rank] += len(text)
    assert started.wait() == 0
    assert ends == 2
    assert counts == {b"0": 50_000_000, b"1": 50_000_000}


def test_the_job_ends_when_nobody_reads(runner: Runner) -> None:
    started = runner.start("-n", "2", "--no-cluster", "--", "yes")
    assert started.stdout is not None
    assert started.stdout.readline() in (b"[0] y\n", b"[1] y\n")
    started.stdout.close()
    assert started.wait(PATIENCE) == 128 + signal.SIGPIPE
    assert started.stderr is not None
    assert started.stderr.read() == b""
    runner.wait_until_gone()


def test_ctrl_c_twice_ends_a_job_whose_reader_sleeps(runner: Runner) -> None:
    started = runner.start("-n", "1", "--no-cluster", "--", "sh", "-c", "echo >> ready; exec yes")
    runner.wait_for_file("ready")
    time.sleep(0.5)  # until all pipes are full
    started.send_signal(signal.SIGINT)
    wait_for("the end of yes", lambda: "yes" not in marked(runner.mark).values())
    started.send_signal(signal.SIGINT)
    assert started.wait(PATIENCE) == 130
    runner.wait_until_gone()


def test_wrong_calls(runner: Runner) -> None:
    for words, why in (
        (["-n", "0", "--", "true"], "-n is 0; expected 1 to 4096"),
        (["--grace", "-1", "--", "true"], "--grace is -1"),
        (["--env", "ABSENT_VARIABLE", "--", "true"], "there is no such variable"),
        (["--hosts", "absent", "--", "true"], "absent: No such file"),
        (["--servers-of-testbed", "a b", "--", "true"], ""),
    ):
        status, _, err = runner.run(*words)
        assert status == 1
        assert why in err
        assert err.count("\n") == 1
    assert runner.run("-n", "2")[0] == 2
    assert runner.run("-n", "2", "--")[0] == 2


JOINS = """
import mgi
job = mgi.job()
with mgi.ClusterClient(timeout=30) as client, mgi.Runtime.connect(timeout=30) as runtime:
    runtime.create_endpoint()
    assert client.server == job.server
    known = {server["name"] for server in client.status()["servers"]}
    assert job.server in known
    print(job.rank, job.size, job.server, job.launcher, *sorted(known))
"""


@needs_control
def test_processes_find_their_cluster(runner: Runner) -> None:
    status, out, err = runner.run("-n", "2", "--", sys.executable, "-c", JOINS)
    assert status == 0, err
    host = os.uname().nodename
    assert sorted(out.splitlines()) == [f"[{r}] {r} 2 {host} mgi run {host}" for r in range(2)]
    runner.wait_until_gone()


@needs_control
def test_an_agent_that_runs_is_used(runner: Runner) -> None:
    # A job in a job: MGI_AGENT leads to the outer one's agent.
    inner = [*MGI, "run", "-n", "2", "--", "sh", "-c", 'echo "$MGI_AGENT"']
    status, out, err = runner.run("--no-tag", "--", "sh", "-c", 'echo "$MGI_AGENT"; exec "$@"',
                                  "sh", *inner)  # fmt: skip
    assert status == 0, err
    outer, *tagged = out.splitlines()
    assert sorted(tagged) == [f"[0] {outer}", f"[1] {outer}"]


@needs_control
def test_a_killed_agent_is_reported_and_the_job_goes_on(runner: Runner) -> None:
    script = "echo >> ready; while [ ! -e go ]; do sleep 0.05; done"
    started = runner.start("-n", "1", "--", "sh", "-c", script)
    runner.wait_for_file("ready")
    agent = [pid for pid, words in marked(runner.mark).items() if words.startswith("mgi agent")]
    agent = agent or [p for p, words in marked(runner.mark).items() if " agent " in words]
    os.kill(agent[0], signal.SIGKILL)
    time.sleep(0.2)
    (runner.folder / "go").touch()
    status, _, err = runner.finish(started)
    assert status == 0
    assert "was killed by SIGKILL; the job goes on" in err
    runner.wait_until_gone()


@needs_control
def test_hosts_by_ssh(runner: Runner) -> None:
    (runner.folder / "hosts").write_text("node1 slots=2  # a comment\n\nme@node2\nnode3 slots=9\n")
    words = ("--hosts", "hosts", "--ssh", SSH, "-n", "3", "--env", f"PYTHONPATH={_path()}")
    status, out, err = runner.run(*words, "--", sys.executable, "-c", JOINS)
    assert status == 0, err
    assert sorted(out.splitlines()) == [
        "[0] 0 3 node1 mgi run node1 node2",
        "[1] 1 3 node1 mgi run node1 node2",
        "[2] 2 3 node2 mgi run node1 node2",
    ]
    wait_for("the end of all processes", lambda: not marked(runner.mark))


def _path() -> str:
    return os.environ.get("PYTHONPATH", "")


def test_a_failure_on_another_host_ends_all(runner: Runner) -> None:
    (runner.folder / "hosts").write_text("node1\nnode2\n")
    words = ("--hosts", "hosts", "--ssh", SSH, "--no-cluster", "--", "sh", "-c")
    status, _, err = runner.run(*words, '[ "$MGI_SERVER" = node2 ] && exit 9; sleep 1000')
    assert status == 9
    assert "rank 1 (node2, pid" in err
    wait_for("the end of all processes", lambda: not marked(runner.mark))


def test_a_host_that_cannot_be_reached(runner: Runner) -> None:
    (runner.folder / "hosts").write_text("node1\nunreachable\n")
    words = ("--hosts", "hosts", "--ssh", SSH, "--no-cluster", "--", "true")
    status, _, err = runner.run(*words)
    assert status == 1
    assert "ssh: Could not resolve hostname unreachable" in err
    assert "mgi run: unreachable: processes cannot be started there" in err
    wait_for("the end of all processes", lambda: not marked(runner.mark))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("node1 slots=0\n", "hosts:1: 'slots=0'"),
        ("node1\nnode1 slots=2\n", "hosts:2: node1 stands there twice"),
        ("# nobody\n", "names no host"),
        ("-oProxyCommand=x\n", "is no host's name"),
        ("node1 slots=2\n", "-n is 3, and the hosts have 2 slots"),
    ],
)
def test_bad_hosts_files(runner: Runner, text: str, why: str) -> None:
    (runner.folder / "hosts").write_text(text)
    status, _, err = runner.run("-n", "3", "--hosts", "hosts", "--no-cluster", "--", "true")
    assert status == 1
    assert why in err


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


def test_what_a_rank_of_a_launcher_cannot_ask_for(runner: Runner) -> None:
    inside = slurm(1, 3)
    status, _, err = runner.run("-n", "4", "--", "true", **inside)
    assert status == 1
    assert "-n is 4, and this is process 1 of 3 that Slurm has started" in err
    status, _, err = runner.run("--hosts", "hosts", "--", "true", **inside)
    assert status == 1
    assert "leave out --hosts" in err
    status, _, err = runner.run("--", "true", **inside | {"SLURM_STEP_TASKS_PER_NODE": "1,2"})
    assert status == 1
    assert "SLURM_LOCALID is 1 and SLURM_STEP_TASKS_PER_NODE is 1" in err
    spread = inside | {"SLURM_STEP_TASKS_PER_NODE": "2,1"}
    status, _, err = runner.run("--", "true", **spread)
    assert status == 1
    assert "several servers, which need a controller" in err


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


@needs_control
def test_the_others_hear_that_the_first_has_no_agent(runner: Runner) -> None:
    first = runner.start("--controller", "nowhere", "--", "true", **slurm(0, 2))
    second = runner.start("--controller", "nowhere", "--", "true", **slurm(1, 2))
    status, _, err = runner.finish(first)
    assert status == 1
    assert "the agent of" in err
    assert "did not start" in err
    status, _, err = runner.finish(second)
    assert status == 1
    assert "the first mgi run of this server has ended" in err
    runner.wait_until_gone()
