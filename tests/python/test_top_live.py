"""mgi top beside a job of mgi run: as text, as JSON, and on a terminal of its own."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from typing import Any

import pytest
from processes import PATIENCE, wait_for
from run_support import MGI, Runner, needs_control

pytestmark = needs_control

# Rank 0 sends to rank 1, which takes what comes; while there is a file `hold`, it takes nothing.
JOB = """
import os, time
from pathlib import Path
import mgi, pyarrow as pa
job = mgi.job()
with mgi.Runtime.connect(timeout=60) as runtime:
    mine = runtime.create_endpoint("cpu")
    ends = runtime.gather_endpoints([mine])
    channel = runtime.create_channel(
        ends[:1], ends[1:], {"key": "int64"}, mgi.Partition("key"), name="flow")
    if job.rank == 0:
        Path("agent").write_text(os.environ["MGI_AGENT"])
        rows = pa.record_batch({"key": pa.array(range(100_000), pa.int64())})
        while not Path("stop").exists():
            channel.send(rows, mine, timeout=120)
            time.sleep(0.01)
        channel.flush(mine, timeout=120)
    else:
        for _ in channel.batches(mine, timeout=120):
            while Path("hold").exists():
                time.sleep(0.01)
    runtime.delete_channel(channel)
"""


@pytest.fixture
def job(runner: Runner) -> Iterator[Runner]:
    """A job whose rows move; it ends when there is a file `stop`."""
    started = runner.start("-n", "2", "--", sys.executable, "-c", JOB)
    runner.wait_for_file("agent")
    yield runner
    (runner.folder / "hold").unlink(missing_ok=True)
    (runner.folder / "stop").touch()
    status, _, err = runner.finish(started)
    assert status == 0, err


def top(job: Runner, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MGI, "top", *words],
        env=job.env,
        cwd=job.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def figures(job: Runner) -> dict[str, Any]:
    said = top(job, "--once", "--json")
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)


def wait_for_figures(job: Runner, what: str, wanted: Any) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        shown = figures(job)
        return shown if shown["channels"] and wanted(shown) else None

    return wait_for(what, found)


def test_rows_that_move_and_rows_that_wait(job: Runner) -> None:
    # The job is found without being named.
    shown = wait_for_figures(job, "a rate", lambda s: s["gbps"] > 0 and s["paths"])
    channel, path = shown["channels"][0], shown["paths"][0]
    assert channel["name"] == "flow"
    assert channel["rows"] > 0
    assert channel["bytes"] == 8 * channel["rows"]
    assert path["by"] == "reference"
    assert path["from_place"].startswith(os.uname().nodename)

    (job.folder / "hold").touch()
    shown = wait_for_figures(
        job, "a wait for a credit", lambda s: any(w["for"] == "credit" for w in s["waits"])
    )
    wait = shown["waits"][0]
    assert (wait["for"], wait["who"], wait["whom"]) == ("credit", path["from"], [path["to"]])
    assert wait["since_s"] > 0
    said = top(job, "--once")
    assert said.returncode == 0, said.stderr
    assert f"flow ({channel['id']}): source {path['from']} (" in said.stdout
    assert "for a credit of destination" in said.stdout
    assert "\x1b" not in said.stdout

    (job.folder / "hold").unlink()
    wait_for_figures(job, "the end of the wait", lambda s: not s["waits"] and s["gbps"] > 0)
    waited = figures(job)["channels"][0]
    assert waited["waits"] > 0
    assert waited["longest_wait_s"] > 0


def test_every_moment_a_line(job: Runner) -> None:
    agent = (job.folder / "agent").read_text()
    words = ["top", "--json", "--every", "0.1", "--agent", agent]
    following = subprocess.Popen([*MGI, *words], env=job.env, stdout=subprocess.PIPE, text=True)
    assert following.stdout is not None
    assert len([json.loads(following.stdout.readline()) for _ in range(3)]) == 3
    following.send_signal(signal.SIGINT)
    following.stdout.close()
    assert following.wait(PATIENCE) == 130


class Terminal:
    """The command on a terminal."""

    def __init__(self, job: Runner, *words: str) -> None:
        self._far, near = pty.openpty()
        termios.tcsetwinsize(near, (24, 100))
        self.before = termios.tcgetattr(near)
        self._near = near
        self.seen = b""
        self.popen = subprocess.Popen(
            [*MGI, "top", *words],
            env=job.env | {"TERM": "xterm", "PYTHONIOENCODING": "utf-8"},
            stdin=near,
            stdout=near,
            stderr=near,
            start_new_session=True,
            preexec_fn=lambda: _control(near),
        )

    def read(self) -> None:
        while select.select([self._far], [], [], 0.02)[0]:
            self.seen += os.read(self._far, 1 << 16)

    def wait_for(self, text: bytes) -> None:
        def found() -> bool:
            self.read()
            return text in self.seen

        wait_for(f"{text!r} on the screen", found)

    def resize(self, lines: int, columns: int) -> None:
        termios.tcsetwinsize(self._far, (lines, columns))

    def press(self, keys: bytes) -> None:
        os.write(self._far, keys)

    def finish(self) -> int:
        """Its exit status; the terminal is as it was."""

        def over() -> bool:
            self.read()  # it waits until what it writes is taken
            return self.popen.poll() is not None

        wait_for("the end of mgi top", over)
        self.read()
        assert self.seen.endswith(b"\x1b[?25h\x1b[?1049l"), self.seen[-200:]
        assert termios.tcgetattr(self._near) == self.before
        for end in (self._far, self._near):
            os.close(end)
        return self.popen.returncode


def _control(terminal: int) -> None:
    """In the child: the terminal is its session's, so that its keys send signals."""
    import fcntl

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


