"""``mgi top``: what channels, paths and NICs of a cluster do now, and who waits for whom."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence

from mgi.cli import Parser, guarded
from mgi.errors import Error, InvalidArgument
from mgi.top.figures import Figures
from mgi.top.screen import Screen, can_show
from mgi.top.sources import Source, open_source
from mgi.top.view import Style, clean, lines

LEAST, MOST = 0.1, 3600.0
_PLAIN_WIDTH = 200
"""Of what is no terminal, where nothing is cut off but very long names."""


def main(argv: Sequence[str]) -> int:
    """The command line."""
    options = _parser().parse_args(argv)
    return guarded("mgi top", lambda: _top(options))


def _parser() -> Parser:
    parser = Parser(
        prog="mgi top",
        description="Channels, paths and NICs by what they move now, and who waits for whom; live "
        "in a terminal, where q ends it.",
        epilog="Without --controller and --agent: the agent that MGI_AGENT names, the controller "
        "that MGI_CONTROLLER names, a job that mgi run has started here, this server's agent, a "
        "controller on 127.0.0.1:7070, whichever there is first. How the controller is to be "
        "trusted is said as to mgi status: MGI_CA, MGI_CERT, MGI_KEY, MGI_TOKEN_FILE.",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--controller", metavar="HOST:PORT,...", help="of each controller")
    where.add_argument("--agent", metavar="SOCKET", help="ask the controller through this agent")
    parser.add_argument("--once", action="store_true", help="print it once, as text")
    parser.add_argument(
        "--json", action="store_true", help="one line of JSON each time (docs/control.md)"
    )
    parser.add_argument("--every", metavar="SECONDS", type=float, default=1.0, help="default: 1")
    return parser


def _top(options: argparse.Namespace) -> None:
    if not LEAST <= options.every <= MOST:
        raise InvalidArgument(
            f"--every is {options.every:g}; expected {LEAST:g} to {MOST:g} seconds"
        )
    with open_source(options.controller, options.agent) as source:
        if options.once:
            _print(source.figures(), options.json)
        elif options.json or not can_show():
            _follow(source, options.every, lambda shown: _print(shown, options.json))
        else:
            with Screen() as screen:
                screen.run(source, options.every)


def _print(shown: Figures, as_json: bool) -> None:
    if as_json:
        print(json.dumps(shown), flush=True)
        return
    style = Style(colour=False, unicode="utf" in (sys.stdout.encoding or "").lower())
    print("\n".join(lines(shown, _PLAIN_WIDTH, None, style)), end="\n\n", flush=True)


def _follow(source: Source, every: float, show: Callable[[Figures], None]) -> None:
    """Until Ctrl-C, or until nobody reads it; a controller that is away may come back."""
    due = time.monotonic()
    while True:
        try:
            show(source.figures())
        except Error as error:
            print(f"mgi top: {clean(str(error))}", file=sys.stderr)
        due = max(due + every, time.monotonic())
        time.sleep(due - time.monotonic())
