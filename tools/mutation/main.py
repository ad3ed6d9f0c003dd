"""The command line of tools/mutate."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from . import reviewed, sites, tree
from .programs import Build, Verdict

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Result:
    mutant: str
    where: str
    check: str
    result: str  # caught, equivalent, survived, wrongly reviewed, or unclear
    by: str
    seconds: float


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Weakens one memory order, removes one group barrier or swaps one documented "
        "pair of statements at a time, and says which test notices. Exit status 1 when one lives "
        "that "
        f"{reviewed.DOCUMENT} does not explain, or when that page no longer fits the code.",
    )
    parser.add_argument("--list", action="store_true", help="name the mutants, run nothing")
    parser.add_argument("--only", metavar="REGEX", help="those whose name this finds")
    parser.add_argument("--check", metavar="NAME", action="append", help="relacy, device, runtime")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="default: one per core")
    parser.add_argument("--json", metavar="FILE", help="write the results there as well")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build/mutation", help="for the scratch copy"
    )
    return parser.parse_args()


def chosen(mutants: list[sites.Mutant], options: argparse.Namespace) -> list[sites.Mutant]:
    if options.only:
        mutants = [mutant for mutant in mutants if re.search(options.only, mutant.name)]
    if options.check:
        mutants = [mutant for mutant in mutants if mutant.check in options.check]
    return mutants


def problems_of_page(mutants: list[sites.Mutant]) -> list[str]:
    """Where docs/mutation.md no longer fits the code."""
    names = {mutant.name for mutant in mutants}
    stale = [
        f"{reviewed.DOCUMENT}: no such mutant any more: {name}"
        for name in reviewed.equivalent(ROOT)
        if name not in names
    ]
    return stale + reviewed.problems_of_scopes(ROOT)


def judge(mutant: sites.Mutant, verdict: Verdict, explained: dict[str, str]) -> Result:
    if not verdict.sure:
        result = "unclear"
    elif verdict.caught:
        result = "wrongly reviewed" if mutant.name in explained else "caught"
    else:
        result = "equivalent" if mutant.name in explained else "survived"
    return Result(
        mutant.name,
        f"{mutant.file}:{mutant.line}",
        mutant.check,
        result,
        verdict.by,
        round(verdict.seconds, 1),
    )


def run(numbered: dict[int, sites.Mutant], wanted: list[sites.Mutant], options) -> list[Result]:
    tree.write(ROOT, options.folder / "tree", numbered)
    explained = reviewed.equivalent(ROOT)
    numbers = {mutant.name: number for number, mutant in numbered.items()}
    results = []
    for check in sorted({mutant.check for mutant in wanted}):
        build = Build(check, options.folder / "tree", options.folder / check)
        start = time.monotonic()
        build.make(options.jobs)
        print(
            f"-- {build.program.target} with all mutants: {time.monotonic() - start:.0f} s to build"
        )
        if (original := build.run(0)).caught:
            sys.exit(f"{build.program.target} fails without any mutant: {original.by}")

        def say(mutant: sites.Mutant, verdict: Verdict) -> Result:
            result = judge(mutant, verdict, explained)
            print(f"{result.result:<16} {result.mutant:<76} {result.seconds:6.1f} s  {result.by}")
            sys.stdout.flush()
            return result

        def one(mutant: sites.Mutant, build: Build = build) -> tuple[sites.Mutant, Verdict]:
            verdict = build.run(numbers[mutant.name])
            if verdict.sure:
                results.append(say(mutant, verdict))
            return mutant, verdict

        with ThreadPoolExecutor(options.jobs) as pool:
            first = list(pool.map(one, [mutant for mutant in wanted if mutant.check == check]))
        # A failure without a report is looked at again, with the machine to itself.
        for mutant, verdict in first:
            if not verdict.sure:
                results.append(say(mutant, build.confirm(numbers[mutant.name], verdict)))
    return results


def main() -> int:
    options = arguments()
    mutants = sites.find(ROOT)
    twice = [name for name, count in Counter(m.name for m in mutants).items() if count > 1]
    if twice:
        sys.exit(f"two mutants of one name: {twice}")
    wanted = chosen(mutants, options)
    problems = problems_of_page(mutants)
    if options.list:
        for mutant in wanted:
            print(f"{mutant.check:<8} {mutant.name:<76} {mutant.file}:{mutant.line}")
        print(f"{len(wanted)} mutants")
        results = []
    else:
        results = run(dict(enumerate(mutants, 1)), wanted, options)
    bad = [result for result in results if result.result not in ("caught", "equivalent")]
    for problem in problems:
        print(problem)
    if not options.list:
        count = Counter(result.result for result in results)
        print(", ".join(f"{number} {kind}" for kind, number in sorted(count.items())))
        print(f"{len(results) - len(bad)} passed, {len(bad) + len(problems)} failed")
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(r) for r in results], indent=1) + "\n")
    return 1 if bad or problems else 0
