"""Who sends how much to whom: patterns over the GPUs of a graph, and matrices from files."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mgi import _mgi
from mgi.errors import InvalidArgument

MOST_PAIRS = 1 << 16
"""Of a traffic that is predicted: all pairs of 256 GPUs."""


@dataclass(frozen=True)
class Gpu:
    """A GPU of a graph: the K-th over all servers is ``gpu:K``."""

    index: int
    vertex: int
    name: str
    server: int | None

    def __str__(self) -> str:
        return f"gpu:{self.index}"


def gpus_of(topology: _mgi.Topology) -> list[Gpu]:
    """All GPUs, in the order of the graph."""
    found = [(v, vertex) for v, vertex in enumerate(topology.vertices()) if vertex["kind"] == "gpu"]
    if not found:
        raise InvalidArgument("the graph has no GPU, so that there is nothing to plan")
    return [Gpu(k, v, vertex["name"], vertex["server"]) for k, (v, vertex) in enumerate(found)]


def find_gpu(gpus: Sequence[Gpu], text: str) -> Gpu:
    """The GPU that somebody names: ``gpu:3``, or as ``mgi topo`` prints it."""
    for gpu in gpus:
        if text in (gpu.name, str(gpu)):
            return gpu
    last = f" to gpu:{len(gpus) - 1}" if len(gpus) > 1 else ""
    raise InvalidArgument(
        f"there is no GPU '{text}'; there are gpu:0{last}, or by name {gpus[0].name}"
        + (", ..." if len(gpus) > 1 else "")
    )


@dataclass(frozen=True)
class Traffic:
    """What is sent; bytes from a GPU to itself stay where they are."""

    title: str
    demands: list[tuple[Gpu, Gpu, float]]
    partitioned: bool
    """Whether sources sort their rows by destination; not if each has one, or all get the same."""

    @property
    def gigabytes(self) -> float:
        """Of all together."""
        return sum(gigabytes for _, _, gigabytes in self.demands)

    @property
    def pairs(self) -> list[tuple[Gpu, Gpu]]:
        """Pairs of different GPUs that have something to send."""
        return [(a, b) for a, b, gigabytes in self.demands if a != b and gigabytes > 0]

    def native(self) -> list[tuple[int, int, float]]:
        """As the model takes it."""
        return [(a.vertex, b.vertex, gigabytes) for a, b, gigabytes in self.demands]


def shares(count: int, theta: float) -> list[float]:
    """What each of `count` destinations gets: by Zipf's law, the first the most; 0 is all alike."""
    # As exponents, of which the large ones are 0; a power of the rank would be more than a float.
    weights = [math.exp(-theta * math.log(rank + 1)) for rank in range(count)]
    total = sum(weights)
    return [weight / total for weight in weights]


def skewed(theta: float) -> str:
    """For a title."""
    return f", Zipf {theta:g}" if theta else ""


def many_to_many(gpus: Sequence[Gpu], gigabytes: float = 1, theta: float = 0) -> Traffic:
    """Each GPU sends a share of what it has to every GPU, itself included."""
    _check_pairs(len(gpus) ** 2)
    split = shares(len(gpus), theta)
    demands = [(a, b, gigabytes * part) for a in gpus for b, part in zip(gpus, split, strict=True)]
    title = f"all-to-all over {len(gpus)} GPUs{skewed(theta)}"
    return Traffic(title, demands, partitioned=True)


def many_to_one(gpus: Sequence[Gpu], to: Gpu, gigabytes: float = 1) -> Traffic:
    """Every other GPU sends to one."""
    sources = [gpu for gpu in gpus if gpu != to]
    demands = [(gpu, to, gigabytes) for gpu in sources]
    return Traffic(f"{len(sources)} GPUs to {to}", demands, partitioned=True)


def one_to_many(
    gpus: Sequence[Gpu], source: Gpu, gigabytes: float = 1, theta: float = 0
) -> Traffic:
    """One GPU sends a share of what it has to every other."""
    others = [gpu for gpu in gpus if gpu != source]
    split = shares(len(others), theta)
    demands = [(source, b, gigabytes * part) for b, part in zip(others, split, strict=True)]
    title = f"{source} to {len(others)} GPUs{skewed(theta)}"
    return Traffic(title, demands, partitioned=True)


def broadcast(gpus: Sequence[Gpu], source: Gpu, gigabytes: float = 1) -> Traffic:
    """One GPU sends all that it has to every other."""
    others = [gpu for gpu in gpus if gpu != source]
    demands = [(source, gpu, gigabytes) for gpu in others]
    return Traffic(f"broadcast from {source} to {len(others)} GPUs", demands, partitioned=False)


def one_to_one(source: Gpu, to: Gpu, gigabytes: float = 1) -> Traffic:
    """One GPU sends all that it has to another."""
    if source == to:
        raise InvalidArgument(f"{source} to itself: nothing is transferred")
    return Traffic(f"{source} to {to}", [(source, to, gigabytes)], partitioned=False)


def read_matrix(path: Path, gpus: Sequence[Gpu]) -> Traffic:
    """Gigabytes from each GPU (a line) to each GPU (a column), separated by commas."""
    rows: list[list[float]] = []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for number, cells in enumerate(csv.reader(file), 1):
                if cells and not cells[0].lstrip().startswith("#") and any(map(str.strip, cells)):
                    rows.append(_numbers(f"{path}:{number}", cells, len(gpus)))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidArgument(f"{path}: is no CSV: {error}") from None
    if len(rows) != len(gpus):
        raise InvalidArgument(
            f"{path}: {len(rows)} lines for {len(gpus)} GPUs; expected one for each GPU, and as "
            "many columns"
        )
    demands = [
        (gpus[i], gpus[j], gigabytes)
        for i, row in enumerate(rows)
        for j, gigabytes in enumerate(row)
        if gigabytes > 0
    ]
    if not any(a != b for a, b, _ in demands):
        raise InvalidArgument(f"{path}: no GPU sends anything to another")
    _check_pairs(len(demands))
    name = os.fsencode(path.name).decode(errors="replace")  # it is printed
    return Traffic(f"{name} over {len(gpus)} GPUs", demands, partitioned=True)


def _numbers(where: str, cells: Sequence[str], count: int) -> list[float]:
    if len(cells) != count:
        raise InvalidArgument(
            f"{where}: {len(cells)} values for {count} GPUs; expected gigabytes to each GPU"
        )
    numbers = []
    for column, cell in enumerate(cells, 1):
        try:
            number = float(cell)
        except ValueError:
            number = math.nan
        if not 0 <= number < math.inf:
            raise InvalidArgument(
                f"{where}: column {column} is '{cell.strip()}'; expected gigabytes, 0 or more"
            )
        numbers.append(number)
    return numbers


def _check_pairs(count: int) -> None:
    if count > MOST_PAIRS:
        raise InvalidArgument(
            f"{count} pairs; the model takes {MOST_PAIRS} at most (all pairs of 256 GPUs)"
        )


def as_json(traffic: Traffic) -> dict[str, Any]:
    """Title and volume; the demands themselves are as many as pairs."""
    return {
        "title": traffic.title,
        "gigabytes": traffic.gigabytes,
        "sources": len({a for a, _, _ in traffic.demands}),
        "destinations": len({b for _, b, _ in traffic.demands}),
    }
