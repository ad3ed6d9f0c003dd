"""``mgi perf gpu-operators``: operators over tables on several GPUs, by MGI and by others."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mgi import _mgi
from mgi.errors import Error, NotFound
from mgi.perf import bars, gpu, gpu_program
from mgi.perf.numbers import add_number, peers_among

SUMMARY = "exchange, join, group-by and sort of tables on GPUs, beside NCCL, PyTorch and CuPy"
DETAILS = (
    "Lines and orders as TPC-H has them (4 lines an order, two columns of 8 bytes each, keys in "
    "random order), a part of each table on every GPU. Operators: exchange of the lines by their "
    "keys, join with the orders, group-by into the orders and into four groups, sort of the lines "
    "by their keys. Milliseconds are "
    "those of a whole call, medians of the rounds; every row of the results is checked. NCCL: a "
    "partition in two passes, NCCL's exchange of the same bytes, and MGI's operator of one GPU "
    "behind it. PyTorch and CuPy: what their sort, search and scatter take on one GPU for its "
    "share of the rows, without any exchange. Figures 10b and 10c of the paper."
)
WRONG = "rows are missing or changed, or an operator failed"

PEERS = ("nccl", "torch", "cupy")
_LINES_OF_SF = 6_000_000
#: A program of its own, since those libraries take long to import, and the GPU's memory.
_LIBRARIES = Path(__file__).parent / "programs" / "gpu_libraries.py"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what can be chosen."""
    add_number(parser, "--gpus", "so many, counted from the first; default: all", least=1)
    parser.add_argument("--processes", action="store_true", help="a process for each GPU")
    add_number(parser, "--sf", "scale factor: 6 million lines each, of every GPU", 10)
    parser.add_argument(
        "--scaling",
        choices=("none", "weak", "strong"),
        default="none",
        help="also 1, 2, 4, ... GPUs, with --sf for each of them (weak) or in all (strong)",
    )
    add_number(parser, "--rounds", "that count", 7)
    parser.add_argument(
        "--peers",
        type=peers_among(PEERS),
        default=list(PEERS),
        metavar=",".join(PEERS),
        help="beside MGI",
    )
    parser.add_argument("--chart", type=Path, metavar="FILE.svg", help="draw the figures, too")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Runs all of them and returns what ``--json`` writes."""
    there = _mgi.gpus()
    most = options.gpus or there
    if there == 0:
        raise NotFound(f"this needs a GPU: {_mgi.gpu_absence()}")
    if most > there:
        raise NotFound(f"--gpus is {most}, and there are {there}")
    bars.check_folder(options)
    program = gpu_program.find_or_build()
    found: list[dict[str, Any]] = []
    by_lines: dict[int, dict[str, dict[str, float]]] = {}
    for gpus in _counts(most, options.scaling):
        lines = _LINES_OF_SF * options.sf // (gpus if options.scaling == "strong" else 1)
        if lines not in by_lines:
            by_lines[lines] = _by_libraries(lines, options)
        of_libraries = by_lines[lines]
        for line in _by_mgi(program, gpus, lines, options):
            found.append(line | of_libraries.get(line.get("operator", ""), {}))
    _add_scaling(found, options.scaling)
    result = {
        "sf": options.sf,
        "scaling": options.scaling,
        "rounds": options.rounds,
        "results": found,
        "verified": all("error" not in line and line.get("exact") for line in found),
    }
    if options.chart is not None:
        bars.write(options, chart(result))
    return result


def _counts(most: int, scaling: str) -> list[int]:
    """Of GPUs: powers of two up to `most`, and that."""
    if scaling == "none":
        return [most]
    counts = [1 << power for power in range(most.bit_length()) if 1 << power < most]
    return [*counts, most]


def _by_mgi(
    program: Path, gpus: int, lines: int, options: argparse.Namespace
) -> list[dict[str, Any]]:
    words = {
        "gpus": gpus,
        "lines": lines,
        "rounds": options.rounds,
        "processes": int(options.processes and gpus > 1),
        "peers": "nccl" if "nccl" in options.peers else "none",
    }
    given = [f"{key}={value}" for key, value in words.items()]
    results = gpu.run_program(program, ["--only", "operators", *given])
    if not results:
        raise Error("mgi_gpu_bench gave no result")
    return [{"gpus": gpus, "lines_per_gpu": lines} | line for line in results]


def _by_libraries(lines: int, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Milliseconds of the libraries that are there, by operator."""
    wanted = [name for name in options.peers if name != "nccl"]
    if not wanted:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.json"
        words = ["--lines", lines, "--repeats", options.rounds, "--libraries", ",".join(wanted)]
        ended = subprocess.run(
            [sys.executable, str(_LIBRARIES), *map(str, words), "--json", str(file)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        print(ended.stderr, end="", file=sys.stderr)
        try:
            results = json.loads(file.read_text())
        except (OSError, ValueError):
            return {}
    found: dict[str, dict[str, float]] = {}
    for line in results:
        if "error" in line or not line["exact"]:
            continue
        operator, _, library = line["name"].partition(".")
        if line.get("groups") == 4:
            operator += "_4"
        found.setdefault(operator, {})[f"ms_{library}"] = line["ms_median"]
    return found


def _add_scaling(found: list[dict[str, Any]], scaling: str) -> None:
    """How close to linear each figure is, to that of one GPU."""
    if scaling == "none":
        return
    alone = {
        line["operator"]: line["ms_median"]
        for line in found
        if line["gpus"] == 1 and "error" not in line
    }
    for line in found:
        one = alone.get(line.get("operator", ""))
        if one is None or "error" in line:
            continue
        share = line["gpus"] if scaling == "strong" else 1
        line["of_linear"] = one / share / line["ms_median"]


def table(result: dict[str, Any]) -> list[str]:
    """The figures for people."""
    of = "in all" if result["scaling"] == "strong" else "of each GPU"
    heads = ["operator", "GPUs", "processes", "ms", "NCCL", "PyTorch", "CuPy", "of linear"]
    rows = [heads]
    ends: list[str] = []
    for line in result["results"]:
        if "error" in line:
            ends.append(f"{line['gpus']} GPUs: {line['error']}")
            continue
        figures = [line.get(key) for key in ("ms_median", "ms_nccl", "ms_torch", "ms_cupy")]
        linear = line.get("of_linear")
        rows.append(
            [
                line["operator"] + ("" if line["exact"] else " WRONG ROWS"),
                str(line["gpus"]),
                str(line["processes"]),
                *("-" if figure is None else f"{figure:.2f}" for figure in figures),
                "-" if linear is None else f"{linear:.2f}",
            ]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(heads))]
    aligned = [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    lines = f"{_LINES_OF_SF * result['sf']:,} lines {of}"
    exact = all(line.get("exact", False) for line in result["results"] if "error" not in line)
    return [
        f"{lines}, medians of {result['rounds']} rounds",
        "",
        *aligned,
        *ends,
        f"every row exact: {'yes' if exact else 'NO'}",
    ]


#: Figures, what people call them, and their colours.
_BARS = (
    ("ms_median", "MGI", "#c2410c"),
    ("ms_nccl", "NCCL, the same local operator", "#56b4e9"),
    ("ms_torch", "PyTorch, local", "#94a3b8"),
    ("ms_cupy", "CuPy, local", "#cbd5e1"),
)


def chart(result: dict[str, Any]) -> str:
    """The same as a picture (SVG): bars of milliseconds."""
    title = f"milliseconds of a call, SF {result['sf']}, {result['scaling']} scaling"
    drawn = [
        (f"{line['operator']}, {line['gpus']} GPUs: {name}", line[key], f"{line[key]:.2f}", colour)
        for line in result["results"]
        if "error" not in line
        for key, name, colour in _BARS
        if line.get(key) is not None
    ]
    return bars.chart(title, drawn)
