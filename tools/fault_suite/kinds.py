"""The faults. Each happens at a moment that its random numbers choose."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from processes import Agent, Controller, Process, wait_for

from .grounds import Ground
from .job import Job, Setup

PHASES = ("started", "joined", "created", "moving", "flushed", "received")
PATIENCE = 60.0
"""Seconds until a phase has come on any machine."""


@dataclass
class Case:
    """A running exchange, to which something is to happen."""

    random: random.Random
    setup: Setup
    job: Job
    ground: Ground
    dead: set[int] = field(default_factory=set)
    """Ranks that the fault has killed or stopped."""
    heal: list[Callable[[], None]] = field(default_factory=list)
    """What undoes the fault when all is over."""
    lossless: bool = False
    """Nobody may notice."""
    complaints: list[str] = field(default_factory=list)
    """What the fault itself has found wrong."""

    @property
    def controller(self) -> Controller:
        return self.ground.controller

    @property
    def agent(self) -> Agent:
        """The first server's."""
        return self.ground.agents[0]

    @property
    def over(self) -> bool:
        """Whether all processes have ended."""
        return all(process.poll() is not None for process in self.job.processes)

    def await_phase(self, phase: str, rank: int | None = None) -> str:
        """Waits for it, of one rank or of all, and a moment more; says what it has waited for."""

        def come() -> bool:
            there = self.job.said(phase)
            return rank in there if rank is not None else len(there) == self.setup.size

        self.job.wait(come, PATIENCE)
        moment = self.random.random() ** 2 * 0.3
        time.sleep(moment)
        return f"{moment * 1000:.0f} ms after '{phase}'"

    def pid(self, rank: int) -> int:
        return self.job.processes[rank].pid


@dataclass(frozen=True)
class Kind:
    """A fault: `prepare` changes the processes' setup, `inject` makes it and says what it did."""

    name: str
    what: str
    inject: Callable[[Case], str]
    prepare: Callable[[random.Random, Setup], None] = lambda *_: None
    prefix: list[str] = field(default_factory=list)
    """A command that starts each process."""
    needs_bed: bool = False
    """Whether its processes are on the servers of a testbed."""
    launched: bool = False
    """Whether mgi run starts the exchange and `Launched` kills one of its processes."""


def kill(case: Case) -> str:
    victims = case.random.sample(
        range(case.setup.size), case.random.choice([1, case.setup.size - 1])
    )
    when = case.await_phase(case.random.choice(PHASES), victims[0])
    case.dead.update(victims)
    for rank in victims:
        case.job.processes[rank].kill()
    return f"kill -9 of rank {', '.join(map(str, sorted(victims)))} {when}"


def stop(case: Case) -> str:
    case.lossless = True
    victim = case.random.randrange(case.setup.size)
    when = case.await_phase(case.random.choice(PHASES), victim)
    _signal(case, victim, signal.SIGSTOP)
    time.sleep(1)
    _signal(case, victim, signal.SIGCONT)
    return f"SIGSTOP of rank {victim} for 1 s {when}"


def freeze(case: Case) -> str:
    victim = case.random.randrange(case.setup.size)
    when = case.await_phase(case.random.choice(PHASES), victim)
    case.dead.add(victim)
    _signal(case, victim, signal.SIGSTOP)
    return f"SIGSTOP of rank {victim} for ever {when}"


def _signal(case: Case, rank: int, number: signal.Signals) -> None:
    if case.job.processes[rank].poll() is None:
        os.kill(case.pid(rank), number)


def _service(which: str, phases: tuple[str, ...], lossless: bool) -> Callable[[Case], str]:
    """Kills the controller or the agent; it is started again in a while, or when all is over."""

    def inject(case: Case) -> str:
        case.lossless = lossless
        service: Process = getattr(case, which)
        phase = case.random.choice(phases)
        # All of them have rows to move, or one of them is where the fault is to strike.
        rank = None if phase == "moving" else case.random.randrange(case.setup.size)
        when = case.await_phase(phase, rank)
        service.kill()
        if case.random.random() < 0.3:
            case.heal.append(service.start)
            return f"kill -9 of the {which} {when}, for ever"
        moment = case.random.random() * 1.5
        time.sleep(moment)
        service.start()
        return f"kill -9 of the {which} {when}, back after {moment:.1f} s"

    return inject


def nothing_to_do(text: str, lossless: bool) -> Callable[[Case], str]:
    """The setup has done it."""

    def inject(case: Case) -> str:
        case.lossless = lossless
        return f"{text} {case.setup.limits if case.setup.limits['ranks'] else ''}".strip()

    return inject


