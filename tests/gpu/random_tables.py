"""Random tables and calls of operators, the same in all processes of a job, for test_duckdb.py.

Also a program that `mgi run` starts: it makes the calls of some seeds with this rank's part of the
rows, at an endpoint on this rank's GPU, and writes what it gets to a folder.
"""

from __future__ import annotations

import datetime
import decimal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mgi
import numpy as np
import pyarrow as pa

Random = np.random.Generator
ELSEWHERE = "elsewhere"
"""The device of other processes' endpoints."""
DAY = datetime.date(2000, 1, 1)


def text(number: int) -> str:
    """Of 0 to 40 bytes; many begin alike."""
    return f"a text of number {number % 50}, and one of its own: {number}"[: number * 7 % 41]


def fixed(scale: int, number: int) -> decimal.Decimal:
    """A decimal with so many digits behind the point."""
    return decimal.Decimal(number).scaleb(-scale)


VALUES: dict[pa.DataType, Callable[[int], Any]] = {
    pa.int8(): lambda i: i % 256 - 128,
    pa.int32(): lambda i: i - 700,
    pa.int64(): lambda i: (i - 500) * 2**33,
    pa.uint64(): lambda i: i * 2**40,
    pa.float32(): lambda i: i / 8,
    pa.float64(): lambda i: 1e6 - i / 3,
    pa.bool_(): lambda i: i % 3 == 0,
    pa.date32(): lambda i: DAY + datetime.timedelta(days=i % 5000),
    pa.decimal128(9, 2): lambda i: fixed(2, i - 1000),
    pa.decimal128(38, 3): lambda i: fixed(3, (i - 1000) * 10**18),
    pa.binary(3): lambda i: f"{i % 1000:03}".encode(),
    pa.string(): text,
    pa.large_string(): lambda i: f"https://example.org/\N{LATIN SMALL LETTER E WITH ACUTE}/{i}",
    pa.string_view(): text,
    pa.binary(): lambda i: i.to_bytes(3, "big") + bytes(i % 3),
}
NUMBERS = [kind for kind in VALUES if pa.types.is_integer(kind) or pa.types.is_decimal(kind)]
FLOATS = [pa.float32(), pa.float64()]
KEYS = [pa.int32(), pa.int64(), pa.string(), pa.decimal128(9, 2), pa.date32(), pa.binary(3)]


def column(random: Random, kind: pa.DataType, rows: int, spread: int) -> pa.Array:
    """Of about so many different values; sometimes with nulls."""
    values = [VALUES[kind](int(i)) for i in random.integers(0, spread, rows)]
    mask = random.random(rows) < random.choice([0.0, 0.1])
    return pa.array(values, kind, mask=mask)


def table(random: Random, keys: list[pa.DataType], spread: int, prefix: str) -> pa.Table:
    """Key columns k0, k1, ... of so many values, and others named by the prefix."""
    rows = int(random.choice([0, 1, 40, 700, 3000]))
    columns = {f"k{i}": column(random, kind, rows, spread) for i, kind in enumerate(keys)}
    kinds = list(VALUES)
    for i in range(int(random.integers(1, 5))):
        kind = kinds[int(random.integers(len(kinds)))]
        columns[f"{prefix}{i}"] = column(random, kind, rows, int(random.choice([3, 5000])))
    return pa.table(columns)


class Case:
    """What a seed stands for: two tables, a join and a group-by."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        places = random.choice(len(KEYS), int(random.integers(1, 3)), replace=False)
        kinds = [KEYS[int(place)] for place in places]
        self.keys = [f"k{i}" for i in range(len(kinds))]
        spread = int(random.choice([1, 20, 2000]))
        self.left = table(random, kinds, spread, "l")
        self.right = table(random, kinds, spread, "r")
        self.how = str(random.choice(["inner", "left", "right", "full", "semi", "anti"]))
        self.broadcast = None if self.how == "full" else [None, True, False][seed % 3]
        self.few = [None, 0][seed // 3 % 2]
        self.endpoints = int(random.integers(1, 5))
        self.on_host = bool(random.integers(2))
        # Not where a key has many rows: all pairs of theirs must have room.
        self.limit = [None, 1 << 20][int(random.integers(2))] if spread > 20 else None
        self.wanted: list[tuple[str, str | None, str]] = [("count", None, "rows")]
        for name in self.left.column_names[len(kinds) :]:
            kind = self.left.schema.field(name).type
            functions = ["count", "min", "max", "first", "count_distinct"]
            functions += ["sum", "avg", "var"] if kind in NUMBERS + FLOATS else []
            self.wanted += [(function, name, f"{name}_{function}") for function in functions]

    def call(self, runtime: mgi.Runtime, endpoints: list[mgi.Endpoint]) -> dict[str, list[Any]]:
        """What each operator gives at the endpoints of this process, None at others'."""
        given = [self._parts(whole, endpoints) for whole in (self.left, self.right)]
        place: dict[str, Any] = {"runtime": runtime, "endpoints": endpoints}
        place["receive_limit"] = self.limit
        parts = {
            "exchange": mgi.exchange(given[0], self.keys, **place),
            "group_by": mgi.group_by(
                given[0], self.keys, self.wanted, one_endpoint_bytes=self.few, **place
            ),
            "join": mgi.join(
                *given,
                self.keys,
                self.how,
                broadcast=self.broadcast,
                one_endpoint_bytes=self.few,
                **place,
            ),
        }
        return {
            name: [
                one.to_arrow() if endpoint.device != ELSEWHERE else None
                for one, endpoint in zip(some, endpoints, strict=True)
            ]
            for name, some in parts.items()
        }

    def _parts(self, whole: pa.Table, endpoints: list[mgi.Endpoint]) -> list[Any]:
        """The rows of each endpoint of this process, where this case has them."""
        parts: list[Any] = []
        for place, endpoint in enumerate(endpoints):
            first = whole.num_rows * place // len(endpoints)
            part = whole.slice(first, whole.num_rows * (place + 1) // len(endpoints) - first)
            if endpoint.device == ELSEWHERE:
                parts.append(None)
            else:
                on_gpu = not self.on_host
                parts.append(mgi.GpuTable.from_host(part, endpoint.device) if on_gpu else part)
        return parts


def main(folder: Path, seeds: range) -> None:
    """As one rank of a job: the results of seed 7's join at endpoint 1 are in 7-join-1.arrow."""
    job = mgi.job()
    with mgi.Runtime.connect(timeout=60) as runtime:
        device = f"cuda:{job.local_rank % mgi._mgi.gpus()}"
        endpoints = runtime.gather_endpoints([runtime.create_endpoint(device)])
        for seed in seeds:
            for name, parts in Case(seed).call(runtime, endpoints).items():
                for place, part in enumerate(parts):
                    if part is not None:
                        file = str(folder / f"{seed}-{name}-{place}.arrow")
                        with pa.ipc.new_file(file, part.schema) as to:
                            to.write_table(part)


if __name__ == "__main__":
    main(Path(sys.argv[1]), range(int(sys.argv[2]), int(sys.argv[3])))
