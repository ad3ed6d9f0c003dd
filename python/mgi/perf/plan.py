"""``mgi perf plan``: how long it takes to create a channel from all GPUs of a cluster to all."""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from mgi import _mgi
from mgi.perf.numbers import add_number, add_repeat

SUMMARY = "creating a channel from all GPUs of a cluster to all"
DETAILS = (
    "Times how long planning takes from the request to every server's serialized forwarding table: "
    "cold (nothing kept from before) and again (warm). Servers are like a DGX H100; shapes differ "
    "in the capacities of their links. The baseline is Edmonds-Karp for every pair over the graph "
    "of the whole cluster; beyond 100 GPUs it is measured on random pairs and scaled up."
)
WRONG = "a pair's paths or tables are wrong"


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measures planning and returns what ``--json`` writes; keys with a _ are for people."""
    measured = _mgi.perf_plan(
        {
            "gpus": options.gpus,
            "per_server": options.per_server,
            "shapes": options.shapes,
            "repeat": options.repeat,
        }
    )
    created = statistics.median(measured["create_ms"])
    return {
        "gpus": options.gpus,
        "shapes": measured["shapes"],
        "create_ms_median": created,
        "create_ms_warm_median": statistics.median(measured["warm_ms"]),
        "create_ms_baseline_ek": measured["baseline_ms"],
        "table_bytes": measured["table_bytes"],
        "sampled_pairs_verified": measured["verified"],
        "speedup": measured["baseline_ms"] / created,
        "repeat": options.repeat,
        "_servers": measured["servers"],
        "_sampled": measured["sampled"],
        "_baseline_pairs": measured["baseline_pairs"],
        "_pairs": measured["pairs"],
        "_sent_bytes": measured["sent_bytes"],
        "_resident_bytes": measured["resident_bytes"],
        "_replan_ms_median": statistics.median(measured["replan_ms"]),
        "_create_ms_max": max(measured["create_ms"]),
        "_verified": measured["verified"] == measured["sampled"],
    }


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what can be chosen."""
    add_number(parser, "--gpus", "GPUs of the cluster, all sources and all destinations", 100)
    add_number(parser, "--per-server", "GPUs of a server", 8)
    add_number(parser, "--shapes", "different servers among them; 0: no two are equal", 1, least=0)
    add_repeat(parser)


def table(result: dict[str, Any]) -> list[str]:
    """The figures for people."""
    baseline = f"{result['_baseline_pairs']:,} of {result['_pairs']:,} pairs"
    if result["_baseline_pairs"] < result["_pairs"]:
        baseline += ", scaled up"
    return [
        f"a channel from all to all of {result['gpus']:,} GPUs on {result['_servers']:,} servers "
        f"of {result['shapes']:,} shapes, {result['repeat']} runs",
        "",
        f"{'cold':<12}{result['create_ms_median']:>16.3f} ms, "
        f"at most {result['_create_ms_max']:.3f} ms",
        f"{'warm':<12}{result['create_ms_warm_median']:>16.3f} ms",
        f"{'a NIC fails':<12}{result['_replan_ms_median']:>16.3f} ms",
        f"{'baseline':<12}{result['create_ms_baseline_ek']:>16.3f} ms (Edmonds-Karp on {baseline})",
        f"{'speedup':<12}{result['speedup']:>16,.0f}",
        "",
        f"tables and directory: {result['table_bytes']:,} bytes held, {result['_sent_bytes']:,} "
        f"sent; memory {result['_resident_bytes'] / 2**20:.1f} MiB",
        f"pairs verified: {result['sampled_pairs_verified']} of {result['_sampled']}",
    ]
