"""How fast the first process' cores or GPUs could go: what floors are made of."""

from __future__ import annotations

import dataclasses
import time

from mgi.tpch import own_cores
from mgi.tpch.frame import Cluster


@dataclasses.dataclass(frozen=True)
class Rates:
    """Bytes a second."""

    memory: float
    """That this process' cores, or GPUs, read."""
    links: float
    """That go from its GPUs to others; elsewhere as much as is read."""


def measured(cluster: Cluster) -> Rates:
    """Of the cluster's memory and links."""
    if not cluster.gpus:
        memory = memory_rate()
        return Rates(memory, memory)
    memory = gpu_rate(cluster.gpus)
    graph = cluster.runtime.graph()
    names = {one["id"]: one["name"] for one in graph["vertices"]}
    own = {f"cuda:{gpu}" for gpu in cluster.gpus}
    links: dict[str, float] = {}
    for edge in graph["edges"]:
        begin, end = names[edge["from"]], names[edge["to"]]
        if begin in own and end != begin and end.startswith("cuda"):
            links[begin] = max(links.get(begin, 0.0), edge["gbps"] * 1e9)
    return Rates(memory, sum(links.values()) or memory)


def memory_rate() -> float:
    """Bytes a second that this process' cores read together, in the best of a few turns."""
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np

    cores = own_cores()
    with ThreadPoolExecutor(cores) as pool:
        words = list(pool.map(np.ones, [1 << 22] * cores))  # each thread's near to it
        best = 0.0
        for _ in range(5):
            started = time.perf_counter()
            list(pool.map(np.max, words))
            best = max(best, cores * words[0].nbytes / (time.perf_counter() - started))
    return best


def gpu_rate(gpus: list[int]) -> float:
    """Bytes a second that these GPUs read together, in the best of a few turns."""
    import cupy

    total = 0.0
    for gpu in gpus:
        with cupy.cuda.Device(gpu):
            words = cupy.ones(1 << 27, "i8")
            best = 0.0
            for _ in range(5):
                begin, end = cupy.cuda.Event(), cupy.cuda.Event()
                begin.record()
                cupy.max(words)
                end.record()
                end.synchronize()
                milliseconds = cupy.cuda.get_elapsed_time(begin, end)
                best = max(best, words.nbytes / milliseconds * 1e3)
            total += best
    return total
