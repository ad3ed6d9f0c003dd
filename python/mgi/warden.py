"""The process that starts and watches others at one place: here, on another host, in a namespace.

A program of its own, and nothing but Python's standard library: ``mgi run`` starts one for each
place, over a pipe or over ssh, and tells it what to start; it sends back what is printed and how
processes end. When the pipe ends, for whatever reason, it ends everything that it has started and
everything that came of that: it is their subreaper, so that nobody escapes by forking.

Both ways go frames: a letter, a number that tells processes apart, a length, and so many bytes.

    to it      S start (JSON)   K signal (number)   F write a private file (JSON)
               R remove a folder at the end
    from it    H is there (JSON), the first   B began (pid)   N could not be started (JSON)
               O and E what it printed   X ended (as subprocess has it: -9 is killed by SIGKILL)
               L left behind, since they cannot be killed (JSON)
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import itertools
import json
import os
import resource
import selectors
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

HEADER = struct.Struct("<cII")
ANSWERS = b"HBNOEXL"
"""Kinds of frames that a warden sends."""
MOST_ANSWER = 1 << 20
_COMMANDS = b"SKFR"
_MOST_COMMAND = 1 << 26
"""A program's arguments and environment, which the system limits to some MiB, as JSON."""
_SHOWN = 60
_CHUNK = 1 << 16
_MOST_WAITING = 1 << 20
"""Bytes on their way to ``mgi run`` beyond which processes have to wait with theirs."""
_MOST_IN_PIPE = 1 << 20
"""What a pipe holds at most; a process that has ended has left no more."""

_PATIENCE = 5.0
"""Seconds after which a process that was killed is taken for one that cannot be."""
_LONGEST_BASE = 40
"""Of the 107 bytes that a Unix socket's name may have."""

_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def frame(kind: bytes, number: int, payload: bytes = b"") -> bytes:
    """A message as it is sent."""
    return HEADER.pack(kind, number, len(payload)) + payload


class Garbled(Exception):  # noqa: N818
    """What came is no message; the first of it."""


