"""Exchange of nested and dictionary columns beside text of the same bytes, by turns.

    python bench/types/tables.py [--rows 500000] [--rounds 7] [--json FILE] [CASE...]

A row has a random key of 8 bytes and a value of about 80. "exchange" is :func:`mgi.exchange`
between two endpoints, "in and out" with the results as Arrow tables. Ratios are text's time over
the case's: 1 is as many bytes a second as text.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mgi
import numpy as np
import pyarrow as pa

RNG = np.random.default_rng(1)
NULLS = 0.1


def numbers(rows: int) -> pa.Array:
    return pa.array(RNG.integers(0, 1 << 60, rows))


def texts(rows: int, width: int) -> pa.Array:
    ends = pa.array(np.arange(rows + 1, dtype=np.int64) * width)
    letters = pa.py_buffer(RNG.integers(97, 122, width * rows, dtype=np.uint8).tobytes())
    return pa.LargeStringArray.from_buffers(rows, ends.buffers()[1], letters)


def holes(values: pa.Array) -> pa.Array:
    return pa.array(values.to_numpy(), mask=RNG.random(len(values)) < NULLS)


def struct(*parts: pa.Array, **how: Any) -> pa.Array:
    return pa.StructArray.from_arrays(parts, [f"f{k}" for k in range(len(parts))], **how)


def lists(values: pa.Array, each: int) -> pa.Array:
    ends = pa.array(np.arange(0, len(values) + 1, each, dtype=np.int32))
    return pa.ListArray.from_arrays(ends, values)


def maps(rows: int) -> pa.Array:
    ends = pa.array(np.arange(0, 4 * rows + 1, 4, dtype=np.int32))
    return pa.MapArray.from_arrays(ends, texts(4 * rows, 10).cast(pa.string()), numbers(4 * rows))


def categories(rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(RNG.integers(0, 1000, rows), texts(1000, 80))


#: By name what makes so many rows, and bytes of text that stand for one.
CASES: dict[str, tuple[Callable[[int], pa.Array], int]] = {
    "struct of 10 numbers": (lambda n: struct(*(numbers(n) for _ in range(10))), 80),
    "one nullable": (lambda n: struct(*(numbers(n) for _ in range(9)), holes(numbers(n))), 80),
    "all nullable": (lambda n: struct(*(holes(numbers(n)) for _ in range(10))), 80),
    "null structs": (
        lambda n: struct(*(numbers(n) for _ in range(10)), mask=pa.array(RNG.random(n) < NULLS)),
        80,
    ),
    "struct of a number and a text": (lambda n: struct(numbers(n), texts(n, 72)), 80),
    "struct of 3 numbers and 2 texts": (
        lambda n: struct(numbers(n), numbers(n), numbers(n), texts(n, 28), texts(n, 28)),
        80,
    ),
    "list of 10 numbers": (lambda n: lists(numbers(10 * n), 10), 80),
    "list of 10 nullable numbers": (lambda n: lists(holes(numbers(10 * n)), 10), 80),
    "list of 4 texts": (lambda n: lists(texts(4 * n, 20), 4), 80),
    "list of 5 structs": (lambda n: lists(struct(numbers(5 * n), numbers(5 * n)), 5), 80),
    "map of 4": (maps, 72),
    "20 floats": (
        lambda n: pa.FixedSizeListArray.from_arrays(RNG.random(20 * n, np.float32), 20),
        80,
    ),
    "dictionary of 1000 texts": (categories, 80),
}


def milliseconds(table: pa.Table, out: bool) -> float:
    started = time.perf_counter()
    parts = mgi.exchange(table, "key", endpoints=2)
    kept = [pa.table(part) for part in parts] if out else parts
    taken = (time.perf_counter() - started) * 1e3
    assert sum(len(part) for part in kept) == len(table)
    return taken


def measure(name: str, rows: int, rounds: int) -> dict[str, Any]:
    make, width = CASES[name]
    key = numbers(rows)
    tables = {
        "text": pa.table({"key": key, "value": texts(rows, width)}),
        "case": pa.table({"key": key, "value": make(rows)}),
    }
    found: dict[str, Any] = {"case": name, "rows": rows}
    for what, out in (("exchange", False), ("in and out", True)):
        taken: dict[str, list[float]] = {which: [] for which in tables}
        for _ in range(rounds + 1):
            for which, table in tables.items():
                taken[which].append(milliseconds(table, out))
        text, case = (statistics.median(taken[which][1:]) for which in ("text", "case"))
        found[what] = {"ms": case, "ms_text": text, "ratio": text / case}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    unknown = [name for name in given.cases if name not in CASES]
    if unknown:
        parser.error(f"there is no case '{unknown[0]}': give some of {', '.join(CASES)}")
    results = []
    for name in given.cases or CASES:
        results.append(measure(name, given.rows, given.rounds))
        ways = (results[-1][what] for what in ("exchange", "in and out"))
        print(f"{name:32}", *(f"{w['ms']:7.1f} ms {w['ratio']:5.2f}" for w in ways), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
