"""A job from its first process to its last, and what becomes of it when one fails."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
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

PATIENCE = 120.0
"""Seconds that a host may take to let us in."""
_TUNNELS = 5
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
    shares_cores: bool = True
    """Each process has cores of its own, where there are as many."""
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
    process: Process

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return not self.process.over


class _Stopped(Exception):  # noqa: N818
    """A signal came before all was started."""


class Launch:
    """Starts what a plan says and sees to its end."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._supervisor = Supervisor(plan.grace, self._on_signal, self._print_errors)
        self._cluster = Cluster(self._supervisor, plan.controller, self._wait, self._print_errors)
        self._control: Station | None = None
        self._addresses: dict[Station, str] = {}
        """Of the controller, as each station reaches it."""
        self._ranks: list[Rank] = []
        self._first: Rank | None = None
        """The first that failed."""
        self._fellow_has_failed = False
        self._stopped_by: int | None = None
        self._kill_at: float | None = None
        self._discards = False
        self._unwritten = ""
        """Why the output could not be written."""
        self._name = plan.name or f"{Path(plan.argv[0]).name}-{secrets.token_hex(3)}"
        self._secret = _secret(plan)
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
            self._wait_for_fellows()
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
            self._check_there(self._control)
            port = self._cluster.start_controller(self._control)
        stations = [self._open_at(place, port) for place, _ in plan.places]
        for _ in range(_TUNNELS):
            self._await_hello(stations)
            # The port of its tunnel is taken there: another one.
            again = [s for s in stations if s.folder is None and b"forwarding failed" in s.errors]
            if not again:
                break
            stations = [self._open_at(s.place, port) if s in again else s for s in stations]
        for station in stations:
            self._check_there(station)
        return stations

    def _open_at(self, place: Place, port: int) -> Station:
        """A warden there; `port` is the controller's here, if we have started one."""
        tunnel = (some_port(), port) if self._control is not None and place.is_remote else None
        station = self._supervisor.open(place, tunnel)
        if self._plan.controller is not None:
            self._addresses[station] = self._plan.controller
        elif self._control is not None:
            host, there = self._control.place.address, tunnel[0] if tunnel else port
            self._addresses[station] = f"{'127.0.0.1' if tunnel else host}:{there}"
        return station

    def _await_hello(self, stations: list[Station]) -> None:
        self._wait(lambda: all(s.is_tried for s in stations), time.monotonic() + PATIENCE)

    def _check_there(self, station: Station) -> None:
        if station.folder is not None:
            return
        way = f" ({' '.join(station.place.ssh)})" if station.place.is_remote else ""
        late = f"no answer in {PATIENCE:.0f} s" if station.alive else "the lines above say why"
        raise Error(
            f"{station.place.server}: processes cannot be started there{way}; {station.why or late}"
        )

    def _start_cluster(self, stations: list[Station]) -> None:
        check_program()
        self._cluster.start_agents({s: self._addresses[s] for s in stations})
        if self._plan.meeting is not None:
            self._plan.meeting.tell(str(self._cluster.socket(stations[0])))
        self._check_stopped()

    def _start_ranks(self, stations: list[Station]) -> None:
        # All places that are not remote are this machine.
        begun, ours = 0, sum(count for place, count in self._plan.places if not place.is_remote)
        for station, (place, count) in zip(stations, self._plan.places, strict=True):
            agent = self._plan.agent
            if agent is None and self._plan.with_cluster:
                agent = str(self._cluster.socket(station))
            for local in range(count):
                if self._stopped_by is not None or self._fellow_has_failed:
                    return
                job = self._plan.job or self._job(len(self._ranks), place.server, local, count)
                env = _ours() if place.is_remote else {}
                if place.nics:
                    env["MGI_ADDRESSES"] = ",".join(place.nics)
                env |= self._secret | self._plan.env | _variables(job)
                if agent is not None:
                    env["MGI_AGENT"] = agent
                share = (0, 1)
                if self._plan.shares_cores:
                    share = (local, count) if place.is_remote else (begun, ours)
                printer = _Printer(self, job.rank, job.size)
                with self._supervisor.undisturbed():  # a signal is for it too
                    started = self._supervisor.start(
                        station, self._plan.argv, env, printer.hear, share
                    )
                    self._ranks.append(Rank(job.rank, job.server, started))
                begun += not place.is_remote

    def _job(self, rank: int, server: str, local: int, count: int) -> Job:
        size = sum(count for _, count in self._plan.places)
        return Job(self._name, rank, size, local, count, server, "mgi run")

    def _serve(self) -> None:
        """Until no rank runs. The first failure ends all others."""
        seen = 0
        ended = self._supervisor.ended
        while True:
            for process in ended[seen:]:
                seen += 1
                self._look_at(process)
            if not any(rank.running for rank in self._ranks):
                return
            self._supervisor.wait(lambda seen=seen: len(ended) > seen, lambda: self._kill_at)
            self._kill_the_late()

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

    def _wait(self, done: Callable[[], bool], end: float | None = None) -> bool:
        """Waits for something while nothing runs that could go on; False at the `end`."""
        is_over = self._supervisor.wait(lambda: self._stopped_by is not None or done(), lambda: end)
        self._check_stopped()
        return is_over

    def _wait_for_fellows(self) -> None:
        """Our agent is theirs as well, unless they are to end now as we do."""
        meeting = self._plan.meeting
        if meeting is None or self._first is not None:
            return
        # Who has come by then is waited for; who has not will not.
        if not self._wait(meeting.over, meeting.last_call):
            self._wait(meeting.over)

    def _check_stopped(self) -> None:
        if self._stopped_by is not None and not any(rank.running for rank in self._ranks):
            raise _Stopped

    def _end(self, number: int) -> None:
        self._signal_all(number)
        self._kill_at = time.monotonic() + self._plan.grace

    def _signal_all(self, number: int) -> None:
        for rank in self._ranks:
            self._supervisor.signal(rank.process, number)

    def _kill_the_late(self) -> None:
        """Kills those that were asked to end and have had their time."""
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._signal_all(signal.SIGKILL)
            self._kill_at = None

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

    def print(self, stream: bytes, data: bytes) -> None:
        """Prints what a process has printed; the job ends if nobody reads it."""
        if not data or self._discards:
            return
        try:
            write_all(_STREAMS[stream], data, self._while_nobody_reads)
        except Ended as why:
            self._discards = True
            if self._stopped_by is None:
                self._stopped_by = signal.SIGPIPE
                self._unwritten = str(why)
                self._end(signal.SIGTERM)

    def _while_nobody_reads(self) -> None:
        """A reader that sleeps is waited for, also if a process has failed; not if we are to go."""
        self._kill_the_late()
        if self._discards or (self._stopped_by is not None and self._kill_at is None):
            raise Ended

    def _print_errors(self, data: bytes) -> None:
        self.print(b"E", data)

    def tag(self, stream: bytes, rank: int, size: int) -> bytes:
        """What stands before each line of a process."""
        return tag_of(rank, size, self._coloured[stream]) if self._plan.tagged else b""

    def _conclude(self) -> int:
        first, count = self._first, len(self._ranks)
        if self._supervisor.left:
            _complain(f"these processes cannot be ended: {', '.join(self._supervisor.left)}")
        if self._unwritten:
            _complain(f"the output cannot be written: {self._unwritten}; all processes have ended")
            return 1
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
        if first is None:
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


def _secret(plan: Plan) -> dict[str, str]:
    """What proves that a process is of this job: one of its own, where the user has given none.

    Another launcher's ranks have an `mgi run` each, which cannot agree on one.
    """
    given = {"MGI_JOB_SECRET", "MGI_JOB_SECRET_FILE"} & (os.environ.keys() | plan.env.keys())
    return {} if given or plan.job is not None else {"MGI_JOB_SECRET": secrets.token_hex(32)}


def _ours() -> dict[str, str]:
    """Variables of ours that other machines get; an agent's socket is on its own machine."""
    return {n: v for n, v in os.environ.items() if n.startswith("MGI_") and n != "MGI_AGENT"}


def _how(process: Process) -> str:
    status = process.status or 0
    if process.why:
        return process.why if process.is_lost else f"was not started: {process.why}"
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):  # nobody is there to hear it
        os.write(2, f"mgi run: {text}\n".encode(errors="replace"))
