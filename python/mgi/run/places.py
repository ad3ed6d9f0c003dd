"""Where processes can be started: here, on a host by ssh, on a server of a testbed."""

from __future__ import annotations

import os
import random
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mgi import warden
from mgi.errors import InvalidArgument
from mgi.run.hosts import Host
from mgi.testbed import Testbed

WARDEN = Path(warden.__file__)
PORTS = range(20000, 32000)
"""Below those that the kernel gives to whoever asks for any."""


@dataclass(frozen=True)
class Place:
    """A server, and the way to it. `before` runs in the warden's process before its program."""

    server: str
    ssh: tuple[str, ...] = ()
    before: Callable[[], None] | None = field(default=None, compare=False)
    address: str = "127.0.0.1"
    """Where a controller at this place listens."""
    corrections: str = ""
    """The file that corrects the server's graph."""
    nics: tuple[str, ...] = ()
    """Addresses of its NICs, where its processes exchange rows with those of other servers."""

    @property
    def is_remote(self) -> bool:
        """Whether it is another machine, which has its own environment."""
        return bool(self.ssh)

    def start(self, grace: float, tunnel: tuple[int, int] | None) -> subprocess.Popen[bytes]:
        """Starts its warden. `tunnel`: a port there leads to a port here, on loopback both."""
        command = [sys.executable, "-I", "-S", str(WARDEN), str(grace)]
        if self.ssh:
            forward: list[str] = []
            if tunnel is not None:
                there, here = tunnel
                forward = ["-R", f"127.0.0.1:{there}:127.0.0.1:{here}"]
                forward += ["-o", "ExitOnForwardFailure=yes"]
            host = self.ssh[-1]
            command = [*self.ssh[:-1], *forward, "--", host, "exec " + shlex.join(command)]
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if self.ssh else None,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is ours to pass on
            preexec_fn=None if self.before is None else self._enter,
        )

    def _enter(self) -> None:
        """In the child. What goes wrong there comes out of Popen without its reason."""
        assert self.before is not None
        try:
            self.before()
        except Exception as error:
            os.write(2, f"mgi run: {self.server}: {error}\n".encode(errors="replace"))
            raise


def here(server: str) -> Place:
    """This machine."""
    return Place(server)


def on_host(host: Host, ssh: str) -> Place:
    """A host, by a command such as ``ssh -p 2222``."""
    words = shlex.split(ssh)
    if not words:
        raise InvalidArgument("--ssh is empty; expected a command such as 'ssh -p 2222'")
    quiet = ["-o", "BatchMode=yes", "-o", "ServerAliveInterval=5"]
    # A connection of its own: one that is shared with others would outlive us, or end with them.
    quiet += ["-o", "ControlMaster=no", "-o", "ControlPath=none"]
    return Place(host.name, ssh=(*words, *quiet, host.address))


def in_testbed(testbed: Testbed) -> tuple[Place, list[Place]]:
    """The switch, as the place of a controller, and the servers."""
    from mgi.testbed.layout import CONTROL_ADDRESS

    testbed.check_files()
    ports = [nic.port for nic in testbed.nics() if nic.port.nic is not None]
    switch = Place("switch", before=lambda: testbed.enter(None), address=CONTROL_ADDRESS)
    return switch, [
        Place(
            f"server{number}",
            before=_entering(testbed, number),
            corrections=str(testbed.corrections),
            nics=tuple(port.address for port in ports if port.server == number),
        )
        for number in range(testbed.server_count())
    ]


def _entering(testbed: Testbed, server: int) -> Callable[[], None]:
    return lambda: testbed.enter(server)


def is_this_host(address: str) -> bool:
    """Whether an address in a hosts file means this machine and user, which need no ssh."""
    own = os.uname().nodename
    return address in ("localhost", "127.0.0.1", "::1", own, own.partition(".")[0])


def some_port() -> int:
    """A port that is probably free."""
    return random.choice(PORTS)