def few_descriptors(chance: random.Random, setup: Setup) -> None:
    at = chance.choice(["started", "started", "joined", "created"])
    _limit(chance, setup, at=at, descriptors=chance.randrange(6))


def little_memory(chance: random.Random, setup: Setup) -> None:
    if chance.random() < 0.3:
        _limit(chance, setup, memory=1 << chance.randrange(12, 26))
    else:
        at = chance.choice(["started", "joined", "created"])
        _limit(chance, setup, at=at, address_space=1 << chance.randrange(12, 30))


def _limit(chance: random.Random, setup: Setup, **limits: Any) -> None:
    """One process has them, or all of them."""
    one = [chance.randrange(setup.size)]
    setup.limits = {"ranks": chance.choice([one, list(range(setup.size))]), **limits}


def agent_descriptors(case: Case) -> str:
    phase = case.random.choice(["started", "joined"])
    when = case.await_phase(phase, case.random.randrange(case.setup.size))
    pid = case.agent.popen.pid
    more = case.random.randrange(4)
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    case.heal.append(lambda: _restore(pid, soft, hard))
    limit = len(list(Path(f"/proc/{pid}/fd").iterdir())) + more
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, hard))
    return f"{more} descriptors left to the agent {when}"


def _restore(pid: int, soft: int, hard: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def garbage(case: Case) -> str:
    """Strangers at the agent's socket and the controller's port."""
    case.lossless = True
    when = case.await_phase(case.random.choice(PHASES), case.random.randrange(case.setup.size))
    host, port = case.controller.address.split(":")
    count = case.random.randrange(1, 20)
    for _ in range(count):
        with contextlib.suppress(OSError):
            if case.random.random() < 0.5:
                stranger = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                stranger.connect(str(case.agent.socket))
            else:
                stranger = socket.create_connection((host, int(port)), 5)
            with stranger:
                stranger.settimeout(5)
                stranger.sendall(case.random.randbytes(case.random.randrange(1, 5000)))
                if case.random.random() < 0.5:
                    stranger.settimeout(0.2)
                    stranger.recv(1000)
    return f"{count} strangers send random bytes to agent and controller {when}"


FULL = ["unshare", "--mount", "sh", "-c"]
FULL.append(
    "mount -t tmpfs -o size=64k full /dev/shm && "
    '{ head -c 1M /dev/zero > /dev/shm/full 2>/dev/null; exec "$@"; }'
)
FULL.append("sh")
"""Starts a command whose /dev/shm is full; nobody else's is."""

CREATION, TRANSFER, DELETION = ("started", "joined"), ("moving",), ("flushed", "received")

KINDS = [
    Kind("kill", "kill -9 of one or all but one of the processes, at any time", kill),
    Kind(
        "launched",
        "kill -9 of any process under mgi run: itself, wardens, ranks, agent, controller",
        nothing_to_do("", lossless=False),
        launched=True,
    ),
    Kind("stop", "SIGSTOP of a process for 1 s, at any time", stop),
    Kind("freeze", "SIGSTOP of a process for ever, at any time", freeze),
    *(
        Kind(
            f"{which}-{name}",
            f"kill -9 of the {which} during {name}",
            _service(which, phases, lossless=name != "creation"),
        )
        for which in ("controller", "agent")
        for name, phases in (
            ("creation", CREATION),
            ("transfer", TRANSFER),
            ("deletion", DELETION),
        )
    ),
    Kind(
        "descriptors",
        "0 to 5 descriptors left to one process, or to each",
        nothing_to_do("few descriptors", lossless=False),
        few_descriptors,
    ),
    Kind("agent-descriptors", "0 to 3 descriptors left to the agent", agent_descriptors),
    Kind(
        "memory",
        "no room for the channel: little address space, or a memory_limit",
        nothing_to_do("little memory", lossless=False),
        little_memory,
    ),
    Kind(
        "shm",
        "a full /dev/shm (root)",
        nothing_to_do("/dev/shm is full", lossless=True),
        prefix=FULL,
    ),
    Kind("garbage", "random bytes at the agent's socket and the controller's port", garbage),
]


def wait_until_back(case: Case) -> None:
    """Undoes the fault, and waits until the cluster is as it was."""
    for heal in case.heal:
        heal()
    for service in (case.controller, *case.ground.agents):
        if service.popen.poll() is not None:
            raise RuntimeError(f"{service.arguments[:2]} ended with {service.popen.returncode}")
    for agent in case.ground.agents:
        wait_for("the agent's return", lambda name=agent.name: case.controller.server(name))
        case.controller.wait_state(agent.name, "present")
