"""The throughput model (docs/simulation.md): what a traffic takes under each policy, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mgi import _mgi
from mgi.errors import InvalidArgument
from mgi.plan.traffic import Traffic

POLICIES = {
    "mgi": "MGI: all paths of the plan, partitioning overlaps transfer",
    "ucx": "UCX: one shortest path a pair, partitioning first",
    "nccl": "NCCL: one widest path a pair, partitioning first",
}

PARTITION_GBPS = 480.0
"""What a GPU partitions in a second: an A100's memory (1935 GB/s in the paper) over four, since
staging and sorting each read and write every byte once."""

ALIKE = 0.99
"""Links that are busy for so much of the busiest one's time are told with it."""


@dataclass(frozen=True)
class Conditions:
    """What a prediction assumes."""

    relay: bool = True
    host_relay: bool = True
    nics: int = 0
    partition_gbps: float = PARTITION_GBPS
    other_nics: int = 1
    """Of each server, that frameworks other than MGI use; 0 is all."""


@dataclass(frozen=True)
class Prediction:
    """What the model says of one policy."""

    policy: str
    seconds: float
    gbps: float
    partition_seconds: float
    """Before the transfer of a policy that does not overlap the two; else 0."""
    busiest: list[str]
    """Links, or GPUs that partition, that carry the most for what they can."""
    busy: float
    """For how much of the time they do."""

    def as_json(self) -> dict[str, Any]:
        """As ``--json`` has it."""
        return {
            "seconds": self.seconds,
            "gbps": self.gbps,
            "partition_seconds": self.partition_seconds,
            "busiest": self.busiest,
            "busy": self.busy,
        }


def predict(
    topology: _mgi.Topology, policy: str, traffic: Traffic, conditions: Conditions
) -> Prediction:
    """Raises :class:`mgi.InvalidArgument` where a pair has no path."""
    partition = conditions.partition_gbps if traffic.partitioned else 0.0
    found = _mgi.predict(
        topology,
        policy,
        traffic.native(),
        partition,
        conditions.relay,
        conditions.host_relay,
        conditions.nics,
        conditions.other_nics,
    )
    seconds = found["seconds"]
    if seconds <= 0 or not math.isfinite(seconds):
        raise InvalidArgument("no bytes are sent, so that there is no throughput to predict")
    first = max(found["partition"], default=0.0) if policy != "mgi" else 0.0
    shares = _shares(topology, found, seconds, first)
    busy = max(shares.values(), default=0.0)
    busiest = [name for name, share in shares.items() if share >= ALIKE * busy]
    return Prediction(policy, seconds, traffic.gigabytes / seconds, first, busiest, min(busy, 1.0))


def _shares(
    topology: _mgi.Topology, found: Mapping[str, Any], seconds: float, first: float
) -> dict[str, float]:
    """Of the transfer's time, what each link and each GPU's partitioning is busy."""
    shares: dict[str, float] = {}
    transfer = seconds - first
    for edge, gigabytes in zip(topology.edges(), found["gigabytes"], strict=True):
        if gigabytes > 0 and transfer > 0:
            link = f"{edge['from']} > {edge['to']} ({edge['gbps']:.3g} GB/s)"
            shares[link] = gigabytes / edge["gbps"] / transfer
    if first == 0:
        for vertex, busy in zip(topology.vertices(), found["partition"], strict=True):
            if busy > 0:
                shares[f"partitioning on {vertex['name']}"] = busy / seconds
    return shares
