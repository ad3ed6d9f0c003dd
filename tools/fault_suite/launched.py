"""Exchanges that mgi run starts, with a cluster of their own, of which any process is killed."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from marks import marked, new_mark
from processes import wait_for

from . import verdict
from .counted import whole
from .job import Job, Setup
from .kinds import PATIENCE, PHASES

LAUNCHERS = ("MGI_RANK", "MGI_SIZE", "MGI_LOCAL", "MGI_AGENT", "MGI_CONTROLLER", "MGI_JOB")


class Launched:
    """mgi run and everything that came of it, by a mark."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.mark = setup, new_mark()
        # Short: there are sockets in it.
        self.private = Path(tempfile.mkdtemp(prefix="faults-", dir="/tmp"))
        command = [sys.executable, "-m", "mgi.cli", "run", "--no-tag", "-n", str(setup.size), "--"]
        for name in [name for name in os.environ if name.startswith(LAUNCHERS)]:
            del os.environ[name]
        env = self.mark | {"XDG_RUNTIME_DIR": str(self.private)}
        self.job = Job([([*command, *setup.arguments()], env)])

    def kill_one(self, chance: random.Random) -> str:
        """Kills any of its processes at any moment; says which."""
        phase = chance.choice(PHASES)
        self.job.wait(lambda: self.job.said(phase), PATIENCE)
        moment = chance.random() ** 2 * 0.3
        time.sleep(moment)
        victims = sorted(marked(self.mark).items())
        if not victims:
            return f"all over {moment * 1000:.0f} ms after '{phase}'"
        pid, words = chance.choice(victims)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return f"kill -9 of '{_short(words)}' {moment * 1000:.0f} ms after '{phase}'"

    def complaints(self, limit: float) -> list[str]:
        """What is wrong with its end, which is awaited so many seconds."""
        late = self.job.wait_ended([0], time.monotonic() + limit)
        found = [f"mgi run has not ended after {limit:.0f} s"] if late else []
        try:
            wait_for("the end of all processes of mgi run", lambda: not marked(self.mark), limit)
            wait_for("the end of its folder", lambda: not list(self.private.iterdir()))
        except AssertionError as error:
            found.append(str(error))
            found += [f"process {pid}: {_short(n)}" for pid, n in marked(self.mark).items()]
            found += [f"left: {path}" for path in self.private.rglob("*")]
        return found

    def judged(self) -> tuple[verdict.Outcome, list[str]]:
        """What its processes said, and what is wrong with it."""
        outcome = verdict.Outcome.of(self.job)
        ranks = range(self.setup.size)
        outcome.statuses = dict.fromkeys(ranks, 0)
        # A process that mgi run ends says nothing; only one that succeeds promises to be whole.
        silent = [] if self.job.processes[0].returncode == 0 else ranks
        expected = [whole(rank, self.setup.rows) for rank in ranks]
        return outcome, verdict.judge(outcome, self.setup, expected, silent, lossless=False)

    def close(self) -> None:
        """Ends all of it."""
        end = time.monotonic() + PATIENCE
        while (found := marked(self.mark)) and time.monotonic() < end:
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.job.processes[0].poll()
        self.job.close()
        shutil.rmtree(self.private, ignore_errors=True)


def _short(words: str) -> str:
    return " ".join(Path(word).name for word in words.split()[:4])[:60]
