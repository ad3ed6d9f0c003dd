"""The processes of an exchange as the suite sees them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

MEMBER = Path(__file__).with_name("member.py")


@dataclass
class Setup:
    """What the processes are to do; the same for all of them."""

    size: int
    rows: int
    pace: float
    """Seconds between two batches, so that the fault finds the transfer."""
    routing: str
    by_reference: bool
    segment_rows: int
    keeps: bool
    timeout: float
    gone_limit: float
    limits: dict[str, Any] = field(default_factory=lambda: {"ranks": []})
    servers: int = 1
    """Rank r is on server r % servers."""
    nics: int = 1
    """How many NICs each of several servers uses."""

    def __str__(self) -> str:
        how = "by reference" if self.by_reference else "by copy"
        if self.servers > 1:
            how = f"on {self.servers} servers with {self.nics} NICs"
        return f"{self.size} processes, {self.rows} rows each, {self.routing} {how}"

    def arguments(self) -> list[str]:
        return [sys.executable, str(MEMBER), json.dumps(asdict(self))]


class Job:
    """Programs that say what they do in lines of JSON. Nobody ends them all when one fails.

    `commands` are their words and what they have in their environment beside ours.
    """

    def __init__(self, commands: Sequence[tuple[list[str], dict[str, str]]]) -> None:
        self._said: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._errors = [tempfile.TemporaryFile() for _ in commands]  # noqa: SIM115
        self.processes = [
            subprocess.Popen(
                words,
                env=os.environ | env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
            for (words, env), errors in zip(commands, self._errors, strict=True)
        ]
        self._readers = [threading.Thread(target=self._read, args=(p,)) for p in self.processes]
        for reader in self._readers:
            reader.start()

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            # A process that is killed may leave half a line.
            with contextlib.suppress(ValueError):
                said = json.loads(line)
                with self._changed:
                    self._said.append(said | {"at": time.monotonic()})
                    self._changed.notify_all()

    def said(self, phase: str) -> dict[int, dict[str, Any]]:
        """What processes said of a phase, by rank."""
        with self._changed:
            return {said["rank"]: said for said in self._said if said["phase"] == phase}

    def wait(self, done: Callable[[], Any], seconds: float) -> Any:
        """Until something holds of what was said, or nobody lives to say more; what it was."""
        end = time.monotonic() + seconds
        with self._changed:
            while not (found := done()) and time.monotonic() < end:
                # Ends of processes wake nobody.
                self._changed.wait(0.05)
                if all(process.poll() is not None for process in self.processes):
                    break
        return found or done()

    def wait_ended(self, numbers: Sequence[int], end: float) -> list[int]:
        """Those that have not ended by a time (of the monotonic clock)."""
        late = []
        for number in numbers:
            try:
                self.processes[number].wait(max(end - time.monotonic(), 0.01))
            except subprocess.TimeoutExpired:
                late.append(number)
        return late

    def close(self) -> None:
        """Kills what lives, and hears all that was said."""
        for process in self.processes:
            process.kill()
            process.wait()
        for reader in self._readers:
            reader.join(10)
        for process in self.processes:
            assert process.stdout is not None
            process.stdout.close()

    def errors(self, number: int) -> str:
        """The end of a program's standard error."""
        file = self._errors[number]
        file.seek(0)
        return file.read().decode(errors="replace")[-3000:]


@dataclass(frozen=True)
class Spot:
    """Where a process runs: its server, whose agent it finds, by a command that starts it there."""

    server: str
    agent: Path
    before: list[str]
    addresses: list[str] = field(default_factory=list)
    """Of the NICs by which it reaches other servers."""


def direct(setup: Setup, name: str, spots: Sequence[Spot]) -> Job:
    """A job without mgi run, which would end all processes when one is killed."""
    servers = [spot.server for spot in spots]
    commands = []
    for rank, spot in enumerate(spots):
        place = {
            "JOB": name,
            "RANK": rank,
            "SIZE": setup.size,
            "LOCAL_RANK": servers[:rank].count(spot.server),
            "LOCAL_SIZE": servers.count(spot.server),
            "SERVER": spot.server,
            "AGENT": spot.agent,
            "ADDRESSES": ",".join(spot.addresses),
        }
        env = {f"MGI_{n}": str(value) for n, value in place.items()}
        commands.append(([*spot.before, *setup.arguments()], env))
    return Job(commands)
