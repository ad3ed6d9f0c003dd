"""Faults between servers: of NICs, of servers' networks, of processes elsewhere."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from .grounds import RATE, Bed
from .job import Setup
from .kinds import PHASES, Case, Kind, freeze, kill, stop
from .strangers import strangers

MOST_ROWS = 4_000_000
CREATED = ("moving", "flushed", "received")
"""Phases in which every process has the channel."""


def over_servers(chance: random.Random, setup: Setup) -> None:
    """Shares the exchange out to servers."""
    setup.servers = chance.choice([2, min(3, setup.size)])
    setup.nics = chance.choice([1, 2, 3])
    if setup.routing == "broadcast":  # every row goes over all links
        setup.rows = min(setup.rows, 300_000)
    # By more NICs they go faster; all together are what two busy cores can see to.
    setup.rows = min(setup.rows * setup.nics, MOST_ROWS // setup.size)


def _bed(case: Case) -> Bed:
    assert isinstance(case.ground, Bed)
    return case.ground


def _nic(case: Case, server: int, nic: int, up: bool, slow: int | None = None) -> None:
    _bed(case).testbed.fail_nic(server, f"nic{nic}", slow, up)


def _when(case: Case) -> str:
    phase = case.random.choice([*PHASES, "created", "moving", "moving"])
    return case.await_phase(phase, case.random.randrange(case.setup.size))


def each_nic(case: Case) -> str:
    case.lossless = True
    when = _when(case)
    nics = [(s, n) for s in range(case.setup.servers) for n in range(case.setup.nics)]
    case.random.shuffle(nics)
    told = []
    for server, nic in nics:
        moment = case.random.uniform(0.1, 1)
        if case.over:
            break
        _nic(case, server, nic, up=False)
        time.sleep(moment)
        _nic(case, server, nic, up=True)
        told.append(f"server{server} nic{nic} for {moment:.1f} s")
        time.sleep(case.random.uniform(0, 0.3))
    return f"{when} without a cable in turn: {', '.join(told) or 'none'}"


def many_nics(case: Case) -> str:
    case.lossless = True
    server = case.random.randrange(case.setup.servers)
    nics = list(range(case.setup.nics))
    if len(nics) > 1 and case.random.random() < 0.5:
        nics.remove(case.random.choice(nics))
    moment = case.random.random()
    when = _when(case)
    for nic in nics:
        _nic(case, server, nic, up=False)
    time.sleep(moment)
    for nic in nics:
        _nic(case, server, nic, up=True)
    return f"{len(nics)} of server{server}'s NICs without a cable for {moment:.1f} s {when}"


def slow_nic(case: Case) -> str:
    case.lossless = True
    server, nic = case.random.randrange(case.setup.servers), case.random.randrange(case.setup.nics)
    moment = case.random.uniform(0.5, 3)
    when = _when(case)
    _nic(case, server, nic, up=False, slow=RATE // 10)
    time.sleep(moment)
    _nic(case, server, nic, up=True)
    return f"server{server} nic{nic} at a tenth of its rate for {moment:.1f} s {when}"


def cut_off(for_ever: bool) -> Callable[[Case], str]:
    """Takes a server from all networks; it is healed in a while, or when all is over."""

    def inject(case: Case) -> str:
        server = case.random.randrange(case.setup.servers)
        moment = case.random.uniform(0.2, 2)
        phase = case.random.choice(PHASES)
        rank = case.random.randrange(case.setup.size)
        case.lossless = not for_ever and phase in CREATED
        when = case.await_phase(phase, None if phase == "moving" else rank)
        testbed = _bed(case).testbed
        testbed.fail_server(server, up=False)
        if for_ever:
            case.heal.append(lambda: testbed.fail_server(server, up=True))
            return f"server{server} cut off for ever {when}"
        time.sleep(moment)
        testbed.fail_server(server, up=True)
        return f"server{server} cut off for {moment:.1f} s {when}"

    return inject


FAR = [
    Kind(name, what, inject, prepare=over_servers, needs_bed=True)
    for name, what, inject in (
        ("nic", "each NIC of the servers loses its cable in turn, for 0.1 to 1 s", each_nic),
        (
            "nics",
            "all NICs of a server, or all but one, lose it for up to 1 s",
            many_nics,
        ),
        ("nic-slow", "a NIC is slowed to a tenth for 0.5 to 3 s", slow_nic),
        ("server", "a server is cut off from all networks for 0.2 to 2 s", cut_off(False)),
        ("server-for-ever", "a server is cut off from all networks for ever", cut_off(True)),
        ("far-kill", "as kill, over servers", kill),
        ("far-stop", "as stop, over servers", stop),
        ("far-freeze", "as freeze, over servers", freeze),
        ("port", "strangers at the port where a process awaits other servers", strangers),
    )
]
"""All of them take a testbed."""
