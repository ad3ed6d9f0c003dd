"""A controller, and an agent on each server, for the time of a job."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from mgi.control import MISSING, PROGRAM
from mgi.errors import Error, Refused
from mgi.run.output import Tagger
from mgi.run.places import some_port
from mgi.run.supervisor import Process, Station, Supervisor

PATIENCE = 60.0
"""Seconds that a controller or an agent may take to start on a machine that has much to do."""

_TAIL = 4000
_TRIES = 20
# Files, which have the same path on all hosts.
_CREDENTIALS = ("MGI_CA", "MGI_CERT", "MGI_KEY", "MGI_TOKEN_FILE")
_NOT_OURS = ("MGI_AGENT", "MGI_CONTROLLER", *_CREDENTIALS)


def check_program() -> None:
    """Raises unless the control plane is part of this installation."""
    if not os.access(PROGRAM, os.X_OK):
        raise Refused(MISSING.format(command="run") + "\n--no-cluster starts programs without it.")


class Service:
    """A controller or an agent: ready once it has printed its line."""

    def __init__(self, what: str, log: Callable[[bytes], None]) -> None:
        self.what, self._print = what, log
        self.process: Process | None = None
        self._out, self._tail = bytearray(), bytearray()
        self._log = Tagger(f"[{what}] ".encode()) if os.environ.get("MGI_LOG") else None

    def hear(self, kind: bytes, data: bytes) -> None:
        """Takes what it prints."""
        if kind == b"O":
            self._out += data
        elif kind == b"E":
            self._tail = (self._tail + data)[-_TAIL:]
            if self._log is not None:
                self._print(self._log.add(data))

    @property
    def ready(self) -> bool:
        """Whether it listens."""
        return b"\n" in self._out

    @property
    def settled(self) -> bool:
        """Whether it listens or has ended."""
        return self.ready or (self.process is not None and self.process.over)

    def said(self) -> str:
        """The last that it said about itself."""
        lines = self._tail.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else (self.process.why if self.process else "") or "nothing"


class Cluster:
    """The control plane of a job. `given`: controllers that run already (host:port,...).

    `wait` is the supervisor's, and raises when a signal ends the job; `log` prints what services
    log, if they are to.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        given: str | None,
        wait: Callable[[Callable[[], bool], float], bool],
        log: Callable[[bytes], None],
    ) -> None:
        self._supervisor, self._given = supervisor, given
        self._wait, self._log = wait, log
        self._token = secrets.token_hex(32) + "\n"
        self.controller: Service | None = None
        self.agents: dict[Station, Service] = {}

    @property
    def services(self) -> list[Service]:
        """All that were started, the controller last."""
        own = [self.controller] if self.controller is not None else []
        return [*self.agents.values(), *own]

    def start_controller(self, station: Station) -> int:
        """Starts the controller and returns its port; raises with what it said if it does not."""
        token = self._supervisor.write(station, "token", self._token)
        host = station.place.address
        for _ in range(_TRIES):
            port = some_port()
            argv = [str(PROGRAM), "controller", "--listen", f"{host}:{port}", "--http", "none"]
            argv += ["--state", f"{station.folder}/controller.state", "--token-file", str(token)]
            argv += ["--log-level", "warn"]
            service = self.controller = Service("controller", self._log)
            service.process = self._supervisor.start(station, argv, _blank(), service.hear)
            self._await([service])
            if service.ready:
                return port
            if "cannot be listened on" not in service.said():
                break
        raise Error(f"the controller did not start: {service.said()}")

    def start_agents(self, controllers: dict[Station, str]) -> None:
        """Starts an agent at each station, which finds the controller at the address beside it."""
        for station, controller in controllers.items():
            argv = [str(PROGRAM), "agent", "--controller", controller]
            argv += ["--name", station.place.server, "--socket", str(self.socket(station))]
            argv += ["--log-level", "warn"]
            env = self._environment(station)
            if not self._given:
                token = self._supervisor.write(station, "token", self._token)
                argv += ["--token-file", str(token)]
            if station.place.corrections:
                argv += ["--topology-config", station.place.corrections]
            service = self.agents[station] = Service(f"agent of {station.place.server}", self._log)
            service.process = self._supervisor.start(station, argv, env, service.hear)
        self._await(list(self.agents.values()))
        for service in self.agents.values():
            if not service.ready:
                raise Error(f"the {service.what} did not start: {service.said()}")

    def socket(self, station: Station) -> Path:
        """Where the station's agent is reached: MGI_AGENT of its processes."""
        assert station.folder is not None
        return station.folder / "agent.sock"

    def _environment(self, station: Station) -> dict[str, str]:
        """What an agent has beside the environment of its place: a cluster's, but of one alone."""
        if not station.place.is_remote:
            return {} if self._given else _blank()
        blank = dict.fromkeys(_NOT_OURS, "")  # a login there may set what one here does not
        kept = {name: os.environ[name] for name in ("MGI_LOG",) if name in os.environ}
        if self._given:
            kept |= {name: os.environ[name] for name in _CREDENTIALS if name in os.environ}
        return blank | kept

    def _await(self, services: list[Service]) -> None:
        if not self._wait(lambda: all(s.settled for s in services), time.monotonic() + PATIENCE):
            late = ", ".join(s.what for s in services if not s.settled)
            raise Error(f"{late}: not ready after {PATIENCE:.0f} s; MGI_LOG=debug says more")


def _blank() -> dict[str, str]:
    """An environment in which options alone count."""
    return dict.fromkeys((name for name in _NOT_OURS if name in os.environ), "")
