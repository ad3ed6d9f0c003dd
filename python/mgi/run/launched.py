"""Inside another launcher's job each ``mgi run`` is one rank; those of a server share an agent.

The one with local rank 0 starts the agent; the others ask it where that is, over a socket whose
place follows from the job. It stays until they have gone. Over the same socket they hear when one
has failed, since not every launcher ends the others then.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path

from mgi.errors import Error, InvalidArgument, Refused
from mgi.jobs import Job
from mgi.run.supervisor import Supervisor
from mgi.warden import is_private, private_base

_FAILED = "failed"
_SOCKET = "meeting.sock"
_NAMES = 16
"""Folders that are tried."""
PATIENCE = 120.0
"""Seconds that the agent of a server may take to be there."""
_LINE_LIMIT = 1.0
"""Seconds for the rest of a line that has begun: who stops in the midst of one holds nobody up."""


def check_options(job: Job, count: int | None, elsewhere: bool) -> None:
    """Refuses what a rank of another launcher cannot mean."""
    inside = f"this is process {job.rank} of {job.size} that {job.launcher} has started"
    if elsewhere:
        raise InvalidArgument(
            f"{inside}, and each would start the whole job; leave out --hosts and "
            f"--servers-of-testbed, or call mgi run outside {job.launcher}"
        )
    if count not in (None, job.size):
        raise InvalidArgument(f"-n is {count}, and {inside}; leave it out")


def needs_controller(job: Job) -> InvalidArgument:
    """The error for a job of several servers without one."""
    return InvalidArgument(
        f"{job.launcher} has spread this job over several servers, which need a controller that "
        "all of them reach: start one (mgi controller, docs/control.md) and name it by "
        "--controller or MGI_CONTROLLER; or use agents that run (--agent), or --no-cluster"
    )


class Meeting:
    """Where the ranks of one server find each other, and hear of it when one of them fails."""

    def __init__(self, job: Job) -> None:
        self._is_first = job.local_rank == 0
        self._others = job.local_size - 1
        self._came = 0
        # In /tmp another user may have made a folder of the name ahead of us.
        base, name = private_base(), f"mgi-run-{os.getuid()}-{_key(job)}"
        self._folders = [base / name, *(base / f"{name}.{turn}" for turn in range(1, _NAMES))]
        self._folder: Path | None = None
        self._listener: socket.socket | None = None
        self._members: list[socket.socket] = []
        """The others; for these, the way to the first."""
        self._agent = ""
        self._told = math.inf
        self._failed: Callable[[], None] = lambda: None

    def join(self) -> str | None:
        """Makes the meeting, or finds it: for all but the first, where the agent is."""
        if self._is_first:
            self._make()
            return None
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            member = socket.socket(socket.AF_UNIX)
            member.settimeout(PATIENCE)
            try:
                member.connect(str(self._found()))
            except (FileNotFoundError, ConnectionError, BlockingIOError):  # not yet
                member.close()
                time.sleep(0.05)
                continue
            try:
                agent = _line(member)
            except TimeoutError:
                member.close()
                raise Error(
                    "the first mgi run of this server, with local rank 0, has not said where its "
                    f"agent is in {PATIENCE:.0f} s; is it stopped, or its machine overloaded?"
                ) from None
            if agent in ("", _FAILED):
                member.close()
                raise Error("the first mgi run of this server has ended; it says why")
            self._members.append(member)
            return agent
        raise Error(
            f"the first mgi run of this server, with local rank 0, was not to be found at "
            f"{self._folders[0]} in {PATIENCE:.0f} s; has it been started?"
        )

    def watch(self, supervisor: Supervisor, failed: Callable[[], None]) -> None:
        """From now on takes the others in, and has `failed` called when one of them has."""
        self._failed = failed
        if self._listener is not None:
            supervisor.watch(self._listener.fileno(), lambda: self._take_in(supervisor))
        for member in self._members:
            self._watch_member(supervisor, member)

    def tell(self, agent: str) -> None:
        """Says where the agent is to all who ask."""
        self._agent, self._told = agent, time.monotonic()
        for member in self._members:
            _say(member, agent)

    def tell_failure(self, but: socket.socket | None = None) -> None:
        """Says to the others that a rank has failed."""
        for member in self._members:
            if member is not but:
                _say(member, _FAILED)

    @property
    def own_folder(self) -> Path | None:
        """The meeting's place, for the first."""
        return self._folder

    @property
    def last_call(self) -> float:
        """When (of the monotonic clock) those that have not come are not waited for any more."""
        return self._told + PATIENCE

    def over(self) -> bool:
        """Whether all others have come and gone, or never come."""
        all_came = self._came >= self._others or time.monotonic() >= self.last_call
        return not self._is_first or (all_came and not self._members)

    def close(self) -> None:
        """Takes the meeting's place away."""
        for member in self._members:
            member.close()
        if self._listener is not None:
            self._listener.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _make(self) -> None:
        for folder in self._folders:
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o700)
            if is_private(folder):
                break
        else:
            raise Refused(
                f"{self._folders[0]} and {_NAMES - 1} others like it belong to somebody else; set "
                "XDG_RUNTIME_DIR to a folder of this user's"
            )
        self._folder = folder
        path = folder / _SOCKET
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(self._others + 1)

    def _found(self) -> Path:
        """The socket of the first, in the one of the folders that it has made."""
        for folder in self._folders:
            if is_private(folder):
                return folder / _SOCKET
        raise FileNotFoundError

    def _take_in(self, supervisor: Supervisor) -> None:
        assert self._listener is not None
        member, _ = self._listener.accept()
        self._came += 1
        self._members.append(member)
        self._watch_member(supervisor, member)
        if self._agent:
            _say(member, self._agent)

    def _watch_member(self, supervisor: Supervisor, member: socket.socket) -> None:
        member.settimeout(_LINE_LIMIT)
        supervisor.watch(member.fileno(), lambda: self._hear(supervisor, member))

    def _hear(self, supervisor: Supervisor, member: socket.socket) -> None:
        said = ""
        with contextlib.suppress(TimeoutError):
            said = _line(member)
        if said == _FAILED:
            self.tell_failure(but=member)
            self._failed()
            return
        supervisor.unwatch(member.fileno())
        self._members.remove(member)
        member.close()


def _say(member: socket.socket, text: str) -> None:
    with contextlib.suppress(OSError):  # it has gone, which its socket will tell
        member.sendall(f"{text}\n".encode())


def _line(member: socket.socket) -> str:
    """What the other end says, without its end; empty if it has gone."""
    said = b""
    with contextlib.suppress(ConnectionError):
        while (byte := member.recv(1)) not in (b"", b"\n"):
            said += byte
    return said.decode(errors="replace")


def _key(job: Job) -> str:
    """The same for all ranks of a job on this server, and for no others at the same time."""
    if job.launcher == "Slurm":
        parts = ["slurm", *(os.environ.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID"))]
    elif job.launcher == "torchrun" and "TORCHELASTIC_RUN_ID" in os.environ:
        # Who runs us may be a shell of each rank's own. A group that failed is started again.
        names = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT")
        parts = ["torchrun", *(os.environ.get(name, "") for name in names)]
    elif job.name:
        parts = [job.launcher, job.name]
    else:  # whoever started all of them here
        parts = [job.launcher, str(os.getppid())]
    # In a socket's name, which may not be long.
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
