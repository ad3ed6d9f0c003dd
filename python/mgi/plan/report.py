"""What ``mgi plan`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mgi import _mgi
from mgi.demo.units import seconds as duration
from mgi.plan.model import POLICIES, Conditions, Prediction
from mgi.plan.paths import Group, Paths
from mgi.plan.traffic import Gpu, Traffic
from mgi.topo import plural

MOST_GROUPS = 12
MOST_PATHS = 16
"""Printed; ``--json`` has all."""


def gbps(value: float) -> str:
    """``2411 GB/s``, ``24.7 GB/s``."""
    return f"{figure(value)} GB/s"


def figure(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def head(topology: _mgi.Topology, name: str) -> str:
    """What the plan is over."""
    kinds = [vertex["kind"] for vertex in topology.vertices()]
    parts = [
        plural(topology.servers, "server"),
        plural(kinds.count("gpu"), "GPU"),
        plural(kinds.count("nic"), "NIC"),
    ]
    return f"{name}: {', '.join(parts)}"


def path_lines(topology: _mgi.Topology, paths: Paths, gpus: Iterable[Gpu]) -> list[str]:
    """The paths of each kind of pair, with their GB/s one way."""
    labels = {gpu.name: str(gpu) for gpu in gpus}
    groups = paths.groups(topology)
    lines: list[str] = []
    for group in groups[:MOST_GROUPS]:
        lines += [*_group_lines(group, labels), ""]
    if len(groups) > MOST_GROUPS:
        lines += [f"and {len(groups) - MOST_GROUPS} more kinds of pairs (--json has all)", ""]
    if paths.left_out:
        lines += [f"paths of {paths.left_out} more pairs were not looked at", ""]
    return lines


def _group_lines(group: Group, labels: Mapping[str, str]) -> list[str]:
    pair = group.example
    more = f", and {plural(group.pairs - 1, 'pair')} alike" if group.pairs > 1 else ""
    lines = [
        f"{pair.source} ({pair.source.name}) to {pair.destination} ({pair.destination.name})"
        f"{more}: {plural(len(pair.paths), 'path')}, {gbps(pair.gbps)}"
    ]
    for path in pair.paths[:MOST_PATHS]:
        way = " > ".join(labels.get(vertex, vertex) for vertex in path.vertices)
        lines.append(f"  {figure(path.gbps):>6}  {way}{'  NIC-direct' * path.nic_direct}")
    if len(pair.paths) > MOST_PATHS:
        lines.append(f"          and {len(pair.paths) - MOST_PATHS} more")
    return lines


def optimization_lines(found: Iterable[Mapping[str, Any]], plan: Mapping[str, Any]) -> list[str]:
    """Which of the paper's optimizations apply, and why; how large segments are."""
    lines = ["optimizations"]
    for each in found:
        answer = "yes" if each["applies"] else "no"
        lines.append(f"  {each['name']:<12} {answer:<4} {each['why']}")
    lanes = plural(plan["lanes"], "lane") + " a source"
    if plan["two_level"]:
        lanes += f", rows partitioned again on their server for up to {plan['group_size']} GPUs"
    size = plan["segment_bytes"] // 1024
    lines.append(f"  {'':<17} segments of {size} KiB, {plan['slots']} a lane, {lanes}")
    return [*lines, ""]


def busiest(prediction: Prediction) -> str:
    """What limits the traffic, or comes closest to that."""
    if not prediction.busiest:
        return ""
    more = len(prediction.busiest) - 1
    others = f" and {more} more" if more else ""
    return f"{prediction.busiest[0]}{others}, {prediction.busy * 100:.0f} % busy"


def prediction_lines(traffic: Traffic, conditions: Conditions, made: Prediction) -> list[str]:
    """The throughput of a plan."""
    return [
        f"predicted  {traffic.title}: {figure(traffic.gigabytes)} GB in {duration(made.seconds)}, "
        f"{gbps(made.gbps)}",
        f"           {busiest(made)}",
        f"           {assumed(traffic, conditions)}",
    ]


def assumed(traffic: Traffic, conditions: Conditions) -> str:
    """What the model was told."""
    if not traffic.partitioned:
        return "nothing to partition"
    if conditions.partition_gbps == 0:
        return "partitioning takes no time (--partition 0)"
    return f"GPUs partition {gbps(conditions.partition_gbps)} (--partition)"


def comparison_lines(
    traffic: Traffic, conditions: Conditions, predictions: Mapping[str, Prediction | str]
) -> list[str]:
    """Policies side by side; one that has no path says so."""
    lines = [f"predicted  {traffic.title}: {figure(traffic.gigabytes)} GB"]
    lines.append(f"  {'':<5} {'time':>9} {'GB/s':>7} {'MGI gains':>10}  busiest")
    ours = predictions["mgi"]
    for policy, made in predictions.items():
        label = policy.upper()
        if isinstance(made, str):
            lines.append(f"  {label:<5} {'-':>9} {'-':>7} {'-':>10}  {made}")
            continue
        gain = ""
        if policy != "mgi" and isinstance(ours, Prediction):
            gain = percent(ours.gbps / made.gbps - 1)
        first = ""
        if made.partition_seconds > 0:
            first = f"; {duration(made.partition_seconds)} of partitioning first"
        lines.append(
            f"  {label:<5} {duration(made.seconds):>9} {figure(made.gbps):>7} {gain:>10}  "
            f"{busiest(made)}{first}"
        )
    lines += ["", *(f"  {about}" for about in POLICIES.values())]
    nics = conditions.other_nics
    their = "all NICs of a server" if nics == 0 else plural(nics, "NIC") + " of a server"
    lines.append(f"  UCX and NCCL use {their} (--other-nics); {assumed(traffic, conditions)}")
    return lines


def percent(gain: float) -> str:
    """``+72 %``."""
    return f"{gain * 100:+.0f} %"


def table_lines(servers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Every server's forwarding table."""
    lines = []
    for each in servers:
        size = len(each["bytes"])
        lines += [f"forwarding table of server {each['server']}, {size} bytes serialized", ""]
        lines += [f"  {line}" for line in each["text"].splitlines()]
        lines.append("")
    return lines
