"""Where ``mgi tpch`` runs: endpoints on this process' cores and GPUs, and all others'."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import mgi
from mgi import _mgi
from mgi.tpch import own_cores
from mgi.tpch.flow import Consumer, Flow
from mgi.tpch.frame import Cluster
from mgi.tpch.options import Options

#: Seconds for which processes wait for each other: one of them runs DuckDB meanwhile.
PATIENCE = 600.0


@contextlib.contextmanager
def made(options: Options, job: mgi.Job, gpus: list[int]) -> Iterator[Cluster]:
    """Endpoints of all processes: one for each GPU, for each core, or as many as were asked for."""
    at_gpus = bool(gpus) and not options.flow
    mine = len(gpus) if at_gpus else _own_endpoints(options.endpoints, job)
    how: dict[str, Any] = {"patience": PATIENCE}
    with contextlib.ExitStack() as stack:
        if job.size == 1:
            runtime = stack.enter_context(mgi.Runtime.local())
        else:
            how["groups"] = max(1, own_cores() // mine)
            runtime = mgi.Runtime.connect(name="mgi tpch", timeout=PATIENCE)
            stack.enter_context(runtime)

        def everywhere(devices: list[str]) -> list[mgi.Endpoint]:
            own = [runtime.create_endpoint(device) for device in devices]
            return own if job.size == 1 else runtime.gather_endpoints(own)

        endpoints = everywhere(["cpu"] * mine)
        first = next(i for i, one in enumerate(endpoints) if one.device != "elsewhere")
        own = endpoints[first : first + mine]

        def meet() -> None:
            if job.size > 1:
                runtime.gather_endpoints(own)

        cluster = Cluster(runtime, endpoints, range(first, first + mine), how, meet)
        if at_gpus:
            cluster.gpus = gpus
            cluster.gpu_endpoints = everywhere([f"cuda:{gpu}" for gpu in gpus])
        if options.flow:
            cluster.flow = _flow(runtime, endpoints, cluster.own, gpus, everywhere)
        yield cluster


def _flow(
    runtime: mgi.Runtime,
    sources: list[mgi.Endpoint],
    own: range,
    gpus: list[int],
    everywhere: Callable[[list[str]], list[mgi.Endpoint]],
) -> Flow:
    """From all endpoints to consumers: one for each of the process' GPUs, and two on its cores.

    Polars uses all cores for each; one takes rows while the other folds.
    """
    who = [None] * min(2, len(own)) + gpus
    destinations = everywhere(["cpu"] * len(who))
    mine = [one for one in destinations if one.device != "elsewhere"]
    consumers = [Consumer(one, gpu) for one, gpu in zip(mine, who, strict=True)]
    here = [sources[place] for place in own]
    return Flow(runtime, sources, here, destinations, consumers, PATIENCE)


def _own_endpoints(count: int | None, job: mgi.Job) -> int:
    """This process' of so many."""
    if count is None:
        return own_cores()
    if count < job.size:
        raise mgi.InvalidArgument(
            f"{job.size} processes share {count} endpoints: give --endpoints {job.size} or more"
        )
    first, end = (count * (job.rank + i) // job.size for i in (0, 1))
    return end - first


def own_gpus(count: int, job: mgi.Job) -> list[int]:
    """This process' of so many GPUs, which the processes of its server share."""
    there = _mgi.gpus()
    if there == 0:
        raise mgi.NotFound(f"--gpus needs a GPU: {_mgi.gpu_absence()}")
    if count > there:
        raise mgi.NotFound(f"--gpus is {count}, and there are {there}")
    if count < job.local_size:
        raise mgi.InvalidArgument(
            f"{job.local_size} processes of a server share {count} GPUs: give --gpus "
            f"{job.local_size} or more, or start fewer processes"
        )
    try:
        importlib.import_module("cupy").cuda.runtime.getDeviceCount()
    except Exception as error:
        raise mgi.NotFound(
            "--gpus needs CuPy, which makes the kernels of local steps: run "
            f"'{sys.executable} -m pip install cupy-cuda13x' (cupy-cuda12x for CUDA 12): "
            f"{error}"
        ) from error
    first, end = (count * (job.local_rank + i) // job.local_size for i in (0, 1))
    return list(range(first, end))
