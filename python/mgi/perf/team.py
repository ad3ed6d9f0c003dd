"""Processes that do one exchange together, at the word of whoever measures them."""

from __future__ import annotations

import argparse
import contextlib
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from mgi.errors import Error
from mgi.warden import private_base

PATIENCE = 300.0
"""Seconds that any step may take: making the rows, an exchange."""
_GRACE = 10.0
_TAIL = 2000
_READ = 1 << 16


@dataclass(frozen=True)
class Checksum:
    """What was sent or received, whatever the order (bench/perf/rows.hpp)."""

    rows: int = 0
    key_sum: int = 0
    parity: int = 0

    def __add__(self, other: Checksum) -> Checksum:
        keys = (self.key_sum + other.key_sum) % (1 << 64)
        return Checksum(self.rows + other.rows, keys, self.parity ^ other.parity)


@dataclass(eq=False)
class _Member:
    link: socket.socket
    heard: bytearray = field(default_factory=bytearray)


class Team:
    """As many processes as `size`, which `command` starts and which come to a socket of ours.

    They speak as bench/peers/member.hpp says. The command gets the socket's path, and the words of
    the exchange, as its last arguments.
    """

    def __init__(
        self, name: str, command: list[str], words: list[str], size: int, folder: Path
    ) -> None:
        self.name, self._size = name, size
        self.sent = Checksum()
        self.rows_sent: list[int] = []
        self.rows_received: list[int] = []
        """By rank; received in the last run."""
        self._members: dict[int, _Member] = {}
        self._log = folder / "log"
        folder.mkdir()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "driver"))
        self._listener.listen(size)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, f"driver={folder / 'driver'}", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is ours
                env=os.environ | _AS_ROOT,
            )

    def gather(self) -> None:
        """Waits until all are there and have their rows."""
        end = time.monotonic() + PATIENCE
        while len(self._members) < self._size:
            self._listener.settimeout(1)
            try:
                link, _ = self._listener.accept()
            except TimeoutError:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise self._failure("did not start") from None
                continue
            member = _Member(link)
            words = self._line(member, end).split()
            self._members[int(words[1])] = member
        for words in self._each("ready"):
            own = Checksum(*map(int, words))
            self.rows_sent.append(own.rows)
            self.sent += own

    def run(self, variant: str = "") -> tuple[float, Checksum]:
        """One exchange: its seconds from the first row to the last, and what was received."""
        self._say(f"prepare {variant}")
        self._each("prepared")
        self._say(f"run {variant}")
        received, starts, ends = Checksum(), [], []
        self.rows_received = []
        for start, end, *words in self._each("ran"):
            starts.append(int(start))
            ends.append(int(end))
            own = Checksum(*map(int, words))
            self.rows_received.append(own.rows)
            received += own
        return (max(ends) - min(starts)) / 1e9, received

    @property
    def returncode(self) -> int | None:
        """How what started them has ended; None while it runs."""
        return self._process.poll()

    def close(self) -> None:
        """Ends all of them; they go when nobody speaks to them any more."""
        self._listener.close()
        for member in self._members.values():
            member.link.close()
        for ask in (lambda: None, self._process.terminate, self._process.kill):
            ask()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE)
                return

    def hurry(self) -> None:
        """Has :meth:`close` wait for no exchange that goes on."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def _say(self, line: str) -> None:
        for member in self._members.values():
            with contextlib.suppress(OSError):  # it has ended, which we hear
                member.link.sendall(f"{line}\n".encode())

    def _each(self, verb: str) -> list[list[str]]:
        """What each says behind a verb, by rank; gathers what they gather meanwhile."""
        while True:
            said = self._one_line_each()
            verbs = {words[0] for words in said}
            if verbs == {verb}:
                return [words[1:] for words in said]
            if verbs != {"gather"}:
                raise self._failure(f"said {' and '.join(sorted(verbs))} instead of {verb}")
            self._say(" ".join(["gathered", *("".join(words[1:]) or "-" for words in said)]))

    def _one_line_each(self) -> list[list[str]]:
        end = time.monotonic() + PATIENCE
        said: dict[int, list[str]] = {}
        with selectors.DefaultSelector() as selector:
            for rank, member in self._members.items():
                selector.register(member.link, selectors.EVENT_READ, rank)
            while len(said) < self._size:
                for rank, member in self._members.items():
                    if rank not in said and b"\n" in member.heard:
                        said[rank] = self._line(member, end).split()
                        if said[rank][0] == "error":
                            raise self._failure(f"process {rank}: {' '.join(said[rank][1:])}")
                        selector.unregister(member.link)
                if len(said) == self._size:
                    break
                ready = selector.select(max(0, end - time.monotonic()))
                if not ready:
                    raise self._failure(f"no answer in {PATIENCE:.0f} s")
                for key, _ in ready:
                    self._read(self._members[key.data])
        return [said[rank] for rank in range(self._size)]

    def _line(self, member: _Member, end: float) -> str:
        while b"\n" not in member.heard:
            member.link.settimeout(max(0.001, end - time.monotonic()))
            self._read(member)
        line, _, rest = bytes(member.heard).partition(b"\n")
        member.heard[:] = rest
        return line.decode(errors="replace")

    def _read(self, member: _Member) -> None:
        try:
            data = member.link.recv(_READ)
        except TimeoutError:
            raise self._failure(f"no answer in {PATIENCE:.0f} s") from None
        except OSError:
            data = b""
        if not data:
            raise self._failure("a process has ended")
        member.heard += data

    def _failure(self, what: str) -> Error:
        self.hurry()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
        said = self._log.read_bytes()[-_TAIL:].decode(errors="replace").strip()
        return Error(f"{self.name}: {what}" + (f". It printed:\n{said}" if said else ""))


# Open MPI asks root whether it is sure.
_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def rows_of(options: argparse.Namespace) -> list[str]:
    """The words that say which rows there are."""
    theta = 0.0 if options.dist == "uniform" else options.dist.removeprefix("zipf:")
    return [f"rows={options.rows}", f"row_bytes={options.row_bytes}", f"zipf_theta={theta}"]


def temporary_folder(stack: contextlib.ExitStack) -> Path:
    """A folder for teams' sockets and logs, whose path is short; gone with the stack."""
    folder = Path(tempfile.mkdtemp(prefix="mgi-perf-", dir=private_base()))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def by_mgi_run(size: int, program: list[str], *options: str) -> list[str]:
    """The command that starts so many processes of a program."""
    mgi = [sys.executable, "-m", "mgi.cli", "run", "-n", str(size), "--no-tag", "--grace", "1"]
    return [*mgi, *options, "--", *program]
