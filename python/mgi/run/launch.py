"""A job from its first process to its last, and what becomes of it when one fails."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mgi.errors import Error
from mgi.jobs import Job
from mgi.run.cluster import Cluster, Service, check_program
from mgi.run.launched import Meeting
from mgi.run.output import Ended, Tagger, is_coloured, tag_of, write_all
from mgi.run.places import Place, here, some_port
from mgi.run.supervisor import Process, Station, Supervisor

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)


@dataclass(frozen=True)
class Plan:
    """What is to be started: so many ranks at each place."""

    argv: list[str]
    places: list[tuple[Place, int]]
    control: Place | None = None
    """Where the controller runs; None: on this machine."""
    with_cluster: bool = True
    controller: str | None = None
    """Controllers that run already."""
    agent: str | None = None
    """The socket of agents that run already."""
    name: str = ""
    env: dict[str, str] = field(default_factory=dict)
    """For every process, beside its place's own."""
    tagged: bool = True
    grace: float = 5.0
    job: Job | None = None
    """The place that another launcher has given our only process."""
    meeting: Meeting | None = None
    """Where it finds the others of its server, and the first of them these."""


@dataclass(eq=False)
class Rank:
    """A process of the job."""

    number: int
    server: str
    process: Process | None = None

    @property
    def running(self) -> bool:
        """Whether it has been started and has not ended."""
        return self.process is not None and not self.process.over


class _Stopped(Exception):  # noqa: N818
    """A signal came before all was started."""


