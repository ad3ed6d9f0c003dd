"""mgi run: failures and signals, and that nothing is left over."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest
from marks import marked
from processes import PATIENCE
from run_support import Runner, changed, in_shell


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
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip(f"{number.name} is ignored here, as under nohup, hence by the shells as well")
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


def test_a_signal_while_ranks_are_started_is_for_all_of_them(runner: Runner) -> None:
    runner.command = changed("""
import os, signal
from mgi.run.supervisor import Supervisor
start = Supervisor.start
def and_ctrl_c(self, *arguments):
    started = start(self, *arguments)
    if started.number == 1:
        os.kill(os.getpid(), signal.SIGINT)
    return started
Supervisor.start = and_ctrl_c""")
    words = ("-n", "4", "--no-cluster", "--grace", "3600", "--", "sleep", "1000")
    status, _, err = runner.run(*words)
    assert status == 130
    assert err == "mgi run: SIGINT; all 2 processes have ended\n"
    runner.wait_until_gone()


def test_too_many_processes_for_the_open_files_allowed(runner: Runner) -> None:
    runner.command = in_shell('ulimit -n 50; exec "$@"')
    status, _, err = runner.shell(40, "sleep 1000")
    assert status == 126
    assert "was not started: sh: Too many open files; the others (39) were ended" in err
    assert err.count("\n") == 1
    runner.wait_until_gone()


def test_what_cannot_be_killed_is_left_and_named(runner: Runner) -> None:
    # As with another user's processes, it may not be signalled.
    script = """
import os, subprocess, sys
from mgi import warden
child = subprocess.Popen(["sleep", "1000"])
kill = os.kill
def refuse(pid, number):
    raise PermissionError
os.kill, warden._PATIENCE = refuse, 0.2
left = warden.end_descendants(0.1, lambda: None)
assert left == [child.pid], left
assert warden.named(left) == [f"{child.pid} (sleep)"]
assert warden.end_descendants(1000, lambda: None, left) == []
kill(child.pid, 9)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env=runner.env, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0


def test_what_a_warden_leaves_is_reported(runner: Runner) -> None:
    runner.command = changed("""
from mgi import warden
from mgi.run import supervisor
warden.end_descendants = lambda *_: []
close = supervisor.Supervisor.close
def and_say_so(self):
    self._left_behind(self._stations[0], {"pids": [4711], "names": ["4711 (dd)"]})
    close(self)
supervisor.Supervisor.close = and_say_so""")
    status, _, err = runner.shell(1, "true")
    assert (status, err) == (0, "mgi run: these processes cannot be ended: 4711 (dd)\n")


def test_a_server_of_a_testbed_that_cannot_be_entered(runner: Runner) -> None:
    runner.command = changed("""
import mgi.run
from mgi.run.places import Place
def enter():
    raise OSError("setns: Operation not permitted")
mgi.run.here = lambda server: Place(server, before=enter)""")
    status, _, err = runner.shell(1, "true")
    assert status == 1
    assert ": setns: Operation not permitted\n" in err
    runner.wait_until_gone()


def test_wardens_that_end_before_all_ranks_are_started_are_a_failure(runner: Runner) -> None:
    runner.command = changed("""
import os
from mgi.run.launch import Launch
open_all = Launch._open
def and_lose_them(self):
    stations = open_all(self)
    for station in stations:
        station.process.kill()
    self._supervisor.wait(lambda: not any(s.alive for s in stations), lambda: None)
    return stations
Launch._open = and_lose_them""")
    status, _, err = runner.shell(2, "true")
    assert status == 1
    assert "was lost: the process that watched over it" in err