class Frames:
    """Messages of a stream that comes in pieces, of some kinds and of a size alone.

    The first is to be of `first`, about no process: so a stream is refused at once that somebody
    else writes to.
    """

    def __init__(self, kinds: bytes, most: int, first: bytes | None = None) -> None:
        self._kinds, self._most, self._first = kinds, most, first
        self._buffer = bytearray()

    def add(self, data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
        """The messages that are whole now: kind, number, payload."""
        self._buffer += data
        start = 0
        while len(self._buffer) - start >= HEADER.size:
            kind, number, size = HEADER.unpack_from(self._buffer, start)
            wrong = kind not in self._kinds or size > self._most
            if wrong or (self._first is not None and (kind, number) != (self._first, 0)):
                raise Garbled(repr(bytes(self._buffer[start : start + _SHOWN]))[2:-1])
            self._first = None
            if len(self._buffer) - start - HEADER.size < size:
                break
            start += HEADER.size
            yield kind, number, bytes(self._buffer[start : start + size])
            start += size
        del self._buffer[:start]


def is_private(folder: Path) -> bool:
    """Whether it is a folder of this user's, no link, that nobody else may write to."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    others = stat.S_IWGRP | stat.S_IWOTH
    own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return own and status.st_mode & others == 0


_BASES = ("/tmp", "/var/tmp", "/dev/shm")
"""For private folders, where this user has none; the first that can be written to."""


def private_base() -> Path:
    """Where private folders are made: in this user's, unless a socket in it had too long a name.

    What the environment names may be another user's, as behind ``su`` and ``sudo``. Raises
    :class:`OSError` where there is none.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = Path(runtime)
    fits = runtime and len(runtime) <= _LONGEST_BASE
    if fits and is_private(folder) and os.access(folder, os.W_OK):
        return folder
    for base in map(Path, _BASES):
        if base.is_dir() and os.access(base, os.W_OK | os.X_OK):
            return base
    names = ", ".join(_BASES)
    raise OSError(
        errno.EACCES,
        f"no folder of a job can be made in any of {names}; set XDG_RUNTIME_DIR to a folder that "
        f"this user alone can write to, with a name of {_LONGEST_BASE} characters at most",
    )


def write_private(folder: Path, name: str, text: str) -> None:
    """Puts a file that only this user can read into a folder, in place of one that is there.

    What lies under the name, a link say, is replaced, and never written through.
    """
    if "/" in name or name in ("", ".", ".."):
        raise ValueError(f"{name!r} is no name of a file")
    descriptor, fresh = tempfile.mkstemp(prefix=f"{name}.", dir=folder)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    Path(fresh).replace(folder / name)


def adopt_orphans() -> None:
    """Makes this process the parent of all descendants whose parents have ended."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """In a child before it runs its program: it is killed when its parent is."""
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def cores_of_share(cores: Collection[int], index: int, count: int) -> set[int]:
    """Those of the `index`-th of `count` processes: neighbours, and all where there are too few.

    What the kernel calls cores are threads of cores: they stay together where there are enough.
    """
    if len(cores) < count:
        return set(cores)
    near = sorted(cores, key=_place_of_core)
    units = [list(unit) for _, unit in itertools.groupby(near, lambda c: _place_of_core(c)[:-1])]
    if len(units) < count:
        units = [[core] for core in near]
    own = units[len(units) * index // count : len(units) * (index + 1) // count]
    return {core for unit in own for core in unit}


@functools.cache
def _place_of_core(core: int) -> tuple[int, int, int, int]:
    """Package, die and core; not every machine says."""
    folder = Path(f"/sys/devices/system/cpu/cpu{core}/topology")
    words = ("physical_package_id", "die_id", "core_id")
    try:
        package, die, unit = (int((folder / word).read_text()) for word in words)
    except (OSError, ValueError):
        return 0, 0, core, core
    return package, die, unit, core


def descendants() -> list[int]:
    """All processes that come of this one, zombies too."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended
                stat = (entry / "stat").read_text(errors="replace")
                parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    mine, found = {os.getpid()}, []
    grown = True
    while grown:
        new = [pid for pid, parent in parents.items() if parent in mine and pid not in mine]
        mine.update(new)
        found += new
        grown = bool(new)
    return found


def named(pids: Iterable[int]) -> list[str]:
    """Processes as a message names them."""
    names = []
    for pid in pids:
        name = ""
        with contextlib.suppress(OSError):
            name = " (" + Path(f"/proc/{pid}/comm").read_text(errors="replace").strip() + ")"
        names.append(f"{pid}{name}")
    return names


def end_descendants(
    grace: float, reap: Callable[[], None], spared: Collection[int] = ()
) -> list[int]:
    """Asks all of them to end, and kills those that have not after `grace` seconds.

    `reap` takes the exit statuses of those that have ended. What cannot be killed (another user's,
    by sudo; one that waits for a dead disk) is returned after a while, and `spared` not waited for.
    """
    end = time.monotonic() + grace
    asked: set[int] = set()
    pause = 0.01
    while time.monotonic() < end + _PATIENCE:
        reap()
        found = [pid for pid in descendants() if pid not in spared]
        if not found:
            return []
        late = time.monotonic() >= end
        for pid in found:
            if late or pid not in asked:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
                    if not late:
                        os.kill(pid, signal.SIGCONT)
        asked.update(found)
        # Often at first; a long grace is not to cost a core.
        pause = min(pause * 1.2, 0.2)
        time.sleep(min(pause, max(end - time.monotonic(), 0.01)))
    return [pid for pid in descendants() if pid not in spared]


class Warden:
    """The processes of a place. `grace` seconds are between SIGTERM and SIGKILL at the end."""

    def __init__(self, commands: int, answers: int, grace: float) -> None:
        self._commands, self._answers, self._grace = commands, answers, grace
        self._frames = Frames(_COMMANDS, _MOST_COMMAND)
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._running: dict[int, tuple[int, subprocess.Popen[bytes]]] = {}  # by pid
        self._pipes: dict[int, tuple[bytes, int]] = {}  # what processes print, by descriptor
        self._listens = True  # to the pipes
        self._over = False
        self._files = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._folder = Path(tempfile.mkdtemp(prefix="mgi-run-", dir=private_base()))
        self._folders = [self._folder]  # that go in the end
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Serves until the commands end."""
        adopt_orphans()
        # Two pipes a process are more than programs are usually allowed to have open.
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._files[1], self._files[1]))
        # Handlers, not SIG_IGN, which programs would inherit.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: self._stop())
        wake, wakes = os.pipe()
        for descriptor in (wake, wakes, self._commands, self._answers):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        for descriptor in (wake, self._commands):
            self._selector.register(descriptor, selectors.EVENT_READ)
        self._say(b"H", 0, json.dumps({"folder": str(self._folder)}).encode())
        try:
            while not self._over:
                self._send()
                self._balance()
                for key, _ in self._selector.select():
                    if key.fd == wake:
                        os.read(wake, 4096)
                    elif key.fd == self._commands:
                        self._obey()
                    elif key.fd in self._pipes:
                        self._read(key.fd)
                self._reap()
        finally:
            left = end_descendants(self._grace, self._listen_to_the_last)
            for descriptor in list(self._pipes):
                self._read(descriptor, until_empty=True)
            for folder in self._folders:
                shutil.rmtree(folder, ignore_errors=True)
        if left:
            self._say(b"L", 0, json.dumps({"pids": left, "names": named(left)}).encode())
        # Whoever still listens gets the rest; whoever does not, closes.
        os.set_blocking(self._answers, True)
        self._send()

    def _stop(self) -> None:
        self._over = True

    def _balance(self) -> None:
        """Waits for room while there is something to send; reads only while there is room."""
        listens = self._waiting_bytes < _MOST_WAITING
        if listens != self._listens:
            change = self._listen if listens else self._selector.unregister
            for descriptor in self._pipes:
                change(descriptor)
            self._listens = listens
        watched = self._answers in self._selector.get_map()
        if self._waiting and not watched:
            self._selector.register(self._answers, selectors.EVENT_WRITE)
        elif watched and not self._waiting:
            self._selector.unregister(self._answers)

    def _listen(self, descriptor: int) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ)

    def _obey(self) -> None:
        try:
            data = os.read(self._commands, _CHUNK)
        except OSError:
            data = b""
        if not data:
            self._stop()
        for kind, number, payload in self._frames.add(data):
            if kind == b"S":
                self._start(number, json.loads(payload))
            elif kind == b"K":
                self._signal(number, int(payload))
            elif kind == b"R":
                self._folders.append(Path(os.fsdecode(payload)))
            elif kind == b"F":
                given = json.loads(payload)
                write_private(self._folder, given["name"], given["text"])

    def _start(self, number: int, what: dict[str, Any]) -> None:
        pipes: list[int] = []
        try:
            pipes += os.pipe()
            pipes += os.pipe()
            index, count = what["share"]
            cores = cores_of_share(os.sched_getaffinity(0), index, count) if count > 1 else set()
            process = subprocess.Popen(
                what["argv"],
                cwd=what["cwd"],
                env={**os.environ, **what["env"]},
                stdin=subprocess.DEVNULL,
                stdout=pipes[1],
                stderr=pipes[3],
                start_new_session=True,
                preexec_fn=lambda: self._prepare(cores),
            )
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            for descriptor in pipes[::2]:
                os.close(descriptor)
            self._say(b"N", number, json.dumps(_explain(error, what)).encode())
            return
        finally:
            for descriptor in pipes[1::2]:
                os.close(descriptor)
        self._running[process.pid] = (number, process)
        for descriptor, kind in ((pipes[0], b"O"), (pipes[2], b"E")):
            os.set_blocking(descriptor, False)
            self._pipes[descriptor] = (kind, number)
            if self._listens:
                self._listen(descriptor)
        self._say(b"B", number, str(process.pid).encode())

    def _prepare(self, cores: Collection[int]) -> None:
        """In a child before it runs its program, on these cores if there are any."""
        die_with_parent()
        if cores:
            with contextlib.suppress(OSError):  # it runs elsewhere as well
                os.sched_setaffinity(0, cores)
        resource.setrlimit(resource.RLIMIT_NOFILE, self._files)
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)

    def _signal(self, number: int, which: int) -> None:
        """To a process and its children, unless these have left its process group."""
        for pid, (mine, _) in self._running.items():
            if mine == number:
                with contextlib.suppress(OSError):
                    os.killpg(pid, which)
                    if which == signal.SIGTERM:
                        os.killpg(pid, signal.SIGCONT)  # one that was stopped could not end

    def _read(self, descriptor: int, until_empty: bool = False) -> None:
        kind, number = self._pipes[descriptor]
        data, left = b" ", _MOST_IN_PIPE
        while data and (left > 0 if until_empty else self._waiting_bytes < _MOST_WAITING):
            try:
                data = os.read(descriptor, _CHUNK)
            except BlockingIOError:
                return
            left -= len(data)
            if data:
                self._say(kind, number, data)
        if not data:
            if self._listens:
                self._selector.unregister(descriptor)
            del self._pipes[descriptor]
            os.close(descriptor)

    def _listen_to_the_last(self) -> None:
        """What is asked to end may have something to say, and would wait to have it read."""
        self._reap()
        for descriptor in list(self._pipes):
            self._read(descriptor)
        self._send()

    def _reap(self) -> None:
        """Takes exit statuses, those of adopted orphans too."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid not in self._running:
                continue
            number, process = self._running.pop(pid)
            process.returncode = os.waitstatus_to_exitcode(status)
            # What it printed comes before its end. Its children may go on printing.
            for descriptor in [d for d, (_, mine) in self._pipes.items() if mine == number]:
                self._read(descriptor, until_empty=True)
            self._say(b"X", number, str(process.returncode).encode())

    def _say(self, kind: bytes, number: int, payload: bytes) -> None:
        message = frame(kind, number, payload)
        self._waiting.append(message)
        self._waiting_bytes += len(message)

    def _send(self) -> None:
        try:
            while self._waiting:
                sent = os.write(self._answers, self._waiting[0])
                self._waiting_bytes -= sent
                if sent == len(self._waiting[0]):
                    self._waiting.popleft()
                else:
                    self._waiting[0] = self._waiting[0][sent:]
        except BlockingIOError:
            pass
        except OSError:  # nobody is there any more
            self._waiting.clear()
            self._waiting_bytes = 0
            self._stop()


def _explain(error: Exception, what: dict[str, Any]) -> dict[str, Any]:
    """Why something could not be started, and the exit status that shells have for it."""
    program, cwd = what["argv"][0], what["cwd"]
    if isinstance(error, OSError) and error.strerror:
        if error.filename == cwd or not Path(cwd).is_dir():
            return {"why": f"folder {cwd}: {error.strerror}", "status": 1}
        absent = isinstance(error, FileNotFoundError)
        if absent and "/" in program and Path(cwd, program).exists():
            return {"why": f"{program}: the interpreter it names is not there", "status": 126}
        why = "not found" if absent else error.strerror
        return {"why": f"{program}: {why}", "status": 127 if absent else 126}
    return {"why": f"{program}: {error}", "status": 126}


if __name__ == "__main__":
    try:
        warden = Warden(0, 1, float(sys.argv[1]))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.exit(f"mgi run: {where}{error.strerror}")
    warden.run()
