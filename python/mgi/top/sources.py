"""Where a cluster's status comes from: a server's agent, or the controller itself."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from abc import abstractmethod
from pathlib import Path
from typing import Any

from mgi.closing import Closing
from mgi.cluster import ClusterClient
from mgi.control import MISSING, PROGRAM
from mgi.errors import Error, InvalidArgument, Refused
from mgi.top.figures import Figures, figures
from mgi.warden import is_private, private_base

PATIENCE = 10.0
"""Seconds that an answer may take."""
DEFAULT_CONTROLLER = "127.0.0.1:7070"

_SYSTEM_SOCKET = Path("/run/mgi/agent.sock")


class Source(Closing):
    """Answers with the status that docs/control.md describes."""

    @abstractmethod
    def ask(self) -> dict[str, Any]:
        """The status now; raises Error while it cannot be had."""

    def figures(self) -> Figures:
        """What of it is shown; raises Error for what is no status of this version, too."""
        try:
            return figures(self.ask())
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise Error(
                f"the status cannot be read ({error!r}); the controller may be of another version"
            ) from None


class AgentSource(Source):
    """Through an agent's socket: whoever may use that may look."""

    def __init__(self, socket: str | os.PathLike[str]) -> None:
        self._client = ClusterClient(socket, name="mgi top", timeout=PATIENCE)

    def ask(self) -> dict[str, Any]:
        return self._client.status()

    def close(self) -> None:
        self._client.close()


class ControllerSource(Source):
    """From a controller, or from that of several which leads."""

    def __init__(self, addresses: str) -> None:
        if not os.access(PROGRAM, os.X_OK):
            raise Refused(MISSING.format(command="top").removeprefix("mgi top: "))
        self._command = [str(PROGRAM), "status", "--json", "--controller", addresses]
        self._asking: subprocess.Popen[bytes] | None = None

    def ask(self) -> dict[str, Any]:
        pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
        with subprocess.Popen(self._command, stdin=subprocess.DEVNULL, **pipes) as self._asking:
            try:
                status, trouble = self._asking.communicate(timeout=PATIENCE)
            except BaseException as error:
                self._asking.kill()
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                raise Error(f"the controller has not answered for {PATIENCE:.0f} s") from None
        if self._asking.returncode != 0:
            said = trouble.decode(errors="replace").strip().removeprefix("mgi status: ")
            raise Error(said or "the controller failed")
        return json.loads(status)

    def close(self) -> None:
        """Nobody waits for an answer that is under way."""
        if self._asking is not None:
            self._asking.kill()


def open_source(controller: str | None, agent: str | None) -> Source:
    """What the options name, else the environment, else what there is on this machine."""
    if controller is None and agent is None:
        agent = os.environ.get("MGI_AGENT") or None
        controller = None if agent else os.environ.get("MGI_CONTROLLER") or None
    if agent is not None:
        return AgentSource(agent)
    if controller is not None:
        return ControllerSource(controller)
    if (job := _job()) is not None:
        return job
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    own = [Path(runtime, "mgi/agent.sock")] if runtime and is_private(Path(runtime)) else []
    for socket in [*own, _SYSTEM_SOCKET]:
        if os.access(socket, os.W_OK):
            return AgentSource(socket)
    return ControllerSource(DEFAULT_CONTROLLER)


def _job() -> Source | None:
    """The one job that mgi run has started here with a cluster of its own, if there is one."""
    found: dict[Any, tuple[Path, AgentSource]] = {}
    try:
        base = private_base()
    except OSError:
        return None
    for socket in sorted(base.glob("mgi-run-*/agent.sock")):
        if not is_private(socket.parent):  # root could look at it, and be told anything
            continue
        with contextlib.suppress(Error, OSError):  # left by one that was killed
            source = AgentSource(socket)
            try:
                status = source.ask()
            except Error:
                source.close()
                raise
            # A job on several servers of a testbed has as many agents, and one controller.
            if (key := (status.get("controller"), status.get("epoch"))) in found:
                source.close()
            else:
                found[key] = (socket, source)
    if len(found) <= 1:
        return next((source for _, source in found.values()), None)
    for _, source in found.values():
        source.close()
    listed = "".join(f"\n  mgi top --agent {socket}" for socket, _ in found.values())
    raise InvalidArgument(f"{len(found)} jobs run here; choose one:{listed}")
