"""For the tests of mgi run: the command as a process, of which nothing is left in the end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from marks import marked, new_mark
from mgi.control import PROGRAM
from processes import PATIENCE, wait_for

MGI = [sys.executable, "-m", "mgi.cli"]
SSH = f"{sys.executable} {Path(__file__).with_name('fake_ssh.py')}"
LAUNCHERS = ("MGI_", "SLURM_", "PMI_", "OMPI_", "MPI_", "RANK", "WORLD_SIZE", "LOCAL_", "TORCHEL")
SHOW = 'echo "$MGI_RANK/$MGI_SIZE $MGI_LOCAL_RANK/$MGI_LOCAL_SIZE $MGI_SERVER $MGI_JOB"'

JOINS = """
import time

import mgi
job = mgi.job()
with mgi.ClusterClient(timeout=30) as client, mgi.Runtime.connect(timeout=30) as runtime:
    runtime.create_endpoint("cpu")
    assert client.server == job.server
    known, end = set(), time.monotonic() + 20
    while job.server not in known:  # the controller may not have heard of it yet
        assert time.monotonic() < end, (job.server, known)
        known = {server["name"] for server in client.status()["servers"]}
    print(job.rank, job.size, job.server, job.launcher, *sorted(known))
"""
"""A program that finds its cluster."""

needs_control = pytest.mark.skipif(
    not os.access(PROGRAM, os.X_OK), reason="this package was built without the control plane"
)


def in_shell(script: str) -> list[str]:
    """The command as a shell script starts it, which has it in "$@"."""
    return ["sh", "-c", script, "sh", *MGI]


def changed(script: str) -> list[str]:
    """The command, after a script that changes its modules."""
    return [sys.executable, "-c", f"{script}\nimport sys, mgi.cli\nsys.exit(mgi.cli.main())"]


class Runner:
    """Starts mgi run; everything that comes of it has a mark, and is gone in the end.

    `command` is how, where it is not the usual way.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.mark, self.command = folder, new_mark(), MGI
        bare = {n: v for n, v in os.environ.items() if not n.startswith(LAUNCHERS)}
        # Short: there are sockets in it.
        self.private = Path(tempfile.mkdtemp(prefix="run-test-", dir="/tmp"))
        self.env = bare | self.mark | {"XDG_RUNTIME_DIR": str(self.private)}
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[bytes]:
        """Starts the command; its output is there to be read."""
        started = subprocess.Popen(
            [*self.command, "run", *arguments],
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
