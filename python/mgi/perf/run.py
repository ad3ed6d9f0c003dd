"""Runs a pattern of ``mgi perf``, prints what it found, and writes it down."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mgi.cli import Parser
from mgi.errors import Error
from mgi.perf import exchange, gpu, gpu_exchange, gpu_operators, groupby, join, plan, sort

#: By name: a module, or an object, with `SUMMARY`, `DETAILS`, `add_options`, `measure`, `table` and
#: `WRONG`. What `measure` finds under a name with a _ in front is not written down.
PATTERNS: dict[str, Any] = {
    "exchange": exchange,
    "groupby": groupby,
    "join": join,
    "plan": plan,
    "sort": sort,
    "gpu-exchange": gpu_exchange,
    "gpu-operators": gpu_operators,
    **gpu.PATTERNS,
}


def main(argv: Sequence[str]) -> int:
    """Runs a measurement; 0: every run was verified, 1: not, 2: it could not run."""
    options = _parser().parse_args(argv)
    pattern = PATTERNS[options.pattern]
    name = f"mgi perf {options.pattern}"
    if options.json is not None and not options.json.parent.is_dir():
        print(f"mgi perf: --json {options.json}: there is no such folder", file=sys.stderr)
        return 2
    try:
        result = pattern.measure(options)
    except Error as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{name}: stopped by Ctrl-C", file=sys.stderr)
        return 130
    print("\n".join(pattern.table(result)))
    if options.json is not None:
        try:
            written = {key: value for key, value in result.items() if not key.startswith("_")}
            options.json.write_text(json.dumps(written, indent=2) + "\n")
        except OSError as error:
            print(f"mgi perf: --json {options.json}: {error.strerror}", file=sys.stderr)
            return 2
    if not result.get("verified", result.get("_verified", False)):
        print(f"{name}: {pattern.WRONG}", file=sys.stderr)
        return 1
    return 0


def _parser() -> Parser:
    parser = Parser(prog="mgi perf", description="Measures MGI beside its limits and peers.")
    patterns = parser.add_subparsers(
        dest="pattern", required=True, metavar="PATTERN", parser_class=Parser
    )
    for name, pattern in PATTERNS.items():
        one = patterns.add_parser(
            name,
            help=pattern.SUMMARY,
            description=pattern.DETAILS + " Numbers may end in k, m or g (thousands, ...).",
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        )
        pattern.add_options(one)
        one.add_argument(
            "--json",
            type=Path,
            default=None,
            metavar="FILE",
            help="write the figures there, too",
        )
    return parser
