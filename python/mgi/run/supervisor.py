"""Processes at several places as one sees them from here: started, heard, signalled, ended."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from mgi import warden
from mgi.errors import Error, NotFound
from mgi.run.places import Place

Hear = Callable[[bytes, bytes], None]
"""Takes what a process prints: O or E, and the bytes. At its end, X and nothing."""

_READ = 1 << 18
_TAIL = 4000
_LOST = "the process that watched over it, or the way there, has ended"


@dataclass(eq=False)
class Station:
    """A place's warden as one speaks with it."""

    place: Place
    process: subprocess.Popen[bytes]
    frames: warden.Frames = field(
        default_factory=lambda: warden.Frames(warden.ANSWERS, warden.MOST_ANSWER, first=b"H")
    )
    folder: Path | None = None
    """Private to the job, on its machine; known once the warden has said hello."""
    alive: bool = True
    errors: bytes = b""
    """The last that the way there (ssh) has said, which is printed as it comes."""
    speaks: bool = False
    """Whether it may say more."""
    why: str = ""
    """Why it was given up."""

    @property
    def is_tried(self) -> bool:
        """Whether it is there, or certainly not."""
        return self.folder is not None or bool(self.why) or not (self.alive or self.speaks)


@dataclass(eq=False)
class Process:
    """A process of a station."""

    number: int
    station: Station
    hear: Hear
    pid: int | None = None
    status: int | None = None
    """As subprocess has it, once it has ended: -9 for SIGKILL."""
    why: str = ""
    """Why it could not be started, or what became of its warden."""
    is_lost: bool = False
    """Whether nothing more is known of it, since its warden is."""

    @property
    def over(self) -> bool:
        """Whether it runs no more, or never did."""
        return self.status is not None

    @property
    def failed(self) -> bool:
        """Whether it has ended, and not well."""
        return bool(self.status)


