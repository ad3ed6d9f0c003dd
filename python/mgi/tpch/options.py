"""The command line of ``mgi tpch``."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from mgi.cli import Parser
from mgi.demo.options import add_tables, endpoint_count, gpu_count, repeat_count
from mgi.tpch.queries import PAPER, numbers


@dataclasses.dataclass(frozen=True)
class Options:
    """What the user asked for."""

    sf: str
    """The scale factor as written in folder names."""
    queries: tuple[int, ...]
    endpoints: int | None
    """In all processes; None: one for each core."""
    gpus: int | None
    """Of each server; None: the tables lie in the hosts' memory."""
    flow: bool
    """Each consumer takes Q1's rows when it has room."""
    data: Path
    repeat: int
    json: Path | None
    html: Path | None

    @property
    def scale(self) -> float:
        """The scale factor as a number."""
        return float(self.sf)


def query_numbers(text: str) -> tuple[int, ...]:
    """``1,3,5``, or ``all``."""
    known = numbers()
    if text.strip() == "all":
        return known
    chosen = []
    for word in text.split(","):
        number = int(word) if word.strip().isdecimal() else None
        if number not in known:
            raise argparse.ArgumentTypeError(
                f"there is no query '{word.strip()}' here: give some of "
                f"{','.join(map(str, known))}, or all"
            )
        if number not in chosen:
            chosen.append(number)
    return tuple(chosen)


def parse(argv: list[str]) -> Options:
    """Parses ``argv``; on bad input prints the offender, and exits with 2."""
    paper = ",".join(map(str, PAPER))
    parser = Parser(
        prog="mgi tpch",
        description="TPC-H's queries on MGI: joins, group-bys and sorts over endpoints, local "
        "steps in Polars, on GPUs in kernels made for them. Every result is compared in full with "
        "DuckDB's. Alone, or as each process of mgi run -n N -- mgi tpch.",
    )
    add_tables(parser)
    parser.add_argument(
        "--queries",
        type=query_numbers,
        default=PAPER,
        metavar="LIST",
        help=f"numbers, or all ({paper}: those of MGI's papers)",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--endpoints",
        type=endpoint_count,
        default=None,
        metavar="N",
        help="CPU endpoints of all processes together (one for each core)",
    )
    where.add_argument(
        "--gpus",
        type=gpu_count,
        default=None,
        metavar="N",
        help="run on so many GPUs of each server, which have the tables, an endpoint on each; "
        "processes of a server share them (needs CuPy)",
    )
    parser.add_argument(
        "--flow",
        action="store_true",
        help="the tables stay in the hosts' memory, and Q1's rows flow to whoever has room for "
        "them: CPU endpoints, and with --gpus these GPUs",
    )
    parser.add_argument(
        "--repeat",
        type=repeat_count,
        default=3,
        metavar="N",
        help="timed runs of each query, behind one that is not; the median counts (3)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="figures to write, all phases")
    parser.add_argument("--html", type=Path, metavar="FILE", help="a page to write, with the plans")
    given = parser.parse_args(argv)
    if given.flow and 1 not in given.queries:
        parser.error("--flow is about Q1: give --queries 1, or leave --flow out")
    return Options(
        given.sf,
        given.queries,
        given.endpoints,
        given.gpus,
        given.flow,
        given.data,
        given.repeat,
        given.json,
        given.html,
    )
