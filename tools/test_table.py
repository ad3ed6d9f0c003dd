#!/usr/bin/env python3
"""The table at the end of test.sh: each step's seconds, tests, and why some were skipped or failed.

    tools/test_table.py FOLDER [--json FILE]

FOLDER has `results` (a line for each step: name, verdict, seconds, with tabs between), and for a
step STEP.log, what it printed, and STEP.build, seconds of building, a line for each build. Tests
are counted by the words that programs close with: GoogleTest's, pytest's, "N passed, N failed".
Of a step that failed, what its log says of failures is printed again: often only an end is kept.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

RUN = (
    r"^\[  PASSED  \] (\d+) tests?\.$",  # GoogleTest
    r"^\[  FAILED  \] (\d+) tests?, listed below:$",
    r"^(?:=+ )?(?:\d+ failed, )?(\d+) passed(?:, \d+ \w+)* in [\d.]+s",  # pytest
    r"^(?:=+ )?(\d+) failed, \d+ passed.* in [\d.]+s",
    r"^(\d+) passed, \d+ failed$",  # models, scenarios, fuzz targets, mutants
    r"^\d+ passed, (\d+) failed$",
    r"^(\d+) runs passed, ",  # hostile schedules
)
GTEST_SKIPPED = re.compile(r"^\S+\.cpp:\d+: Skipped\n(.+)$", re.MULTILINE)
PYTEST_SKIPPED = re.compile(r"^SKIPPED \[(\d+)\] [^:]+:(?:\d+:)? (.+)$", re.MULTILINE)

# A line that says what failed, and how many to show from it on: several programs print at a time.
FAILURES = (
    (re.compile(r"^\S+:\d+: Failure$"), 12),
    (re.compile(r"^\[  FAILED  \] \w"), 1),
    (re.compile(r"(WARNING|ERROR): \w+Sanitizer|runtime error:|terminate called|: Assertion "), 40),
    (re.compile(r"^==== (HANG|ended by signal)| hangs: no end after|Segmentation fault"), 40),
    (re.compile(r"^(FAILED|ERROR):? |^E   |undefined reference"), 6),
    (re.compile(r"^\S+?(:\d+|\(\d+\)){1,2}: (fatal )?error"), 6),
)
MOST_LINES = 200


def failures_of(text: str) -> list[str]:
    """The lines around each failure; the log's last ones where it names none."""
    lines = text.splitlines()
    shown: set[int] = set()
    for at, line in enumerate(lines):
        for sign, following in FAILURES:
            if sign.search(line):
                shown.update(range(at, min(at + following, len(lines))))
    if not shown:
        return lines[-30:]
    return [lines[at] for at in sorted(shown)][:MOST_LINES]


def row_of(folder: Path, name: str, verdict: str, seconds: str) -> dict[str, Any]:
    log, build = folder / f"{name}.log", folder / f"{name}.build"
    text = log.read_text(errors="replace") if log.exists() else ""
    built = sum(map(int, build.read_text().split())) if build.exists() else 0
    tests = sum(int(n) for form in RUN for n in re.findall(form, text, re.MULTILINE))
    skipped = Counter(GTEST_SKIPPED.findall(text))
    for number, why in PYTEST_SKIPPED.findall(text):
        skipped[why] += int(number)
    return {
        "step": name,
        "verdict": verdict,
        "seconds": int(seconds),
        "build_seconds": built,
        "run_seconds": int(seconds) - built,
        "tests": tests,
        "skipped": dict(skipped),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    lines = (options.folder / "results").read_text().splitlines()
    rows = [row_of(options.folder, *line.split("\t")) for line in lines]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"{'step':<9} {'':<12} {'build s':>8} {'run s':>6} {'tests':>7} {'skipped':>8}")
    for row in rows:
        print(
            f"{row['step']:<9} {row['verdict']:<12} {row['build_seconds'] or '':>8} "
            f"{row['run_seconds']:>6} {row['tests'] or '':>7} "
            f"{sum(row['skipped'].values()) or '':>8}"
        )
    for row in rows:
        for why, number in sorted(row["skipped"].items()):
            print(f"  skipped in {row['step']}: {number} x {why}")
    for row in rows:
        log = options.folder / f"{row['step']}.log"
        if row["verdict"] != "ok" and log.exists():
            print(f"\n-------- what failed in {row['step']}")
            print("\n".join(failures_of(log.read_text(errors="replace"))))


if __name__ == "__main__":
    main()
