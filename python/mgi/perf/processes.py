"""``mgi perf exchange --processes``: the exchange between processes, beside other libraries' own.

All of them have the same rows, and take turns on the same machine: in each round MGI between
processes, MGI in one process, the limit (a hand-written exchange through shared memory), and each
library that was asked for. Who waits sleeps. On a testbed the limit is what its NICs carry.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mgi.errors import InvalidArgument
from mgi.perf.numbers import peers_among
from mgi.perf.peer_programs import PACKAGES, Peer, peers_of
from mgi.perf.servers import Servers
from mgi.perf.team import Checksum, Team, by_mgi_run, rows_of, temporary_folder

SHAPES = ("exchange", "many-to-one", "one-to-many", "one-to-one", "broadcast")
MOST_PROCESSES = 256
OURS, ONE_PROCESS, LIMIT = "MGI between processes", "MGI in one process", "limit: shared memory"


@dataclass(frozen=True)
class _Way:
    """A line of the report: a team, and how it is to do it."""

    name: str
    team: Team
    variant: str = ""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what can be chosen."""
    add = parser.add_argument
    add(
        "--processes",
        type=int,
        default=0,
        metavar="N",
        help="between so many processes, with an endpoint in each; 0: in one",
    )
    add(
        "--shape",
        choices=SHAPES,
        default="exchange",
        help="of an exchange between processes: who sends to whom",
    )
    add(
        "--peers",
        type=peers_among(PACKAGES),
        default=[],
        metavar="mpi,ucx,gloo",
        help="libraries that do it in turn with MGI, between as many processes",
    )
    add(
        "--testbed",
        metavar="NAME",
        help="the processes are on the servers of a testbed (mgi testbed), shared out evenly",
    )


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measures an exchange between processes and returns what ``--json`` writes."""
    size = options.processes
    _check(options)
    servers = None if options.testbed is None else Servers.of(options.testbed, size)
    sources = 1 if options.shape in ("one-to-many", "one-to-one", "broadcast") else size
    destinations = 1 if options.shape in ("many-to-one", "one-to-one") else size
    copies = destinations if options.shape == "broadcast" else 1
    words = [
        f"endpoints={size}",
        f"sources={sources}",
        f"destinations={destinations}",
        f"broadcast={int(options.shape == 'broadcast')}",
        *rows_of(options),
        f"layout={options.layout}",
    ]
    own = [f"groups={options.groups or 1}", f"threads={options.threads}"]
    own.append(f"by_reference={int(not options.by_copy)}")
    peers = [(library, peers_of(library, options.shape)) for library in options.peers]
    found: dict[str, list[float]] = {}
    verified = True
    with ExitStack() as stack:
        folder = temporary_folder(stack)
        ways = _ways(stack, folder, size, words, own, options, [p for _, p in peers if p], servers)
        expected = _times(ways[0].team.sent, copies)
        for number in range(options.repeat + 1):
            for way in ways:
                seconds, received = way.team.run(way.variant)
                verified = verified and received == expected
                if number > 0:  # the first one touches the memory
                    gbps = options.rows * options.row_bytes * copies / seconds / 1e9
                    found.setdefault(way.name, []).append(gbps)
    report = _report(options, found, copies, verified)
    return report if servers is None else report | _line_rate(options, servers, ways[0], found)


def _line_rate(
    options: argparse.Namespace, servers: Servers, way: _Way, found: dict[str, list[float]]
) -> dict[str, Any]:
    """What the testbed is, and what its NICs carry at most."""
    ours, team = found[way.name], way.team
    rate = servers.line_rate(
        team.rows_sent, team.rows_received, to_all=options.shape == "broadcast"
    )
    return {
        "servers": servers.count,
        "nics": servers.nics,
        "line_rate_gbps": rate,
        "ratio_to_line_rate": None if rate is None else statistics.median(ours) / rate,
    }


def _ways(
    stack: ExitStack,
    folder: Path,
    size: int,
    words: list[str],
    own: list[str],
    options: argparse.Namespace,
    peers: list[Peer],
    servers: Servers | None,
) -> list[_Way]:
    """Starts all teams, and waits until they have their rows."""
    member = [sys.executable, "-m", "mgi.perf.member"]
    there = [] if servers is None else servers.options()
    commands = {
        OURS: (by_mgi_run(size, [*member, "mgi", *own], *there), size),
        ONE_PROCESS: (by_mgi_run(1, [*member, "mgi", *own], "--no-cluster"), 1),
    }
    if options.shape != "broadcast" and servers is None:
        commands[LIMIT] = (by_mgi_run(size, [*member, "limit"], "--no-cluster"), size)
    commands |= {peer.name: (peer.command(size, servers), size) for peer in peers}
    teams = {}
    for number, (name, (command, count)) in enumerate(commands.items()):
        teams[name] = Team(name, command, words, count, folder / str(number))
        stack.callback(teams[name].close)
    for team in teams.values():
        # Until all are there, those that fail end the others at once.
        stack.callback(team.hurry)
        team.gather()
    ways = [_Way(name, teams[name]) for name in (OURS, ONE_PROCESS, LIMIT) if name in teams]
    for peer in peers:
        ways += [_Way(name, teams[peer.name], variant) for name, variant in peer.variants.items()]
    return ways


def _report(
    options: argparse.Namespace, found: dict[str, list[float]], copies: int, verified: bool
) -> dict[str, Any]:
    ours = found[OURS]
    others = {n: r for n, r in found.items() if n not in (OURS, ONE_PROCESS, LIMIT)}
    best = max(others, key=lambda name: statistics.median(others[name]), default=None)
    limit = found.get(LIMIT)
    return {
        "pattern": "exchange",
        "shape": options.shape,
        "processes": options.processes,
        "layout": options.layout,
        "endpoints": options.processes,
        "rows": options.rows,
        "bytes": options.rows * options.row_bytes * copies,
        "row_bytes": options.row_bytes,
        "dist": options.dist,
        "repeat": options.repeat,
        "groups": options.groups or 1,
        "threads": options.threads,
        "by_reference": not options.by_copy,
        "gbps_median": statistics.median(ours),
        "gbps_min": min(ours),
        "gbps_max": max(ours),
        "gbps_one_process": statistics.median(found[ONE_PROCESS]),
        "ratio_to_one_process": ratio(ours, found[ONE_PROCESS]),
        "limit_processes_gbps": statistics.median(limit) if limit else None,
        "ratio_to_processes_limit": ratio(ours, limit) if limit else None,
        "peers": [
            {"name": name, "gbps_median": statistics.median(gbps), "ratio": ratio(ours, gbps)}
            for name, gbps in others.items()
        ],
        "best_peer": best,
        "ratio_to_best_peer": ratio(ours, others[best]) if best else None,
        "verified": verified,
    }


def ratio(ours: list[float], theirs: list[float]) -> float:
    """The median of what each round says: both ran in it, on a machine in the same mood."""
    return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))


def _times(sent: Checksum, copies: int) -> Checksum:
    total = Checksum()
    for _ in range(copies):
        total += sent
    return total


def _check(options: argparse.Namespace) -> None:
    if not 2 <= options.processes <= MOST_PROCESSES:
        raise InvalidArgument(f"--processes is {options.processes}; expected 2 to {MOST_PROCESSES}")
    if options.shape == "one-to-one" and options.processes != 2:
        raise InvalidArgument(f"one-to-one is between 2 processes, not {options.processes}")
    for name, given in (("--fanout", options.fanout), ("--staged", options.staged)):
        if given:
            raise InvalidArgument(f"{name} is not for --processes; leave it out")
    needed = options.rows * options.row_bytes
    if needed > 1 << 40:
        raise InvalidArgument(f"{needed} bytes of rows are too many; give fewer --rows")


def table(result: dict[str, Any]) -> list[str]:
    """The figures for people."""
    way = "by reference" if result["by_reference"] else "by copy"

    def line(name: str, gbps: float, share: float | None) -> str:
        return f"{name:<24}{gbps:>9.2f}" + ("" if share is None else f"{share:>9.2f}")

    rows = [line(OURS, result["gbps_median"], None)]
    rows.append(line(ONE_PROCESS, result["gbps_one_process"], result["ratio_to_one_process"]))
    if result["limit_processes_gbps"] is not None:
        rows.append(line(LIMIT, result["limit_processes_gbps"], result["ratio_to_processes_limit"]))
    rows += [line(peer["name"], peer["gbps_median"], peer["ratio"]) for peer in result["peers"]]
    where = ""
    if "servers" in result:
        where = f" on {result['servers']} servers with {result['nics']} NICs each"
        way = "over links"
        if (rate := result["line_rate_gbps"]) is not None:
            rows.append(line("line rate of the NICs", rate, result["ratio_to_line_rate"]))
    return [
        f"{result['shape']} of {result['rows']:,} rows of {result['row_bytes']} bytes "
        f"({result['bytes'] / 1e9:.2f} GB delivered), {result['layout']}, {result['dist']} keys",
        f"{result['processes']} processes of {result['groups']} x {result['threads']} threads"
        f"{where}, {way}, {result['repeat']} rounds",
        "",
        f"{'GB/s':<24}{'median':>9}{'MGI is':>9}",
        *rows,
        "",
        f"every run verified: {'yes' if result['verified'] else 'NO'}",
    ]
