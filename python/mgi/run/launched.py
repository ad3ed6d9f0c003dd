"""Inside another launcher's job each ``mgi run`` is one rank; those of a server share an agent.

The one with local rank 0 starts the agent; the others ask it where that is, over a socket whose
place follows from the job. It stays until they have gone.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
import time

from mgi.errors import Error, InvalidArgument, Refused
from mgi.jobs import Job
from mgi.run.supervisor import Supervisor
from mgi.run.warden import private_base

PATIENCE = 120.0
"""Seconds that the agent of a server may take to be there."""


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
    """Where the ranks of one server find each other."""

    def __init__(self, job: Job) -> None:
        self._others = job.local_size - 1
        self._folder = private_base() / f"mgi-run-{os.getuid()}-{_key(job)}"
        self._path = self._folder / "meeting.sock"
        self._listener: socket.socket | None = None
        self._members: list[socket.socket] = []
        self._came = 0
        self._agent = b""

    def join(self) -> str:
        """For all but the first: where the agent is, once it is there. Holds it until we end."""
        end = time.monotonic() + PATIENCE
        while True:
            member = socket.socket(socket.AF_UNIX)
            member.settimeout(PATIENCE)
            try:
                self._check_owner()
                member.connect(str(self._path))
                said = member.makefile("rb").readline()
            except FileNotFoundError:
                said = b""
            except ConnectionError:
                said = b""
            if said.endswith(b"\n"):
                self._members.append(member)
                return said.decode().rstrip("\n")
            member.close()
            if time.monotonic() > end:
                raise Error(
                    f"the first mgi run of this server did not tell of its agent at {self._path} "
                    f"in {PATIENCE:.0f} s; what did it say?"
                )
            time.sleep(0.05)

    def open(self, supervisor: Supervisor) -> None:
        """For the first: takes the others in, from now on."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._check_owner()
        self._path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen(self._others + 1)
        supervisor.watch(self._listener.fileno(), lambda: self._take_in(supervisor))

    def tell(self, agent: str) -> None:
        """Says where the agent is to all who ask."""
        self._agent = agent.encode() + b"\n"
        for member in self._members:
            self._say(member)

    def over(self) -> bool:
        """Whether all others have come and gone."""
        return self._came >= self._others and not self._members

    def close(self) -> None:
        """Takes the meeting's place away."""
        for member in self._members:
            member.close()
        if self._listener is not None:
            self._listener.close()
            self._path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self._folder.rmdir()

    def _take_in(self, supervisor: Supervisor) -> None:
        assert self._listener is not None
        member, _ = self._listener.accept()
        self._came += 1
        self._members.append(member)
        supervisor.watch(member.fileno(), lambda: self._let_go(supervisor, member))
        if self._agent:
            self._say(member)

    def _say(self, member: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it has gone, which its socket will tell
            member.sendall(self._agent)

    def _let_go(self, supervisor: Supervisor, member: socket.socket) -> None:
        supervisor.unwatch(member.fileno())
        self._members.remove(member)
        member.close()

    def _check_owner(self) -> None:
        status = self._folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise Refused(f"{self._folder} belongs to somebody else; remove it")


def _key(job: Job) -> str:
    """The same for all ranks of a job on this server, and for no others at the same time."""
    if job.launcher == "Slurm":
        parts = ["slurm", os.environ["SLURM_JOB_ID"], os.environ.get("SLURM_STEP_ID", "")]
    elif job.launcher == "Open MPI" and job.name:
        parts = ["ompi", job.name]
    else:  # whoever started all of them here
        parts = [job.launcher, str(os.getppid())]
    return re.sub(r"[^A-Za-z0-9]+", "-", "-".join(parts))[-40:].strip("-")
