"""The paths of a traffic's pairs; pairs whose paths look alike are told once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from mgi import _mgi
from mgi.errors import InvalidArgument
from mgi.plan.traffic import Gpu

MOST_PAIRS = 4096
"""Whose paths are looked at; more pairs are only predicted."""

DIGITS = 4
"""Behind the point of a GB/s, as in ``mgi topo``."""


@dataclass(frozen=True)
class Path:
    """One way from a GPU to another."""

    vertices: tuple[str, ...]
    gbps: float
    nic_direct: bool

    def as_json(self) -> dict[str, Any]:
        """As ``--json`` and a drawing have it."""
        return {
            "vertices": list(self.vertices),
            "gbps": self.gbps,
            "nic_direct": self.nic_direct,
        }


@dataclass(frozen=True)
class Pair:
    """Two GPUs and all their paths, shortest first."""

    source: Gpu
    destination: Gpu
    paths: list[Path]

    @property
    def gbps(self) -> float:
        """Of all paths together."""
        return round(sum(path.gbps for path in self.paths), DIGITS)

    def as_json(self) -> dict[str, Any]:
        """As ``--json`` has it."""
        return {
            "src": self.source.name,
            "dst": self.destination.name,
            "gbps": self.gbps,
            "paths": [path.as_json() for path in self.paths],
        }


@dataclass
class Group:
    """Pairs whose paths have the same capacities and pass the same kinds of vertices."""

    example: Pair
    pairs: int = 0


@dataclass
class Paths:
    """What the planner says of a traffic's pairs."""

    pairs: list[Pair] = field(default_factory=list)
    left_out: int = 0

    def groups(self, topology: _mgi.Topology) -> list[Group]:
        """By what they look like, in the order of the first of each."""
        kinds = {vertex["name"]: vertex["kind"] for vertex in topology.vertices()}
        found: dict[Any, Group] = {}
        for pair in self.pairs:
            key = tuple((p.gbps, tuple(kinds[v] for v in p.vertices)) for p in pair.paths)
            found.setdefault(key, Group(pair)).pairs += 1
        return list(found.values())


def find_paths(
    topology: _mgi.Topology,
    planner: _mgi.Planner,
    pairs: Sequence[tuple[Gpu, Gpu]],
    rules: Mapping[str, Any],
) -> Paths:
    """Raises :class:`mgi.InvalidArgument` for a pair that no path joins."""
    names = [vertex["name"] for vertex in topology.vertices()]
    found = Paths(left_out=max(0, len(pairs) - MOST_PAIRS))
    for source, destination in pairs[:MOST_PAIRS]:
        native = planner.paths(source.vertex, destination.vertex, rules)
        if not native:
            raise InvalidArgument(
                f"no path from {source} ({source.name}) to {destination} ({destination.name})"
            )
        paths = [_path(each, names) for each in native]
        found.pairs.append(Pair(source, destination, paths))
    return found


def _path(native: Mapping[str, Any], names: Sequence[str]) -> Path:
    # Where a path changes servers, at the network or an NVLink domain, both have the vertex.
    vertices = [names[v] for v, _ in groupby(native["vertices"])]
    return Path(tuple(vertices), round(native["gbps"], DIGITS), native["nic_direct"])
