"""The command line of tools/faults."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from marks import marked, new_mark
from processes import wait_for

from . import kinds, verdict
from .counted import whole
from .far import FAR
from .grounds import Bed, Ground
from .job import Job, Setup, direct
from .kinds import Case, Kind
from .launched import Launched

KINDS = [*kinds.KINDS, *FAR]

SLACK = 15.0
"""Seconds beyond what is promised, for machines that have much else to do."""


def arguments() -> argparse.Namespace:
    width = max(len(kind.name) for kind in KINDS)
    parser = argparse.ArgumentParser(
        prog="tools/faults",
        description="Runs exchanges of counted rows over processes of this machine, or over the "
        "servers of a testbed that it makes (root) and takes away, each with one "
        "fault at a random moment. Afterwards either all has arrived, every row once and with its "
        "contents, or every process that lives has got an error within the deadline; and no "
        "process, no shared memory and no endpoint is left. Exit status 1 if that is not so.",
        epilog="kinds of faults:\n" + "\n".join(f"  {k.name:{width}}  {k.what}" for k in KINDS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--times", type=int, default=50, metavar="N", help="exchanges; default: 50")
    parser.add_argument("--seed", type=int, help="default: another one each time")
    parser.add_argument(
        "--kinds", default="", metavar="REGEX", help="faults whose name it matches whole, by turns"
    )
    parser.add_argument("--run", type=int, metavar="I", help="only that one of the exchanges")
    parser.add_argument("--timeout", type=float, default=15, metavar="S", help="Runtime.connect's")
    parser.add_argument("--gone-limit", type=float, default=5, metavar="S", help="the channels'")
    parser.add_argument("--minutes", type=float, metavar="M", help="begin none after that long")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the results there as well")
    options = parser.parse_args()
    try:
        options.kinds = [
            k for k in KINDS if not options.kinds or re.fullmatch(options.kinds, k.name)
        ]
    except re.error as error:
        parser.error(f"--kinds {options.kinds}: {error}")
    if not options.kinds:
        parser.error("--kinds matches none; --help lists them")
    if options.seed is None:
        options.seed = time.time_ns() % 1_000_000
    return options


def new_setup(chance: random.Random, options: argparse.Namespace) -> Setup:
    return Setup(
        size=chance.choice([2, 2, 3, 4]),
        rows=chance.choices([0, 10_000, 300_000, 1_000_000], [1, 1, 3, 3])[0],
        pace=chance.choice([0, 0.002]),
        routing=chance.choice(["partition", "partition", "broadcast", "direct", "balance"]),
        by_reference=chance.random() < 0.6,
        segment_rows=chance.choice([64, 1024, 8192]),
        keeps=chance.random() < 0.3,
        timeout=options.timeout,
        gone_limit=options.gone_limit,
    )


class Suite:
    """Exchanges one after the other, on grounds that are made when one needs them."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self._folder = options, folder
        self._grounds: dict[type[Ground], Ground] = {}
        self.mark = new_mark()
        os.environ.update(self.mark)

    def ground(self, kind: Kind) -> Ground:
        """Where exchanges with such a fault run."""
        wanted = Bed if kind.needs_bed else Ground
        if wanted not in self._grounds:
            self._grounds[wanted] = wanted(self._folder / wanted.__name__)
        return self._grounds[wanted]

    def close(self) -> None:
        """Takes all grounds away."""
        with contextlib.ExitStack() as closing:
            for ground in self._grounds.values():
                closing.callback(ground.close)

    def logs(self) -> str:
        """The end of what services said."""
        return "\n".join(ground.cluster.logs() for ground in self._grounds.values())

    def run(self, index: int, kind: Kind) -> dict[str, Any]:
        """One exchange; what came of it, with `complaints` if that is not as it should be."""
        chance = random.Random(f"{self.options.seed}/{kind.name}/{index}")
        setup = new_setup(chance, self.options)
        kind.prepare(chance, setup)
        came = self._launched(chance, setup) if kind.launched else self._direct(index, kind, setup)
        return {"run": index, "kind": kind.name, "setup": str(setup), **came}

    def _direct(self, index: int, kind: Kind, setup: Setup) -> dict[str, Any]:
        ground = self.ground(kind)
        job = direct(setup, f"faults {index}", ground.spots(setup, kind.prefix))
        chance = random.Random(f"{self.options.seed}/{kind.name}/{index}/fault")
        case = Case(chance, setup, job, ground)
        limit = self._limit(setup)
        try:
            did = kind.inject(case)
            start = time.monotonic()
            living = [rank for rank in range(setup.size) if rank not in case.dead]
            late = job.wait_ended(living, start + limit)
            seconds = time.monotonic() - start
            complaints = [f"rank {r} still runs after {limit:.0f} s" for r in late]
            complaints += case.complaints
            for rank in late:  # which has it print its stacks
                job.processes[rank].send_signal(signal.SIGUSR1)
            if late:
                time.sleep(1)
        finally:
            job.close()
        outcome = verdict.Outcome.of(job)
        if not late:
            expected = [whole(rank, setup.rows) for rank in range(setup.size)]
            complaints += verdict.judge(outcome, setup, expected, case.dead, case.lossless)
        complaints += self.leftovers(case)
        return came(did, seconds, verdict.told(outcome, case.dead), complaints, job)

    def _launched(self, chance: random.Random, setup: Setup) -> dict[str, Any]:
        launched = Launched(setup)
        try:
            did = launched.kill_one(chance)
            start = time.monotonic()
            complaints = launched.complaints(self._limit(setup))
            seconds = time.monotonic() - start
        finally:
            launched.close()
        outcome, wrong = launched.judged()
        told = verdict.told(outcome, [])
        return came(did, seconds, told, complaints + wrong, launched.job)

    def _limit(self, setup: Setup) -> float:
        # Who has come in time may still wait for those who have not.
        return 2 * setup.timeout + setup.gone_limit + SLACK

    def leftovers(self, case: Case) -> list[str]:
        """What is left when a job is over; undoes its fault first."""
        try:
            kinds.wait_until_back(case)
            wait_for("the end of all endpoints", lambda: not case.controller.status()["endpoints"])
            wait_for("the end of shared memory", lambda: not self.shared())
        except (AssertionError, RuntimeError) as error:
            return [str(error), *self.shared()]
        own = set().union(*(ground.own() for ground in self._grounds.values()))
        left = {pid: name for pid, name in marked(self.mark).items() if pid not in own}
        return [f"process {pid} is left: {name}" for pid, name in left.items()]

    def shared(self) -> list[str]:
        """Channels' memory that our processes hold or map."""
        found = []
        for pid in marked(self.mark):
            with contextlib.suppress(OSError):
                for entry in Path(f"/proc/{pid}/fd").iterdir():
                    with contextlib.suppress(OSError):
                        if str(entry.readlink()).startswith("/memfd:mgi"):
                            found.append(f"process {pid} holds descriptor {entry.name}")
                if "/memfd:mgi" in Path(f"/proc/{pid}/maps").read_text():
                    found.append(f"process {pid} maps a channel's memory")
        return found


