"""``mgi perf gpu-...``: what one GPU does, measured by the program mgi_gpu_bench of bench/gpu."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mgi import _mgi
from mgi.errors import Error, InvalidArgument, NotFound
from mgi.perf import gpu_program

DETAILS = (
    "Every benchmark runs in a process of its own, on the first GPU that the process sees or, "
    "between GPUs, on all, over data that is made on the GPU, and checks what arrives. GB/s are "
    "bytes of payload over the time; a floor is what the hardware would allow, measured in the "
    "same run."
)
#: What a line says of itself that is no parameter.
_MEASURED = ("best_gbps", "median_gbps", "floor_gbps", "share_of_floor", "exact", "error", "name")


class GpuPattern:
    """A pattern of ``mgi perf``: some of the program's benchmarks."""

    WRONG = "rows are missing or changed, or a benchmark failed"

    def __init__(self, summary: str, *names: str) -> None:
        self.SUMMARY = summary
        self.DETAILS = f"{summary[0].upper()}{summary[1:]}. {DETAILS}"
        self._names = names

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Adds what can be chosen."""
        parser.add_argument(
            "--quick", action="store_true", help="a tenth of the data and fewer cases"
        )

    def measure(self, options: argparse.Namespace) -> dict[str, Any]:
        """Runs the benchmarks and returns what ``--json`` writes."""
        if _mgi.gpus() == 0:
            raise NotFound(f"this needs a GPU: {_mgi.gpu_absence()}")
        program = gpu_program.find_or_build()
        chosen = [word for name in self._names for word in ("--only", name)]
        results = run_program(program, [*chosen, *(["--quick"] if options.quick else [])])
        good = all("error" not in line and line.get("exact", True) for line in results)
        return {"quick": options.quick, "results": results, "verified": good}

    def table(self, result: dict[str, Any]) -> list[str]:
        """Lines for people: a table for each benchmark."""
        lines: list[str] = []
        for name in dict.fromkeys(line["name"] for line in result["results"]):
            rows = [line for line in result["results"] if line["name"] == name]
            lines += [*([""] if lines else []), name, *_aligned(rows)]
        return lines or ["no result"]


def run_program(program: Path, words: Sequence[str]) -> list[dict[str, Any]]:
    """Runs mgi_gpu_bench and returns its results; raises what it says where there are none."""
    # What is loaded when it is first used would wait for kernels that wait for it.
    environment = {"CUDA_MODULE_LOADING": "EAGER"} | _libraries() | os.environ
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.json"
        try:
            ended = subprocess.run(
                [str(program), *words, "--json", str(file)],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        except OSError as error:
            raise Error(f"{program} does not start: {error.strerror}") from error
        try:
            return json.loads(file.read_text())
        except (OSError, ValueError):
            said = ended.stderr.strip().splitlines()[-1:] or [f"status {ended.returncode}"]
            raise InvalidArgument(f"{program} gave no results: {said[0]}") from None


def _libraries() -> dict[str, str]:
    """Where peers' libraries are, if packages of this environment have them."""
    found = {}
    for variable, package, library in (
        ("MGI_NCCL_LIBRARY", "nvidia.nccl", "libnccl.so.2"),
        ("MGI_UCX_LIBRARY", "libucx", "libucp.so.0"),
    ):
        try:
            spec = importlib.util.find_spec(package)
        except ModuleNotFoundError:
            continue
        for folder in (spec and spec.submodule_search_locations) or ():
            if (Path(folder) / "lib" / library).exists():
                found[variable] = str(Path(folder) / "lib" / library)
    return found


def _aligned(rows: Iterable[dict[str, Any]]) -> list[str]:
    """A benchmark's lines under one heading, numbers to the right."""
    cells = [_cells(row) for row in rows]
    heads = list(dict.fromkeys(head for row in cells for head in row))
    grid = [heads, *([row.get(head, "") for head in heads] for row in cells)]
    widths = [max(len(line[i]) for line in grid) for i in range(len(heads))]
    return [
        "  "
        + "  ".join(
            word.ljust(width) if head in ("", "says") else word.rjust(width)
            for head, word, width in zip(heads, line, widths, strict=True)
        ).rstrip()
        for line in grid
    ]


def _cells(row: dict[str, Any]) -> dict[str, str]:
    shown = {key: _text(value) for key, value in row.items() if key not in _MEASURED}
    for key, head in (("best_gbps", "GB/s"), ("median_gbps", "median"), ("floor_gbps", "floor")):
        if key in row:
            shown[head] = f"{row[key]:.1f}"
    if row.get("share_of_floor") is not None:
        shown["share"] = f"{100 * row['share_of_floor']:.0f} %"
    if row.get("exact") is False:
        shown["says"] = "WRONG ROWS"
    if "error" in row:
        shown["says"] = f"error: {row['error']}"
    return shown


def _text(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


PATTERNS = {
    "gpu-floors": GpuPattern("what the GPU's memory can do: the floors of all others", "floors"),
    "gpu-batching": GpuPattern("copies by the size of a segment (Figure 1b)", "batching"),
    "gpu-pipelining": GpuPattern("copies while a kernel still produces (Figure 1a)", "pipelining"),
    "gpu-primitives": GpuPattern("copies against loads and stores (Figure 15)", "primitives"),
    "gpu-append": GpuPattern(
        "atomics of blocks against global ones, coalesced writes or not (Figures 16 and 17)",
        "atomics",
        "coalescing",
    ),
    "gpu-send": GpuPattern("block-collective send into pools that hold all rows", "mgi_send"),
    "gpu-endpoints": GpuPattern("an exchange between endpoints of one GPU", "mgi_exchange"),
    "gpu-peers": GpuPattern(
        "exchanges between all GPUs: a channel of a runtime, partition and NCCL, and what the "
        "links give",
        "mgi_runtime",
        "mgi_processes",
        "nccl",
        "peer_stream",
    ),
    "gpu-partition": GpuPattern("other ways to partition rows on a GPU", "partition"),
    "gpu-tables": GpuPattern(
        "operators over tables of one GPU: by endpoints, kinds of joins, texts, and from the host",
        "mgi_group_by",
        "mgi_join",
        "mgi_exchange_tables",
        "mgi_host_tables",
    ),
    "gpu-moving": GpuPattern("flags and copies beside resident kernels", "flags", "resident"),
    "gpu-all": GpuPattern("all benchmarks of the GPU"),
}
