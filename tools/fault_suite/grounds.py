"""Where exchanges run, with a control plane: on this machine, or on the servers of a testbed."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from mgi.testbed import Testbed, kernel
from mgi.testbed.layout import CONTROL_ADDRESS
from processes import PATIENCE, Agent, Cluster, Controller

from .job import Setup, Spot

SERVERS, NICS = 3, 3
"""An exchange takes some of them."""
RATE = 30_000_000
"""Bits a second of a NIC, so that rows move for long enough to meet the fault."""
TIMES = ["--heartbeat-ms=100", "--lease-ms=2000", "--grace-ms=6000"]
"""So that no server is away that is only busy."""


class Ground:
    """A cluster of one server: this machine."""

    controller: Controller
    agents: list[Agent]

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.cluster = Cluster(folder)
        try:
            self.start()
        except BaseException:
            print(self.cluster.logs())
            self.close()
            raise

    def start(self) -> None:
        """Controller and agents."""
        self.controller = self.cluster.controller()
        self.agents = [self.cluster.agent("node1", self.controller.address)]
        self.controller.wait_state("node1", "present")

    def spots(self, setup: Setup, before: list[str]) -> list[Spot]:
        """Where each process runs."""
        return [Spot("node1", self.agents[0].socket, before)] * setup.size

    def own(self) -> set[int]:
        """Processes that stay."""
        return {service.popen.pid for service in (self.controller, *self.agents)}

    def close(self) -> None:
        """Ends the control plane."""
        self.cluster.close()


class FarController(Controller):
    """A controller at a testbed's switch, which is in another network than we are."""

    def __init__(self, folder: Path, switch: str, before: list[str]) -> None:
        self._switch = switch
        where = {"host": CONTROL_ADDRESS, "before": before}
        super().__init__(folder, "controller", "--insecure", **where, times=TIMES)

    def fetch(self, path: str) -> str:
        return inside(self._switch, lambda: super(FarController, self).fetch(path))


class Bed(Ground):
    """A testbed's servers, each with an agent; the controller is at the switch."""

    def __init__(self, folder: Path) -> None:
        self.testbed = Testbed.up(bed_name(os.getpid()), SERVERS, NICS, RATE, 9000)
        super().__init__(folder)

    def start(self) -> None:
        folder = self.cluster.folder
        controller = FarController(folder, self.testbed.switch, self._at("switch"))
        self.controller = self.cluster.keep(controller)
        # A network of this testbed alone, without a token.
        graph = ["--topology-config", str(self.testbed.corrections), "--insecure"]
        self.agents = [
            self.cluster.keep(
                Agent(folder, name, self.controller.address, *graph, before=self._at(name))
            )
            for name in (f"server{number}" for number in range(SERVERS))
        ]
        for agent in self.agents:  # several interpreters start at once
            self.controller.wait_state(agent.name, "present", 4 * PATIENCE)

    def _at(self, server: str) -> list[str]:
        """What starts a command on a server."""
        words = ["testbed", "exec", "--name", self.testbed.name, "--server", server, "--"]
        return [sys.executable, "-m", "mgi.cli", *words]

    def spots(self, setup: Setup, before: list[str]) -> list[Spot]:
        ports = [nic.port for nic in self.testbed.nics() if nic.port.nic is not None]
        made = []
        for rank in range(setup.size):
            number = rank % setup.servers
            agent = self.agents[number]
            nics = [p.address for p in ports if p.server == number and p.nic < setup.nics]
            made.append(Spot(agent.name, agent.socket, [*self._at(agent.name), *before], nics))
        return made

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.testbed.down()


def bed_name(pid: int) -> str:
    """The testbed of the suite that is this process."""
    return f"faults{pid}"


def inside(space: str, work: Callable[[], Any]) -> Any:
    """What comes of some work in a network namespace; a thread of its own goes there."""
    done: Future[Any] = Future()

    def go() -> None:
        try:
            kernel.join(space)
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=go).start()
    return done.result()
