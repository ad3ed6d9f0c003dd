"""``mgi perf gpu-exchange``: one exchange between GPUs, by MGI and by others in turn."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mgi import _mgi
from mgi.errors import Error, InvalidArgument, NotFound
from mgi.perf import bars, gpu, gpu_program
from mgi.perf.exchange import dist, theta_of
from mgi.perf.numbers import add_number, peers_among
from mgi.perf.processes import SHAPES

SUMMARY = "an exchange between GPUs, beside NCCL, UCX, copy engines and what the links give"
DETAILS = (
    "Each GPU has one endpoint, whose blocks send rows and read those that come. Beside it, in "
    "turn in one run: NCCL, and UCX with a process for each GPU, each behind a partition of the "
    "rows in two passes, with and without reading what has come; copy engines, of rows that were "
    "partitioned before; and a reference, the smallest program that streams rows into other GPUs' "
    "memory. Launches and their ends count, creating the channel is told apart. Every row that "
    "MGI or the reference brings is checked in a first run, and rows are counted in all others; of "
    "NCCL and UCX the rows of one run are checked. GB/s are bytes of payload that all GPUs got, "
    "over the time; ratios are medians of the rounds' ratios."
)
WRONG = "rows are missing or changed"

PEERS = ("nccl", "ucx", "copy")
#: Figures, and what people call them.
_BARS = (
    ("gbps_median", "MGI, read on arrival"),
    ("gbps_nccl", "NCCL, nothing read"),
    ("gbps_nccl_read", "NCCL, then read"),
    ("gbps_ucx", "UCX, nothing read"),
    ("gbps_ucx_read", "UCX, then read"),
    ("gbps_copy_engines", "copy engines alone"),
    ("gbps_reference", "reference"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what can be chosen."""
    add_number(parser, "--gpus", "so many, counted from the first; default: all", least=1)
    parser.add_argument("--processes", action="store_true", help="MGI has a process for each GPU")
    parser.add_argument(
        "--pattern",
        dest="shape",  # `pattern` is this one's name
        choices=SHAPES,
        default="exchange",
        help="who sends to whom",
    )
    parser.add_argument(
        "--dist", type=dist, default="uniform", metavar="uniform|zipf:THETA", help="of the keys"
    )
    parser.add_argument("--layout", choices=("rows", "columns"), default="rows", help="of the rows")
    parser.add_argument("--row-bytes", type=int, choices=(16, 32, 64), default=32, help="of a row")
    add_number(parser, "--rows", "of each GPU that sends", 64 << 20)
    add_number(parser, "--rounds", "that count", 9)
    parser.add_argument(
        "--peers",
        type=peers_among(PEERS),
        default=list(PEERS),
        metavar=",".join(PEERS),
        help="beside MGI",
    )
    parser.add_argument("--chart", type=Path, metavar="FILE.svg", help="draw the figures, too")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Runs all of them in turn and returns what ``--json`` writes."""
    gpus = options.gpus or _mgi.gpus()
    if gpus == 0:
        raise NotFound(f"this needs a GPU: {_mgi.gpu_absence()}")
    if gpus > _mgi.gpus():
        raise NotFound(f"--gpus is {gpus}, and there are {_mgi.gpus()}")
    if options.shape == "one-to-one" and gpus != 2:
        raise InvalidArgument(f"one-to-one is between 2 GPUs: give --gpus 2, not {gpus}")
    if options.processes and gpus == 1:
        raise InvalidArgument("--processes is between GPUs: give --gpus 2 or more")
    bars.check_folder(options)
    words = {
        "gpus": gpus,
        "processes": int(options.processes),
        "pattern": options.shape,
        "theta": theta_of(options.dist),
        "layout": options.layout,
        "row_bytes": options.row_bytes,
        "rows": options.rows,
        "rounds": options.rounds,
        "peers": ",".join(options.peers),
    }
    given = [f"{key}={value}" for key, value in words.items()]
    lines = gpu.run_program(gpu_program.find_or_build(), ["--only", "contest", *given])
    result = next((line for line in lines if "error" not in line), None)
    if result is None:
        raise Error(lines[0]["error"] if lines else "mgi_gpu_bench gave no result")
    found = {"dist": options.dist, **result, "verified": result["exact"]}
    if options.chart is not None:
        bars.write(options, chart(found))
    return found


def table(result: dict[str, Any]) -> list[str]:
    """The figures for people."""
    processes = "in one process" if result["processes"] == 1 else "with a process for each"
    lines = [
        f"{result['pattern']} between {result['gpus']} GPUs {processes}, {result['rounds']} rounds",
        f"{result['rows']:,} rows of {result['row_bytes']} bytes of each GPU that sends, "
        f"{result['layout']}, {result['dist']} keys",
        "",
        f"{'GB/s':<24}{'median':>9}{'MGI is':>9}",
    ]
    shown_bars = [(key, name) for key, name in _BARS if result[key] is not None]
    most = max(result[key] for key, _ in shown_bars)
    for key, name in shown_bars:
        ratio = result.get(key.replace("gbps_", "ratio_to_"))
        shown = "" if ratio is None else f"{ratio:.2f}"
        bar = "#" * round(30 * result[key] / most)
        lines.append(f"{name:<24}{result[key]:>9.1f}{shown:>9}  {bar}")
    took = (f"{what} {result[f'{what}_us']:.0f} us" for what in ("create", "launch", "delete"))
    lines += ["", f"the channel: {', '.join(took)}"]
    lines += [
        f"without {key.removeprefix('no_')}: {why}"
        for key, why in result.items()
        if key.startswith("no_")
    ]
    return [*lines, f"every row exact: {'yes' if result['exact'] else 'NO'}"]


def chart(result: dict[str, Any]) -> str:
    """The same as a picture (SVG)."""
    title = (
        f"{result['pattern']}, {result['gpus']} GPUs, {result['row_bytes']}-byte "
        f"{result['layout']}, {result['dist']} keys: GB/s, median of {result['rounds']} rounds"
    )
    drawn = [
        (name, result[key], f"{result[key]:.0f}", "#c2410c" if key == "gbps_median" else "#56b4e9")
        for key, name in _BARS
        if result[key] is not None
    ]
    return bars.chart(title, drawn)