class Launch:
    """Starts what a plan says and sees to its end."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._supervisor = Supervisor(plan.grace, self._on_signal)
        self._cluster = Cluster(self._supervisor, plan.controller)
        self._control: Station | None = None
        self._addresses: dict[Station, str] = {}
        """Of the controller, as each station reaches it."""
        self._ranks: list[Rank] = []
        self._first: Rank | None = None
        """The first that failed."""
        self._fellow_has_failed = False
        self._stopped_by: int | None = None
        self._kill_at: float | None = None
        self._writing = self._discards = False
        self._name = plan.name or f"{Path(plan.argv[0]).name}-{secrets.token_hex(3)}"
        self._coloured = {
            stream: is_coloured(descriptor, os.environ) for stream, descriptor in _STREAMS.items()
        }

    def run(self) -> int:
        """Runs the job, prints one line if it failed, and returns the exit status."""
        self._supervisor.catch([*_ENDING, *_PASSED_ON])
        try:
            if self._plan.meeting is not None:
                self._plan.meeting.watch(self._supervisor, self._fellow_failed)
            stations = self._open()
            if self._plan.with_cluster and self._plan.agent is None:
                self._start_cluster(stations)
            if self._plan.meeting is not None and self._plan.meeting.own_folder is not None:
                # A warden outlives us if we are killed.
                self._supervisor.remove(stations[0], self._plan.meeting.own_folder)
            self._start_ranks(stations)
            self._serve()
            if self._plan.meeting is not None:
                self._wait(self._plan.meeting.over)
            self._stop_cluster()
        except _Stopped:
            pass
        finally:
            self._supervisor.close()
        return self._conclude()

    def _open(self) -> list[Station]:
        """Wardens at all places. Those of other hosts get a tunnel to the controller here."""
        plan = self._plan
        starts_controller = plan.with_cluster and plan.agent is None and plan.controller is None
        port = 0
        if starts_controller:
            check_program()
            self._control = self._supervisor.open(plan.control or here("here"))
            self._await_hello([self._control])
            port = self._cluster.start_controller(self._control)
        stations = []
        for place, _ in plan.places:
            tunnel = (some_port(), port) if starts_controller and place.is_remote else None
            stations.append(self._supervisor.open(place, tunnel))
            if plan.controller is not None:
                self._addresses[stations[-1]] = plan.controller
            elif self._control is not None:
                host, there = self._control.place.address, tunnel[0] if tunnel else port
                self._addresses[stations[-1]] = f"{'127.0.0.1' if tunnel else host}:{there}"
        self._await_hello(stations)
        return stations

    def _await_hello(self, stations: list[Station]) -> None:
        self._wait(lambda: all(s.folder is not None or not s.alive for s in stations))
        for station in stations:
            if station.folder is None:
                way = f" ({' '.join(station.place.ssh)})" if station.place.is_remote else ""
                raise Error(
                    f"{station.place.server}: processes cannot be started there{way}; "
                    "the lines above say why"
                )

    def _start_cluster(self, stations: list[Station]) -> None:
        check_program()
        self._cluster.start_agents({s: self._addresses[s] for s in stations})
        if self._plan.meeting is not None:
            self._plan.meeting.tell(str(self._cluster.socket(stations[0])))
        self._check_stopped()

    def _start_ranks(self, stations: list[Station]) -> None:
        for station, (place, count) in zip(stations, self._plan.places, strict=True):
            agent = self._plan.agent
            if agent is None and self._plan.with_cluster:
                agent = str(self._cluster.socket(station))
            for local in range(count):
                if self._stopped_by is not None or self._fellow_has_failed:
                    return
                job = self._plan.job or self._job(len(self._ranks), place.server, local, count)
                rank = Rank(job.rank, job.server)
                self._ranks.append(rank)
                env = _ours() if place.is_remote else {}
                env |= self._plan.env | _variables(job)
                if agent is not None:
                    env["MGI_AGENT"] = agent
                printer = _Printer(self, job.rank, job.size)
                rank.process = self._supervisor.start(station, self._plan.argv, env, printer.hear)

    def _job(self, rank: int, server: str, local: int, count: int) -> Job:
        size = sum(count for _, count in self._plan.places)
        return Job(self._name, rank, size, local, count, server, "mgi run")

    def _serve(self) -> None:
        """Until no rank runs. The first failure ends all others."""
        seen = 0
        ended = self._supervisor.ended
        while any(rank.running for rank in self._ranks):
            self._supervisor.wait(lambda seen=seen: len(ended) > seen, lambda: self._kill_at)
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._signal_all(signal.SIGKILL)
                self._kill_at = None
            for process in ended[seen:]:
                self._look_at(process)
            seen = len(ended)

    def _look_at(self, process: Process) -> None:
        """Decides what the end of a process means for the others."""
        for service in self._cluster.services:
            if service.process is process:
                self._report(service)
        for rank in self._ranks:
            if rank.process is process and process.failed and self._first is None:
                self._first = rank
                if self._stopped_by is None and not self._fellow_has_failed:
                    self._end(signal.SIGTERM)
                    if self._plan.meeting is not None:
                        self._plan.meeting.tell_failure()

    def _fellow_failed(self) -> None:
        """Another launcher has started us and one that has failed."""
        if self._first is None and not self._fellow_has_failed:
            self._fellow_has_failed = True
            self._end(signal.SIGTERM)

    def _report(self, service: Service) -> None:
        """What runs goes on without controller and agents; the user should know."""
        if service.process is not None:
            how = _how(service.process)
            _complain(f"the {service.what} {how}; the job goes on. It said: {service.said()}")

    def _stop_cluster(self) -> None:
        """Agents first: the controller is to hear that they went in good order."""
        services = self._cluster.services
        for some in (services[:-1], services[-1:]):
            end = time.monotonic() + self._plan.grace
            running = [s.process for s in some if s.process is not None]
            for process in running:
                self._supervisor.signal(process, signal.SIGTERM)
            self._supervisor.wait(
                lambda running=running: all(p.over for p in running), lambda end=end: end
            )

    def _wait(self, done: Callable[[], bool]) -> None:
        """Waits for something while nothing is started yet that could go on."""
        self._supervisor.wait(lambda: self._stopped_by is not None or done(), lambda: None)
        self._check_stopped()

    def _check_stopped(self) -> None:
        if self._stopped_by is not None and not any(rank.running for rank in self._ranks):
            raise _Stopped

    def _end(self, number: int) -> None:
        self._signal_all(number)
        self._kill_at = time.monotonic() + self._plan.grace

    def _signal_all(self, number: int) -> None:
        for rank in self._ranks:
            if rank.process is not None:
                self._supervisor.signal(rank.process, number)

    def _on_signal(self, number: int) -> None:
        """Called between any two steps of the program."""
        if number in _PASSED_ON:
            self._signal_all(number)
        elif self._stopped_by is None:
            self._stopped_by = number
            self._end(number)
        else:
            self._signal_all(signal.SIGKILL)
            self._supervisor.hurry()
            self._discards = True
            if self._writing:  # to somebody who does not read
                raise Ended

    def print(self, stream: bytes, data: bytes) -> None:
        """Prints what a process has printed; the job ends if nobody reads it."""
        if not data or self._discards:
            return
        try:
            self._writing = True
            write_all(_STREAMS[stream], data)
        except Ended:
            self._discards = True
            if self._stopped_by is None:
                self._stopped_by = signal.SIGPIPE
                self._end(signal.SIGTERM)
        finally:
            self._writing = False

    def tag(self, stream: bytes, rank: int, size: int) -> bytes:
        """What stands before each line of a process."""
        return tag_of(rank, size, self._coloured[stream]) if self._plan.tagged else b""

    def _conclude(self) -> int:
        first, count = self._first, len(self._ranks)
        if self._stopped_by is not None:
            if self._stopped_by != signal.SIGPIPE:
                name = signal.Signals(self._stopped_by).name
                what = f"all {count} processes have ended" if count else "nothing was started yet"
                _complain(f"{name}; {what}")
            return 128 + self._stopped_by
        if self._fellow_has_failed and (first is not None or not self._ranks):
            rank = self._plan.job.rank if self._plan.job is not None else 0
            _complain(f"rank {rank} was ended, since another one of its server has failed")
            return 128 + signal.SIGTERM
        if first is None or first.process is None:
            return 0
        others = sum(1 for rank in self._ranks if rank is not first)
        rest = f"; the others ({others}) were ended" if others else ""
        pid = f", pid {first.process.pid}" if first.process.pid else ""
        _complain(f"rank {first.number} ({first.server}{pid}) {_how(first.process)}{rest}")
        status = first.process.status or 1
        return status if status > 0 else 128 - status


class _Printer:
    """Gives a rank's output its tags."""

    def __init__(self, launch: Launch, rank: int, size: int) -> None:
        self._launch = launch
        self._taggers = {s: Tagger(launch.tag(s, rank, size)) for s in _STREAMS}

    def hear(self, kind: bytes, data: bytes) -> None:
        """Takes what it prints; a line without an end is over with its process."""
        if kind == b"X":
            for stream, tagger in self._taggers.items():
                self._launch.print(stream, tagger.rest())
        else:
            self._launch.print(kind, self._taggers[kind].add(data))


_STREAMS = {b"O": 1, b"E": 2}


def _variables(job: Job) -> dict[str, str]:
    """A process' place as mgi.job() reads it."""
    return {
        "MGI_JOB": job.name,
        "MGI_RANK": str(job.rank),
        "MGI_SIZE": str(job.size),
        "MGI_LOCAL_RANK": str(job.local_rank),
        "MGI_LOCAL_SIZE": str(job.local_size),
        "MGI_SERVER": job.server,
    }


def _ours() -> dict[str, str]:
    """Variables of ours that other machines get; an agent's socket is on its own machine."""
    return {n: v for n, v in os.environ.items() if n.startswith("MGI_") and n != "MGI_AGENT"}


def _how(process: Process) -> str:
    status = process.status or 0
    if process.why:
        return f"was not started: {process.why}" if process.pid is None else process.why
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def _complain(text: str) -> None:
    print(f"mgi run: {text}", file=sys.stderr, flush=True)
