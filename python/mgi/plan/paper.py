"""The paper's patterns on its testbeds: predicted beside measured.

Measured are only ratios that the paper's text states (sections 6.2 to 6.4); its figures' bars are
not read off. Where the text has no number, none stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mgi.plan import model
from mgi.plan.model import Conditions
from mgi.plan.report import figure, percent
from mgi.plan.traffic import (
    Gpu,
    Traffic,
    gpus_of,
    many_to_many,
    many_to_one,
    one_to_many,
    one_to_one,
    shares,
)
from mgi.topo import preset

MEMORY_GBPS = {"A100": 1935.0, "H100": 3072.0}
"""Of each GPU's memory, as section 6.2 has it."""
ACCESSES = 4
"""Of memory for each byte that is partitioned: staging and sorting both read and write it."""


@dataclass(frozen=True)
class Claim:
    """A pattern that the paper measured, and by how much MGI was faster, as the text says it."""

    figure: str
    pattern: str
    system: str
    gpu: str
    traffic: Callable[[Sequence[Gpu]], Traffic]
    over_ucx: str = ""
    over_nccl: str = ""
    other_nics: int = 1


def _exchange(gpus: Sequence[Gpu]) -> Traffic:
    return many_to_many(gpus)


def _many_to_one(gpus: Sequence[Gpu]) -> Traffic:
    return many_to_one(gpus, gpus[0])


def _one_to_many(gpus: Sequence[Gpu]) -> Traffic:
    return one_to_many(gpus, gpus[0])


def _one_to_one(gpus: Sequence[Gpu]) -> Traffic:
    return one_to_one(gpus[0], gpus[-1])


def _skewed(theta: float) -> Callable[[Sequence[Gpu]], Traffic]:
    """One source, all GPUs as destinations; the least goes to the source itself."""

    def traffic(gpus: Sequence[Gpu]) -> Traffic:
        source, *others = gpus
        split = shares(len(gpus), theta)
        demands = [(source, b, part) for b, part in zip([*others, source], split, strict=True)]
        return Traffic(f"Zipf {theta:g}", demands, partitioned=True)

    return traffic


CLAIMS = (
    Claim("10a", "exchange", "testbed1", "A100", _exchange, "up to +177 %", "up to +61 %"),
    Claim("11a", "exchange", "testbed3", "H100", _exchange, "+242 %", "+355 %"),
    Claim("11a", "exchange, all NICs", "testbed3", "H100", _exchange, other_nics=0),
    Claim("12a", "many-to-one", "testbed2", "H100", _many_to_one, "+35 %", "+47 %"),
    Claim("12b", "one-to-many", "testbed2", "H100", _one_to_many, "+18 %", "+99 %"),
    Claim("12c", "one-to-one", "testbed2", "H100", _one_to_one, "over +200 %", "over +200 %"),
    Claim("12d", "many-to-one", "testbed3", "H100", _many_to_one, "+413 %", "+991 %"),
    Claim("12e", "one-to-many", "testbed3", "H100", _one_to_many, "+414 %", "+789 %"),
    Claim("12f", "one-to-one", "testbed3", "H100", _one_to_one, "over +260 %", "over +260 %"),
    Claim("13a", "exchange", "topo1", "H100", _exchange, "up to +50 %", "up to +94 %"),
    Claim("13b", "exchange", "topo2", "H100", _exchange, "up to +50 %", "up to +94 %"),
    Claim("13c", "exchange", "topo3", "H100", _exchange, "up to +50 %", "up to +94 %"),
    Claim("13d", "exchange", "topo4", "H100", _exchange, "+274 %", "+416 %"),
    Claim("13e", "exchange", "topo5", "H100", _exchange),
    Claim("19", "Zipf 0", "testbed2", "H100", _skewed(0)),
    Claim("19", "Zipf 0.5", "testbed2", "H100", _skewed(0.5)),
    Claim("19", "Zipf 1", "testbed2", "H100", _skewed(1)),
    Claim("19", "Zipf 2", "testbed2", "H100", _skewed(2)),
)

NOTES = (
    "GB/s are predicted; ratios are MGI over the other. Measured: what the paper's text states, "
    "- where it has no number.",
    "UCX and NCCL use one NIC of a server, as in the paper, but for the row that says otherwise.",
    "GPUs partition at a quarter of their memory's rate: 484 GB/s (A100), 768 GB/s (H100).",
)


def compare(conditions: Conditions, partition_gbps: float | None) -> list[dict[str, Any]]:
    """One row a claim; `partition_gbps` in place of each GPU's own."""
    rows = []
    for claim in CLAIMS:
        topology = preset(claim.system)
        traffic = claim.traffic(gpus_of(topology))
        own = MEMORY_GBPS[claim.gpu] / ACCESSES if partition_gbps is None else partition_gbps
        told = replace(conditions, partition_gbps=own, other_nics=claim.other_nics)
        made = {p: model.predict(topology, p, traffic, told).gbps for p in model.POLICIES}
        rows.append(
            {
                "figure": claim.figure,
                "pattern": claim.pattern,
                "system": claim.system,
                "gbps": made,
                "over_ucx": made["mgi"] / made["ucx"] - 1,
                "over_nccl": made["mgi"] / made["nccl"] - 1,
                "measured_over_ucx": claim.over_ucx or None,
                "measured_over_nccl": claim.over_nccl or None,
            }
        )
    return rows


def lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The table of ``mgi plan --compare``."""
    found = [
        f"{'':<45} {'GB/s, predicted':>21}   {'over UCX':^22}   {'over NCCL':^22}".rstrip(),
        f"{'figure':<7} {'pattern':<19} {'system':<17} {'MGI':>7} {'UCX':>6} {'NCCL':>6}   "
        f"{'predicted':>9} {'paper':>12}   {'predicted':>9} {'paper':>12}",
    ]
    for row in rows:
        made = row["gbps"]
        found.append(
            f"{row['figure']:<7} {row['pattern']:<19} {row['system']:<17} "
            f"{figure(made['mgi']):>7} {figure(made['ucx']):>6} {figure(made['nccl']):>6}   "
            f"{percent(row['over_ucx']):>9} {row['measured_over_ucx'] or '-':>12}   "
            f"{percent(row['over_nccl']):>9} {row['measured_over_nccl'] or '-':>12}"
        )
    return [*found, "", *NOTES]