@pytest.mark.parametrize(("keys", "status"), [(b"q", 0), (b"\x03", 130)], ids=["q", "Ctrl-C"])
def test_on_a_terminal(job: Runner, keys: bytes, status: int) -> None:
    screen = Terminal(job, "--every", "0.1")
    screen.wait_for(b"CHANNEL")
    screen.wait_for(b"flow (")
    assert screen.seen.startswith(b"\x1b[?1049h")
    screen.press(keys)
    assert screen.finish() == status


def test_a_signal_gives_the_terminal_back(job: Runner) -> None:
    screen = Terminal(job)
    screen.wait_for(b"CHANNEL")
    screen.popen.terminate()
    assert screen.finish() == 128 + signal.SIGTERM


def test_ctrl_z_gives_the_terminal_back_for_a_while(job: Runner) -> None:
    # It is not stopped here, since no shell is there that would have it go on.
    screen = Terminal(job, "--every", "0.1")
    screen.wait_for(b"CHANNEL")
    screen.popen.send_signal(signal.SIGTSTP)
    screen.wait_for(b"\x1b[?25h\x1b[?1049l\x1b[?1049h\x1b[?25l")
    screen.wait_for(b"CHANNEL")
    screen.press(b"q")
    assert screen.finish() == 0


def test_signals_while_nobody_takes_the_screen(job: Runner) -> None:
    screen = Terminal(job, "--every", "0.1")
    screen.wait_for(b"CHANNEL")
    screen.press(b"\x13")  # Ctrl-S: it waits in the midst of a drawing
    time.sleep(0.5)
    screen.read()
    screen.seen = b""
    for number in (signal.SIGTSTP, signal.SIGWINCH, signal.SIGTSTP):
        screen.popen.send_signal(number)
    time.sleep(0.2)
    screen.press(b"\x11")  # Ctrl-Q
    screen.wait_for(b"\x1b[?25h\x1b[?1049l\x1b[?1049h\x1b[?25l")
    screen.press(b"q")
    assert screen.finish() == 0
    assert b"Traceback" not in screen.seen


def test_the_terminal_says_how_large_it_is(job: Runner) -> None:
    job.env |= {"COLUMNS": "300", "LINES": "100"}
    screen = Terminal(job)
    screen.wait_for(b"CHANNEL")
    screen.resize(24, 45)
    screen.wait_for("…".encode())
    screen.press(b"q")
    assert screen.finish() == 0


def test_an_agent_that_goes_away_is_said(runner: Runner) -> None:
    script = 'echo "$MGI_AGENT" > agent; while [ ! -e stop ]; do sleep 0.05; done'
    started = runner.start("-n", "1", "--", "sh", "-c", script)
    agent = runner.wait_for_file("agent")[0]
    screen = Terminal(runner, "--every", "0.1", "--agent", agent)
    screen.wait_for(b"none yet")
    (runner.folder / "stop").touch()
    assert runner.finish(started)[0] == 0
    # Keys are heard although nobody answers.
    time.sleep(0.2)
    screen.press(b"q")
    assert screen.finish() == 0
