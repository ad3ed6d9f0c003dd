#!/usr/bin/env python3
"""Checks the design-level Spin models of the protocols (tests/models/*.pml, docs/protocols.md).

    tools/models.py [-k WORD] [-v] [-j SEARCHES]

A model says in its comments what is to be checked, one line a search:

    // models: pass [-DNAME...]               no assertion fails, nobody waits for ever
    // models: pass [-DNAME...] ltl(NAME)     the formula holds, under weak fairness
    // models: fail(WHY) -DBROKEN_... [...]   a broken protocol, which Spin must find

WHY is `assertion`, `deadlock` (an invalid end state) or `cycle` (a formula that does not hold).
Every model has a broken variant, so that a search which finds nothing means something. A search
that passes has gone through all states: one cut short by depth or memory fails. Needs spin and gcc.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MEMORY_MB = 1500
DEPTH = 500_000
SECONDS = 120  # of one search; far above what any needs
LINE = re.compile(r"^// models: (pass|fail\((assertion|deadlock|cycle)\))(.*)$", re.MULTILINE)
FOUND = re.compile(
    r"^pan:\d+: (assertion violated|invalid end state|acceptance cycle)", re.MULTILINE
)
NAMES = {
    "assertion violated": "assertion",
    "invalid end state": "deadlock",
    "acceptance cycle": "cycle",
}
CUT_SHORT = re.compile(
    r"max search depth too small|reached -DMEMLIM|out of memory|Search not compl"
)


@dataclass
class Search:
    model: Path
    why: str  # "" when it must pass
    defines: list[str]
    formula: str

    @property
    def name(self) -> str:
        words = [self.model.stem, *(d.removeprefix("-D") for d in self.defines)]
        return " ".join([*words, f"ltl({self.formula})"] if self.formula else words)


def searches_of(model: Path) -> list[Search]:
    found = []
    for match in LINE.finditer(model.read_text()):
        words = match[3].split()
        formulas = [w[4:-1] for w in words if w.startswith("ltl(")]
        defines = [w for w in words if not w.startswith("ltl(")]
        if unknown := [w for w in defines if not w.startswith("-D")]:
            sys.exit(f"{model}: what is {unknown[0]!r}? See tools/models.py --help.")
        found.append(Search(model, match[2] or "", defines, "".join(formulas)))
    if not any(s.why for s in found) or all(s.why for s in found):
        sys.exit(f"{model}: needs a '// models: pass' and a '// models: fail(...)' line")
    return found


def command(words: list[str], folder: str) -> str:
    """Runs a command; its output, whatever its status: pan's says more than its status."""
    try:
        done = subprocess.run(
            words, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"longer than {SECONDS} s: {' '.join(words)}"
    return done.stdout


def run(search: Search) -> tuple[bool, str, str]:
    """(as it should be, what to print, the whole output)."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        output = command(["spin", "-a", *search.defines, str(search.model)], folder)
        if not (Path(folder) / "pan.c").exists():
            return False, "spin refused the model", output
        kind = ["-DNFAIR=4"] if search.formula else ["-DSAFETY", "-DNOCLAIM"]
        # A broken variant's search is short: compiling it fast counts for more.
        level = "-O0" if search.why else "-O1"
        output += command(
            ["gcc", level, "-w", f"-DMEMLIM={MEMORY_MB}", *kind, "-o", "pan", "pan.c"], folder
        )
        if not (Path(folder) / "pan").exists():
            return False, "gcc refused what spin made of the model", output
        fair = ["-a", "-f", "-N", search.formula] if search.formula else []
        output += command(["./pan", f"-m{DEPTH}", "-n", *fair], folder)
    counted = re.search(r"([0-9.e+]+) states, stored", output)
    states = int(float(counted[1])) if counted else 0
    errors = re.search(r"errors: (\d+)", output)
    error = FOUND.search(output)
    found = NAMES[error[1]] if error else ""
    if search.why:
        good = found == search.why
        verdict = f"fails as it must ({search.why})" if good else f"must fail ({search.why})"
        if not good:
            verdict += f", but: {found or 'no error found'}"
    else:
        cut = CUT_SHORT.search(output)
        good = bool(errors) and int(errors[1]) == 0 and not cut and not found
        verdict = "holds" if good else f"FAILS: {found or (cut and cut[0]) or 'see -v'}"
    line = f"{states:>9} states  {verdict}, {time.monotonic() - start:.1f} s"
    return good, line, output


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-k", default="", metavar="WORD", help="only searches with this word")
    parser.add_argument("-v", action="store_true", help="print what pan says of failures")
    parser.add_argument(
        "-j", type=int, default=len(os.sched_getaffinity(0)), help="searches at a time"
    )
    options = parser.parse_args()
    for tool in ("spin", "gcc"):
        if shutil.which(tool) is None:
            sys.exit(f"models: no {tool}. On Debian or Ubuntu: apt-get install {tool}.")
    models = sorted((ROOT / "tests/models").glob("*.pml"))
    chosen = [s for model in models for s in searches_of(model) if options.k in s.name]
    failed = 0
    with ThreadPoolExecutor(max(1, options.j)) as pool:
        for search, (good, line, output) in zip(chosen, pool.map(run, chosen), strict=True):
            failed += not good
            print(f"{'ok    ' if good else 'FAILED'} {search.name:<58} {line}", flush=True)
            if options.v and not good:
                print(output)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} s of CPU, {used.ru_maxrss / 1024:.0f} MiB at most")
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
