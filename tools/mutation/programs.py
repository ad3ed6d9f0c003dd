"""The programs that should notice a mutant: how each is built, run, and what its output means."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Program:
    target: str
    options: tuple[str, ...]  # for cmake
    arguments: tuple[str, ...]
    sanitized: bool
    seconds: int  # what is still running then may have hung
    # What is run in turn, as shares of Relacy's iterations: a later look repeats an earlier one
    # and goes on, so what one notices needs no other.
    looks: tuple[float, ...] = (1,)


FIXED_ADDRESSES = str(Path(__file__).resolve().parent.parent / "fixed_addresses.sh")
THREADS = ("-DMGI_SANITIZE=thread", "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1")
PROGRAMS = {
    "relacy": Program(
        "mgi_relacy",
        ("-DMGI_BUILD_BENCH=OFF", "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2"),
        ("--first-failure",),
        False,
        600,
        looks=(0.02, 0.3, 1),
    ),
    "device": Program(
        "mgi_device_tests",
        ("-DMGI_BUILD_BENCH=OFF", *THREADS),
        ("--gtest_fail_fast", "--gtest_brief=0"),
        True,
        120,
    ),
    "runtime": Program(
        "mgi_tests",
        THREADS,
        ("--gtest_fail_fast", "--gtest_filter=-*Operator*:Join*:GroupBy*:Plan*:Hash*:Arrow*:Perf*"),
        True,
        300,
    ),
}


@dataclass(frozen=True)
class Verdict:
    caught: bool
    by: str
    seconds: float
    sure: bool = True  # false: no checker's report, so that a busy machine may be to blame


class Build:
    """One program, built from the scratch copy."""

    def __init__(self, name: str, tree: Path, folder: Path) -> None:
        self.program = PROGRAMS[name]
        self._tree = tree
        self._folder = folder

    def make(self, jobs: int) -> None:
        """Configures and compiles; ends the tool with the compiler's words when that fails."""
        generator = [] if (self._folder / "CMakeCache.txt").exists() else ["-G", "Ninja"]
        self._call(
            [
                *("cmake", "-S", self._tree, "-B", self._folder, *generator),
                *("-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DMGI_BUILD_EXAMPLES=OFF"),
                *self.program.options,
            ]
        )
        self._call(
            ["cmake", "--build", self._folder, "--target", self.program.target, "-j", str(jobs)]
        )

    @staticmethod
    def _call(command: list) -> None:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(
                f"{' '.join(map(str, command))} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
            )

    def run(self, number: int, patience: int = 1) -> Verdict:
        """Runs the tests with that mutant; 0 is none. `patience` multiplies every time limit."""
        seconds = 0.0
        for share in self.program.looks:
            verdict = self._look(number, patience, share)
            seconds += verdict.seconds
            if verdict.caught:
                break
        return replace(verdict, seconds=seconds)

    def _look(self, number: int, patience: int, share: float) -> Verdict:
        limit = self.program.seconds * patience
        environment = dict(os.environ, MGI_MUTANT=str(number), MGI_TEST_LIMIT=str(limit))
        iterations = float(environment.get("MGI_RELACY_ITERATIONS", 1))
        environment["MGI_RELACY_ITERATIONS"] = str(iterations * share)
        environment["TSAN_OPTIONS"] = "halt_on_error=1:" + environment.get("TSAN_OPTIONS", "")
        fixed = [FIXED_ADDRESSES] if self.program.sanitized else []
        command = [*fixed, str(self._folder / self.program.target), *self.program.arguments]
        start = time.monotonic()
        try:
            done = subprocess.run(
                command,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit,
            )
        except subprocess.TimeoutExpired as late:
            output = late.stdout or b""
            text = output.decode(errors="replace") if isinstance(output, bytes) else output
            by = f"time limit of {limit} s in {_last_test(text)}"
            return Verdict(True, by, time.monotonic() - start, sure=False)
        seconds = time.monotonic() - start
        if done.returncode == 0:
            return Verdict(False, "", seconds)
        by = _report(done.stdout, done.stderr)
        return Verdict(
            True, by or _failure(done.stdout, done.returncode), seconds, sure=by is not None
        )

    def confirm(self, number: int, first: Verdict) -> Verdict:
        """Judges a failure that no checker reported. It counts when the program passes without the
        mutant, now, and fails with it once more in twice the time. Nothing else should run."""
        without = self.run(0)
        again = self.run(number, patience=2)
        seconds = first.seconds + without.seconds + again.seconds
        if without.caught:
            return Verdict(True, f"{first.by}; without it {without.by}", seconds, sure=False)
        if not again.caught:
            return Verdict(False, f"once {first.by}, then nothing", seconds)
        return Verdict(True, again.by if again.sure else f"twice, {again.by}", seconds)


def _last_test(output: str) -> str:
    tests = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
    return tests[-1] if tests else "no test"


def _report(output: str, errors: str) -> str | None:
    """What a checker said, if one did. No schedule of a sound program makes it say so."""
    if scenario := re.search(r"^FAILED (\S+).*\n\s+(.*) in iteration", output, re.MULTILINE):
        return f"Relacy: {scenario[2].lower()} in {scenario[1]}"
    if report := re.search(r"WARNING: ThreadSanitizer: ([^(\n]*)", errors):
        return f"TSan: {report[1].strip()} in {_last_test(output)}"
    return None


def _failure(output: str, status: int) -> str:
    if failed := re.search(r"^\[  FAILED  \] (\S+)", output, re.MULTILINE):
        return f"failure of {failed[1].rstrip(',')}"
    return f"exit status {status} in {_last_test(output)}"
