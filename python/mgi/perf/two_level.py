"""``mgi perf exchange --two-level``: the operator over servers in one level and in two.

Each run is a whole call of ``mgi.exchange``, channels and all, on the same rows; both take turns.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from contextlib import ExitStack
from typing import Any

from mgi.errors import InvalidArgument
from mgi.perf.servers import Servers
from mgi.perf.team import Checksum, Team, by_mgi_run, rows_of, temporary_folder

LEVELS = {"one": "one level", "two": "two levels"}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what can be chosen."""
    parser.add_argument(
        "--two-level",
        action="store_true",
        help="of --processes on a --testbed with --endpoints in all: calls of mgi.exchange, in one "
        "level and in two",
    )


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measures both and returns what ``--json`` writes."""
    size, endpoints = options.processes, options.endpoints
    _check(options)
    servers = Servers.of(options.testbed, size)
    words = [
        f"endpoints={endpoints}",
        f"sources={endpoints}",
        f"destinations={endpoints}",
        *rows_of(options),
        f"groups={options.groups or 1}",
        f"by_reference={int(not options.by_copy)}",
    ]
    seconds: dict[str, list[float]] = {level: [] for level in LEVELS}
    verified = True
    with ExitStack() as stack:
        folder = temporary_folder(stack)
        member = [sys.executable, "-m", "mgi.perf.member", "operator"]
        command = by_mgi_run(size, member, *servers.options())
        team = Team("the exchange operator", command, words, size, folder / "team")
        stack.callback(team.close)
        stack.callback(team.hurry)
        team.gather()
        for number in range(options.repeat + 1):
            for level, found in seconds.items():
                took, received = team.run(level)
                verified = verified and received == team.sent
                if number > 0:  # the first one touches the memory
                    found.append(took)
    return _report(options, servers, seconds, team.sent, verified)


def _report(
    options: argparse.Namespace,
    servers: Servers,
    seconds: dict[str, list[float]],
    sent: Checksum,
    verified: bool,
) -> dict[str, Any]:
    size = sent.rows * options.row_bytes
    pairs = zip(seconds["one"], seconds["two"], strict=True)
    return {
        "pattern": "exchange",
        "levels": [
            {
                "name": name,
                "seconds_median": statistics.median(seconds[level]),
                "gbps_median": size / statistics.median(seconds[level]) / 1e9,
            }
            for level, name in LEVELS.items()
        ],
        "two_levels_to_one": statistics.median(one / two for one, two in pairs),
        "servers": servers.count,
        "processes": options.processes,
        "endpoints": options.endpoints,
        "rows": sent.rows,
        "bytes": size,
        "row_bytes": options.row_bytes,
        "dist": options.dist,
        "repeat": options.repeat,
        "verified": verified,
    }


def _check(options: argparse.Namespace) -> None:
    if options.processes < 2 or options.testbed is None:
        raise InvalidArgument("--two-level is between servers: give --testbed NAME --processes N")
    if options.endpoints % options.processes != 0:
        raise InvalidArgument(
            f"{options.endpoints} endpoints are not shared out evenly to {options.processes} "
            "processes: give a multiple of them"
        )
    for name, given in (
        ("--peers", options.peers),
        ("--shape", options.shape != "exchange"),
        ("--layout", options.layout != "columns"),
        ("--threads", options.threads != 1),
        ("--fanout", options.fanout),
        ("--staged", options.staged),
    ):
        if given:
            raise InvalidArgument(f"{name} is not for --two-level; leave it out")


def table(result: dict[str, Any]) -> list[str]:
    """The figures for people."""
    return [
        f"exchange of {result['rows']:,} rows of {result['row_bytes']} bytes "
        f"({result['bytes'] / 1e9:.2f} GB), {result['dist']} keys",
        f"{result['endpoints']} endpoints of {result['processes']} processes on "
        f"{result['servers']} servers, {result['repeat']} rounds",
        "",
        f"{'':<24}{'ms':>9}{'GB/s':>9}",
        *(
            f"{level['name']:<24}{level['seconds_median'] * 1e3:>9.0f}{level['gbps_median']:>9.2f}"
            for level in result["levels"]
        ),
        "",
        f"two levels are {result['two_levels_to_one']:.2f} times as fast",
        f"every run verified: {'yes' if result['verified'] else 'NO'}",
    ]