class Supervisor:
    """Wardens and their processes. Single-threaded: all happens in :meth:`wait`.

    `on_signal` is called for each signal that this process gets, at any time. `complain` takes
    what the ways to other hosts say.
    """

    def __init__(
        self, grace: float, on_signal: Callable[[int], None], complain: Callable[[bytes], None]
    ) -> None:
        self._grace, self._on_signal, self._complain = grace, on_signal, complain
        self._stations: list[Station] = []
        self._processes: dict[int, Process] = {}
        self._spared: set[int] = set()
        self.ended: list[Process] = []
        """In the order in which that became known."""
        self.left: list[str] = []
        """Processes that could not be ended, known when all is closed."""
        self._selector = selectors.DefaultSelector()
        self._old: dict[int, object] = {}
        self._undisturbed = 0
        self._signals: list[int] = []
        warden.adopt_orphans()
        # The loop is woken by a signal, whose handler may have changed what it waits for.
        self._wake, self._wakes = os.pipe()
        for descriptor in (self._wake, self._wakes):
            os.set_blocking(descriptor, False)
        self.watch(self._wake, self._woken)
        self._old_wakes = signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)

    def catch(self, numbers: list[signal.Signals]) -> None:
        """Has these signals reported; those that are ignored (nohup) stay so."""
        for number in numbers:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._old[number] = signal.signal(number, self._caught)

    def watch(self, descriptor: int, readable: Callable[[], None]) -> None:
        """Has something called when there is something to read."""
        self._selector.register(descriptor, selectors.EVENT_READ, readable)

    def unwatch(self, descriptor: int) -> None:
        """Ends that."""
        self._selector.unregister(descriptor)

    def open(self, place: Place, tunnel: tuple[int, int] | None = None) -> Station:
        """Starts a place's warden; its folder is known once it has said hello."""
        try:
            process = place.start(self._grace, tunnel)
        except (OSError, subprocess.SubprocessError) as error:
            raise Error(f"{place.server}: processes cannot be started there: {error}") from None
        station = Station(place, process)
        self._stations.append(station)
        assert process.stdout is not None
        self.watch(process.stdout.fileno(), lambda: self._hear(station))
        if process.stderr is not None:
            station.speaks = True
            self.watch(process.stderr.fileno(), lambda: self._hear_errors(station))
        return station

    def write(self, station: Station, name: str, text: str) -> Path:
        """Puts a file that only this user can read into a station's folder."""
        self._send(station, b"F", 0, json.dumps({"name": name, "text": text}).encode())
        assert station.folder is not None
        return station.folder / name

    def remove(self, station: Station, folder: Path) -> None:
        """Has a folder of the station's machine removed when all is over."""
        self._send(station, b"R", 0, str(folder).encode())

    def start(
        self,
        station: Station,
        argv: list[str],
        env: dict[str, str],
        hear: Hear,
        share: tuple[int, int] = (0, 1),
    ) -> Process:
        """Starts a process in the folder that we are in; `env` is what it has beside its own.

        `share`: which one it is of how many that have their machine's cores among them.
        """
        what = {"argv": argv, "env": env, "cwd": _folder(), "share": share}
        process = Process(len(self._processes), station, hear)
        self._processes[process.number] = process
        self._send(station, b"S", process.number, json.dumps(what).encode())
        if not station.alive:
            self._lose(process)
        return process

    def signal(self, process: Process, number: int) -> None:
        """Sends a signal to a process and those that it has started."""
        if not process.over:
            self._send(process.station, b"K", process.number, str(int(number)).encode())

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Signals that come inside are reported behind it."""
        self._undisturbed += 1
        try:
            yield
        finally:
            self._undisturbed -= 1
            while self._signals and not self._undisturbed:
                self._on_signal(self._signals.pop(0))

    def wait(self, done: Callable[[], bool], until: Callable[[], float | None]) -> bool:
        """Serves until something is done; False at a time (of the monotonic clock)."""
        while not done():
            end = until()
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return False
            for key, _ in self._selector.select(left):
                key.data()
        return True

    def hurry(self) -> None:
        """Has :meth:`close` ask nobody: what a killed warden had dies with it, the rest by us."""
        self._grace = 0
        for station in self._stations:
            with contextlib.suppress(ProcessLookupError):
                station.process.kill()

    def close(self) -> None:
        """Ends all wardens with all that they have started, and waits for that."""
        for station in self._stations:
            assert station.process.stdin is not None
            with contextlib.suppress(OSError):
                station.process.stdin.close()
        # A warden takes as long as its processes do, one beyond ssh as long as ssh notices.
        end = time.monotonic() + self._grace + 10
        self.wait(lambda: not any(s.alive for s in self._stations), lambda: end)
        for station in self._stations:
            with contextlib.suppress(subprocess.TimeoutExpired):
                station.process.wait(1)
        # What a killed warden has left comes to us.
        left = warden.end_descendants(self._grace, _reap, self._spared)
        self.left += warden.named(left)
        for station in self._stations:
            station.process.returncode = station.process.returncode or 0
            if station.folder is not None and not station.place.is_remote:
                shutil.rmtree(station.folder, ignore_errors=True)
        for number, handler in self._old.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self._old_wakes)

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 4096)

    def _hear(self, station: Station) -> None:
        assert station.process.stdout is not None
        data = os.read(station.process.stdout.fileno(), _READ)
        try:
            messages = list(station.frames.add(data))
        except warden.Garbled as error:
            station.why = (
                f"something prints where the way there should be silent ('{error}'): have the "
                "shell's startup files print for people alone"
            )
            station.process.kill()
            data, messages = b"", []
        for kind, number, payload in messages:
            if kind == b"H":
                station.folder = Path(json.loads(payload)["folder"])
            elif kind == b"L":
                self._left_behind(station, json.loads(payload))
            else:
                self._tell(self._processes[number], kind, payload)
        if not data:
            self._lost(station)

    def _tell(self, process: Process, kind: bytes, payload: bytes) -> None:
        if kind == b"B":
            process.pid = int(payload)
        elif kind == b"N":
            said = json.loads(payload)
            self._over(process, said["status"], said["why"])
        elif kind == b"X":
            self._over(process, int(payload))
        else:
            process.hear(kind, payload)

    def _lost(self, station: Station) -> None:
        """Nothing comes from there any more."""
        assert station.process.stdout is not None
        self.unwatch(station.process.stdout.fileno())
        station.alive = False
        for process in self._processes.values():
            if process.station is station and not process.over:
                self._lose(process)
            elif process.station is station:
                process.hear(b"X", b"")  # its children may have gone on printing

    def _lose(self, process: Process) -> None:
        process.is_lost = True
        self._over(process, 1, f"was lost: {process.station.why or _LOST}")

    def _left_behind(self, station: Station, said: dict[str, list[Any]]) -> None:
        where = f" on {station.place.server}" if station.place.is_remote else ""
        self.left += [f"{name}{where}" for name in said["names"]]
        if not station.place.is_remote:  # they come to us now, who can do no more
            self._spared.update(said["pids"])

    def _hear_errors(self, station: Station) -> None:
        assert station.process.stderr is not None
        data = os.read(station.process.stderr.fileno(), _READ)
        if not data:
            self.unwatch(station.process.stderr.fileno())
            station.speaks = False
        station.errors = (station.errors + data)[-_TAIL:]
        self._complain(data)

    def _over(self, process: Process, status: int, why: str = "") -> None:
        process.status, process.why = status, why
        self.ended.append(process)
        process.hear(b"X", b"")

    def _send(self, station: Station, kind: bytes, number: int, payload: bytes) -> None:
        """Sends a whole frame; signals that come meanwhile are dealt with behind it."""
        assert station.process.stdin is not None
        view = memoryview(warden.frame(kind, number, payload))
        # It has ended, or is told to, if it cannot be sent: its output says so.
        with self.undisturbed(), contextlib.suppress(OSError, ValueError):
            while view:
                view = view[os.write(station.process.stdin.fileno(), view) :]

    def _caught(self, number: int, _: FrameType | None) -> None:
        if self._undisturbed:
            self._signals.append(number)
        else:
            self._on_signal(number)


def _folder() -> str:
    """The one that we are in."""
    try:
        return str(Path.cwd())
    except OSError as error:
        raise NotFound(
            f"the current folder, in which processes are started: {error.strerror}; "
            "go to one that is there (cd)"
        ) from None


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