def came(
    did: str, seconds: float, told: dict[str, Any], complaints: list[str], job: Job
) -> dict[str, Any]:
    """What is reported of an exchange; with what its processes printed if something is wrong."""
    numbers = range(len(job.processes)) if complaints else []
    printed = {str(number): text for number in numbers if (text := job.errors(number))}
    return {
        "fault": did,
        "seconds": round(seconds, 2),
        **told,
        "complaints": complaints,
        **({"printed": printed} if printed else {}),
    }


def shared_kib() -> int:
    """All shared memory of the machine."""
    text = Path("/proc/meminfo").read_text()
    return int(text.split("Shmem:")[1].split()[0])


def line_of(result: dict[str, Any]) -> str:
    complete, errors = len(result["complete"]), len(result["errors"])
    rest = f"{complete} complete, {errors} with an error"
    came = rest if errors or not complete else "complete"
    word = "FAILED" if result["complaints"] else "ok"
    return (
        f"{result['run']:4} {result['kind']:20} {word:6} {result['seconds']:5.1f} s  {came}  "
        f"[{result['setup']}; {result['fault']}]"
    )


def explained(result: dict[str, Any], options: argparse.Namespace) -> Iterator[str]:
    """What is wrong, and how to have it again."""
    yield from (f"     {text}" for text in result["complaints"])
    for number, text in result.get("printed", {}).items():
        yield f"     process {number} printed: {text}"
    yield (
        f"     again: tools/faults --seed {options.seed} --kinds {result['kind']} "
        f"--run {result['run']} --times {result['run'] + 1}"
    )


