"""``mgi run``: starts the processes of a program, tells each its place, and sees to their end."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mgi import jobs
from mgi.cli import Parser, guarded, split_program
from mgi.errors import InvalidArgument
from mgi.jobs import Job
from mgi.run import launched
from mgi.run.hosts import fill_slots, read_hosts, share_evenly
from mgi.run.launch import Launch, Plan
from mgi.run.places import Place, here, in_testbed, is_this_host, on_host
from mgi.testbed import Testbed, kernel

MOST_RANKS = 4096

EPILOG = """\
Every process finds its place in MGI_RANK, MGI_SIZE, MGI_LOCAL_RANK, MGI_LOCAL_SIZE, MGI_SERVER,
MGI_JOB (mgi.job() reads them), and its server's agent in MGI_AGENT (Runtime.connect() does). Inside
Slurm, MPI or torchrun (srun mgi run -- PROGRAM) each mgi run is the process that these made of it.

The exit status is that of the first process that failed (128 and the signal if it was killed), 127
for a program that is not found, 130 after Ctrl-C. docs/running.md says more."""


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns the job's exit status, 1 if it is refused, 2 for a wrong call."""
    arguments, program = split_program(argv)
    parser = _parser()
    options = parser.parse_args(arguments)
    if not program:
        parser.error("expected a program behind --, as in mgi run -n 4 -- ./program")
    status = 0

    def work() -> None:
        nonlocal status
        status = _run(options, program)

    return guarded("mgi run", work) or status


def _parser() -> Parser:
    parser = Parser(
        prog="mgi run",
        usage="mgi run [-n N] [OPTION...] -- PROGRAM [ARGUMENT...]",
        description="Starts a program's processes, with a controller and an agent on each server.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-n", metavar="N", type=int, help="processes (default: 1, or one for each slot or server)"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--hosts",
        metavar="FILE",
        type=Path,
        help="start them by ssh on the hosts "
        "of its 'host slots=N' lines, the first ones filled first",
    )
    where.add_argument(
        "--servers-of-testbed",
        metavar="NAME",
        help="start them on the servers of a testbed (mgi testbed), shared out evenly",
    )
    parser.add_argument(
        "--ssh", metavar="COMMAND", default="ssh", help="with its options; default: ssh"
    )
    parser.add_argument(
        "--env",
        metavar="NAME[=VALUE]",
        action="append",
        default=[],
        help="for every process; other hosts get this and MGI_* alone",
    )
    cluster = parser.add_mutually_exclusive_group()
    cluster.add_argument(
        "--controller",
        metavar="HOST:PORT,...",
        help="use a running one, and start agents only (default: MGI_CONTROLLER, if it is set)",
    )
    cluster.add_argument(
        "--agent",
        metavar="SOCKET",
        help="use the agent that runs on each server "
        "(default: MGI_AGENT, if it is set and no hosts are given)",
    )
    cluster.add_argument("--no-cluster", action="store_true", help="start no controller, no agent")
    parser.add_argument(
        "--job",
        metavar="NAME",
        default="",
        help="its name; default: the program's and a random number",
    )
    parser.add_argument(
        "--no-bind",
        action="store_true",
        help="let every process run on all cores; else each has its share of its machine's, "
        "unless it has fewer than processes",
    )
    parser.add_argument("--no-tag", action="store_true", help="print lines as they are")
    parser.add_argument(
        "--grace",
        metavar="SECONDS",
        type=float,
        default=5.0,
        help="between the signal that asks processes to end and SIGKILL; default: 5",
    )
    return parser


def _run(options: argparse.Namespace, program: list[str]) -> int:
    _check(options)
    job = jobs.job()
    elsewhere = options.hosts is not None or options.servers_of_testbed is not None
    agent = options.agent
    if not (elsewhere or options.controller or options.no_cluster):
        agent = agent or os.environ.get("MGI_AGENT") or None
    common: dict[str, Any] = {
        "argv": program,
        "with_cluster": not options.no_cluster,
        "controller": options.controller or os.environ.get("MGI_CONTROLLER") or None,
        "agent": agent,
        "name": options.job,
        "env": _environment(options.env),
        "shares_cores": not options.no_bind,
        "tagged": not options.no_tag,
        "grace": options.grace,
    }
    # A pod is a server of its own, on which somebody may start processes.
    own = job.launcher == "PyTorchJob" and (options.n is not None or elsewhere)
    if job.launcher not in ("", "mgi run") and job.size > 1 and not own:
        launched.check_options(job, options.n, elsewhere)
        return _one_of(job, common)
    if options.hosts is not None:
        hosts = read_hosts(options.hosts)
        counts = fill_slots(hosts, options.n)
        places = [
            here(host.name) if is_this_host(host.address) else on_host(host, options.ssh)
            for host in hosts
        ]
        return Launch(Plan(places=_used(places, counts), **common)).run()
    if options.servers_of_testbed is not None:
        kernel.check_privileges()
        control, places = in_testbed(Testbed.existing(options.servers_of_testbed))
        counts = share_evenly(len(places), options.n or len(places))
        return Launch(Plan(places=_used(places, counts), control=control, **common)).run()
    return Launch(Plan(places=[(here(platform.node()), options.n or 1)], **common)).run()


def _one_of(job: Job, common: dict[str, Any]) -> int:
    """Our process is one that another launcher has made; the first of a server has its agent."""
    meeting = None
    if common["with_cluster"] and common["agent"] is None:
        if job.local_size < job.size and common["controller"] is None:
            raise launched.needs_controller(job)
        meeting = launched.Meeting(job)
        common["agent"] = meeting.join()
    name = common["name"] or job.name
    plan = Plan(
        places=[(here(job.server), 1)],
        job=replace(job, name=name),
        meeting=meeting,
        **common,
    )
    try:
        return Launch(plan).run()
    finally:
        if meeting is not None:
            meeting.close()


def _check(options: argparse.Namespace) -> None:
    if options.n is not None and not 1 <= options.n <= MOST_RANKS:
        raise InvalidArgument(f"-n is {options.n}; expected 1 to {MOST_RANKS}")
    if not 0 <= options.grace <= 3600:
        raise InvalidArgument(f"--grace is {options.grace:g}; expected 0 to 3600 seconds")
    if options.agent is not None and options.servers_of_testbed is not None:
        raise InvalidArgument(
            "--agent names one socket, and each server of a testbed has its own; "
            "leave it out, or give --controller"
        )


def _environment(given: Sequence[str]) -> dict[str, str]:
    """What --env says."""
    found = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not name:
            raise InvalidArgument(f"--env '{item}'; expected NAME or NAME=VALUE")
        if not equals and name not in os.environ:
            raise InvalidArgument(f"--env {name}: there is no such variable; give NAME=VALUE")
        found[name] = value if equals else os.environ[name]
    return found


def _used(places: Sequence[Place], counts: Sequence[int]) -> list[tuple[Place, int]]:
    """Places that have a process; others need no agent either."""
    return [(place, count) for place, count in zip(places, counts, strict=True) if count > 0]
