"""Whether what came of an exchange is what was promised."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .job import Job, Setup


@dataclass
class Outcome:
    """What the processes of a job have said and how they ended, by rank."""

    sums: dict[int, list[list[int]]] = field(default_factory=dict)
    """What a destination received, by sender: rows, and the sum of what they carry."""
    errors: dict[int, str] = field(default_factory=dict)
    wrong: dict[int, str] = field(default_factory=dict)
    """Rows that nobody has sent, or that came twice."""
    left: set[int] = field(default_factory=set)
    statuses: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, job: Job) -> Outcome:
        errors = {r: f"{s['kind']}: {s['text']}" for r, s in job.said("error").items()}
        return cls(
            sums={rank: said["sums"] for rank, said in job.said("received").items()},
            errors=errors,
            wrong={rank: said["text"] for rank, said in job.said("wrong").items()},
            left=set(job.said("left")),
            statuses={rank: p.returncode for rank, p in enumerate(job.processes)},
        )


def judge(
    outcome: Outcome,
    setup: Setup,
    expected: list[list[int]],
    dead: Iterable[int],
    lossless: bool,
) -> list[str]:
    """What is wrong with an outcome; nothing if it keeps the promise.

    `expected` is what each rank sends: rows, and the sum of what they carry. `dead` were killed or
    stopped by the fault. A `lossless` one must not be noticed.
    """
    complaints = [f"rank {rank}: {text}" for rank, text in sorted(outcome.wrong.items())]
    gone = set(dead)
    for rank in range(setup.size):
        done, error = rank in outcome.left, outcome.errors.get(rank)
        if rank not in gone:
            if outcome.statuses[rank] != 0:
                complaints.append(f"rank {rank} ended with {outcome.statuses[rank]}")
            elif not done and error is None and rank not in outcome.wrong:
                complaints.append(f"rank {rank} ended without a word")
        if lossless and error is not None:
            complaints.append(f"rank {rank} got an error: {error}")
    complaints += _sums(outcome.sums, setup, expected)
    return complaints


def _sums(
    sums: dict[int, list[list[int]]], setup: Setup, expected: list[list[int]]
) -> Iterable[str]:
    """Who says that it has received everything must have."""
    for sender, (rows, carried) in enumerate(expected):
        got = {rank: by_sender[sender] for rank, by_sender in sums.items()}
        if setup.routing == "broadcast":
            for rank, found in got.items():
                if found != [rows, carried]:
                    yield f"rank {rank} has {found} of rank {sender}, which sent {[rows, carried]}"
        elif len(got) == setup.size:
            together = [
                sum(found[0] for found in got.values()),
                sum(found[1] for found in got.values()) % 2**64,
            ]
            if together != [rows, carried]:
                yield f"all have {together} of rank {sender}, which sent {[rows, carried]}"
        elif sum(found[0] for found in got.values()) > rows:
            yield f"more rows of rank {sender} than it sent: {got}"


def told(outcome: Outcome, dead: Iterable[int]) -> dict[str, Any]:
    """For the report: how many of those that live are complete, and the errors of the others."""
    gone = set(dead)
    return {
        "complete": sorted(outcome.left - gone),
        "errors": {rank: text for rank, text in outcome.errors.items() if rank not in gone},
    }