def summary(results: list[dict[str, Any]], chosen: list[Kind]) -> list[dict[str, Any]]:
    rows = []
    for kind in chosen:
        own = [r for r in results if r["kind"] == kind.name]
        if not own:
            continue
        kept = [r for r in own if not r["complaints"]]
        complete = sum(bool(r["complete"]) and not r["errors"] for r in kept)
        rows.append(
            {
                "kind": kind.name,
                "runs": len(own),
                "complete": complete,
                "errors": len(kept) - complete,  # or all ended, by mgi run
                "failed": len(own) - len(kept),
                "median_seconds": round(statistics.median(r["seconds"] for r in own), 2),
                "slowest_seconds": max(r["seconds"] for r in own),
            }
        )
    return rows


def report(results: list[dict[str, Any]], options: argparse.Namespace, before: int) -> None:
    rows = summary(results, options.kinds)
    print("\nkind                  runs  complete  errors  failed  median s  slowest s")
    for row in rows:
        print(
            f"{row['kind']:20} {row['runs']:5} {row['complete']:9} {row['errors']:7} "
            f"{row['failed']:7} {row['median_seconds']:9.1f} {row['slowest_seconds']:10.1f}"
        )
    after = shared_kib()
    print(f"seed {options.seed}; shared memory of the whole machine: {before} KiB, now {after} KiB")
    if options.json is not None:
        found = {
            "seed": options.seed,
            "times": len(results),
            "shared_kib": {"before": before, "after": after},
            "kinds": rows,
            "runs": results,
        }
        options.json.write_text(json.dumps(found, indent=1) + "\n")


def can_be_had(kind: Kind) -> bool:
    """Whether this machine can have such a fault; says why if not."""
    why = ""
    if kind.prefix:
        try:
            tried = subprocess.run(
                [*kind.prefix, "true"], capture_output=True, text=True, check=False, timeout=30
            )
            if tried.returncode != 0:
                why = tried.stderr.strip() or f"it ended with {tried.returncode}"
        except (OSError, subprocess.TimeoutExpired) as error:
            why = str(error)
    elif kind.needs_bed:
        import beds  # tries what it takes

        why = beds.reason
    if why:
        print(f"tools/faults: {kind.name} is left out: {why}", file=sys.stderr)
    return not why


def main() -> int:
    options = arguments()
    options.kinds = [kind for kind in options.kinds if can_be_had(kind)]
    if not options.kinds:
        return 2
    # A signal takes away what was made, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    before, results = shared_kib(), []
    end = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    turns = range(options.times) if options.run is None else [options.run]
    with tempfile.TemporaryDirectory(prefix="mgi-faults-") as folder:
        suite = Suite(options, Path(folder))
        try:
            for index in turns:
                if end is not None and time.monotonic() > end:
                    break
                result = suite.run(index, options.kinds[index % len(options.kinds)])
                results.append(result)
                print(line_of(result), flush=True)
                if result["complaints"]:
                    print("\n".join(explained(result, options)), flush=True)
        except KeyboardInterrupt:
            print("tools/faults: interrupted", file=sys.stderr)
        finally:
            suite.close()
            if any(result["complaints"] for result in results):
                print(suite.logs())
    report(results, options, before)
    return 1 if not results or any(result["complaints"] for result in results) else 0
