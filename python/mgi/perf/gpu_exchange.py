"""``mgi perf gpu-exchange``: one exchange between GPUs, by MGI and by others in turn."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mgi import _mgi
from mgi.demo.svg import label, tag, text_width
from mgi.errors import Error, InvalidArgument, NotFound
from mgi.perf import gpu, gpu_program
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
    if options.chart is not None and not options.chart.parent.is_dir():
        raise InvalidArgument(f"--chart {options.chart}: there is no such folder")
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
        try:
            options.chart.write_text(chart(found))
        except OSError as error:
            raise InvalidArgument(f"--chart {options.chart}: {error.strerror}") from error
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
    bars = [(key, name) for key, name in _BARS if result[key] is not None]
    most = max(result[key] for key, _ in bars)
    for key, name in bars:
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
    bars = [
        (name, result[key], key == "gbps_median") for key, name in _BARS if result[key] is not None
    ]
    title = (
        f"{result['pattern']}, {result['gpus']} GPUs, {result['row_bytes']}-byte "
        f"{result['layout']}, {result['dist']} keys: GB/s, median of {result['rounds']} rounds"
    )
    left = max(text_width(name) for name, *_ in bars) + 16
    most = max(gbps for _, gbps, _ in bars)
    width, step, top = max(left + 460, text_width(title) + 24), 26, 44
    drawn = [label(12, 24, title, anchor="start")]
    for number, (name, gbps, ours) in enumerate(bars):
        y = top + step * number
        drawn += [
            label(left - 8, y + 14, name, anchor="end"),
            tag(
                "rect",
                x=float(left),
                y=float(y),
                width=380 * gbps / most,
                height="18",
                rx="3",
                fill="#c2410c" if ours else "#56b4e9",
            ),
            label(left + 380 * gbps / most + 6, y + 14, f"{gbps:.0f}", anchor="start"),
        ]
    height = top + step * len(bars) + 10
    ground = tag("rect", width="100%", height="100%", fill="#ffffff")
    return (
        tag(
            "svg",
            ground + "".join(drawn),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width:.0f} {height:.0f}",
            width=f"{width:.0f}",
            height=f"{height:.0f}",
            font_family="sans-serif",
            font_size="13",
        )
        + "\n"
    )
