"""``mgi testbed``: servers and NICs made of network namespaces and veth pairs."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

from mgi.cli import Parser, guarded, split_program
from mgi.errors import InvalidArgument
from mgi.testbed import kernel, layout
from mgi.testbed.network import Testbed, known_testbeds
from mgi.testbed.rates import parse_rate, show_bytes, show_rate

__all__ = ["Testbed", "main"]

EPILOG = """\
  mgi testbed up --servers 3 --nics 4 --rate 2gbit
  mgi testbed exec --server 1 -- ping -c 1 -I nic2 server0-nic3
  mgi testbed fail nic 1 0 --slow 200mbit
  mgi testbed fail server 2
  mgi testbed status
  mgi testbed down"""


def main(argv: Sequence[str]) -> int:
    """Runs the command; 0 is fine, 1 refused, 2 a wrong call; ``exec`` becomes its program."""
    arguments, program = split_program(argv)
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.error("what shall be done? up, exec, fail, status or down")
    if (options.command == "exec") != (program is not None):
        parser.error("exec takes a program behind --" if program is None else "what is behind --?")
    options.program = program
    return guarded("mgi testbed", lambda: _run(options))


def _parser() -> Parser:
    parser = Parser(
        prog="mgi testbed",
        description="Servers as network namespaces, NICs as veth pairs, joined by a switch: a "
        "cluster's network on one machine (docs/running.md). All of it needs root.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def command(name: str, about: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=about, description=about)
        made.add_argument("--name", metavar="NAME", default=layout.DEFAULT, help="of the testbed")
        return made

    up = command("up", "make a testbed")
    up.add_argument("--servers", metavar="N", type=int, default=2, help="default: 2")
    up.add_argument("--nics", metavar="N", type=int, default=1, help="of each server; default: 1")
    up.add_argument("--rate", metavar="RATE", help="of each NIC, as 2gbit; default: no limit")
    shape = up.add_mutually_exclusive_group()
    shape.add_argument(
        "--rails", action="store_true", help="a NIC reaches only the NICs of its own number"
    )
    shape.add_argument(
        "--chain",
        action="store_true",
        help="of these only one neighbour's: a server reaches the one before it by NICs of even "
        "numbers and the one behind it by those of odd ones, or the other way round",
    )
    up.add_argument("--mtu", metavar="BYTES", type=int, default=9000, help="default: 9000")
    inside = command("exec", "run a program on a server")
    inside.add_argument(
        "--server", metavar="K", default="0", help="its number, or 'switch'; default: 0"
    )
    fail = command("fail", "break something, or heal it")
    what = fail.add_subparsers(dest="what", metavar="nic|server", required=True)
    nic = what.add_parser("nic", help="pull a NIC's cable, slow it down, or heal it")
    nic.add_argument("server", metavar="SERVER")
    nic.add_argument("nic", metavar="NIC")
    how = nic.add_mutually_exclusive_group()
    how.add_argument("--slow", metavar="RATE", help="leave it this rate")
    how.add_argument("--up", action="store_true", help="heal it: up, at its own rate")
    server = what.add_parser("server", help="cut a server off from all networks, or heal it")
    server.add_argument("server", metavar="SERVER")
    server.add_argument(
        "--up", action="store_true", help="heal it: all its NICs up, at their rates"
    )
    status = command("status", "list servers and NICs")
    status.add_argument("--json", action="store_true", help="as JSON")
    command("down", "end all processes inside and take everything away")
    return parser


def _run(options: argparse.Namespace) -> None:
    layout.check_name(options.name)
    kernel.check_privileges()
    if options.command == "up":
        _up(options)
    elif options.command == "down":
        there = Testbed(options.name).down()
        print(f"testbed '{options.name}' is gone" if there else f"no testbed '{options.name}'")
    elif options.command == "status":
        _status(Testbed.existing(options.name), options.json)
    elif options.command == "exec":
        _exec(Testbed.existing(options.name), options)
    else:
        _fail(Testbed.existing(options.name), options)


def _up(options: argparse.Namespace) -> None:
    for what, value, most in (
        ("--servers", options.servers, layout.MOST_SERVERS),
        ("--nics", options.nics, layout.MOST_NICS),
    ):
        if not 1 <= value <= most:
            raise InvalidArgument(f"{what} is {value}; expected 1 to {most}")
    if options.chain and options.nics < 2:
        raise InvalidArgument("--chain takes --nics 2 at least: one to each neighbour")
    if not 576 <= options.mtu <= 65535:
        raise InvalidArgument(f"--mtu is {options.mtu}; expected 576 to 65535")
    rate = None if options.rate is None else parse_rate(options.rate)
    made = Testbed.up(
        options.name,
        options.servers,
        options.nics,
        rate,
        options.mtu,
        rails=options.rails,
        chain=options.chain,
    )
    apart = ", rails apart" if options.rails else ", in a chain" if options.chain else ""
    name = "" if options.name == layout.DEFAULT else f" --name {options.name}"
    print(
        f"testbed '{made.name}': server0 to server{options.servers - 1}, each with nic0 to "
        f"nic{options.nics - 1}, {show_rate(rate)}{apart}\n"
        f"  mgi testbed exec{name} --server 0 -- mgi topo --config {made.corrections}\n"
        f"  mgi run --servers-of-testbed {made.name} -n {options.servers} -- PROGRAM\n"
        f"  mgi testbed status{name}; mgi testbed down{name}"
    )


def _exec(testbed: Testbed, options: argparse.Namespace) -> None:
    server = None if options.server == "switch" else testbed.server(options.server)
    if not options.program:
        raise InvalidArgument("exec needs a program behind --")
    testbed.check_files()
    testbed.enter(server)
    sys.stdout.flush()
    try:
        os.execvp(options.program[0], options.program)
    except OSError as error:
        print(f"mgi testbed: {options.program[0]}: {error.strerror}", file=sys.stderr)
        os._exit(126 if isinstance(error, PermissionError) else 127)


def _fail(testbed: Testbed, options: argparse.Namespace) -> None:
    server = testbed.server(options.server)
    if options.what == "server":
        testbed.fail_server(server, options.up)
    else:
        slow = None if options.slow is None else parse_rate(options.slow)
        testbed.fail_nic(server, options.nic, slow, options.up)


def _status(testbed: Testbed, as_json: bool) -> None:
    nics = testbed.nics()
    if as_json:
        found = [
            {
                "server": f"server{nic.port.server}",
                "nic": nic.port.interface,
                "address": nic.port.address,
                "up": nic.up,
                "rate_bits": nic.rate,
                "rate_now_bits": nic.rate_now,
                "sent_bytes": nic.sent,
                "received_bytes": nic.received,
            }
            for nic in nics
        ]
        print(json.dumps({"name": testbed.name, "nics": found}, indent=1))
        return
    print(f"{'server':<9} {'nic':<6} {'address':<11} {'rate':<12} {'state':<22} sent / received")
    for nic in nics:
        state = "up" if nic.up else "down"
        if nic.rate_now != nic.rate:
            state += f", slowed to {show_rate(nic.rate_now)}"
        print(
            f"server{nic.port.server:<3} {nic.port.interface:<6} {nic.port.address:<11} "
            f"{show_rate(nic.rate):<12} {state:<22} "
            f"{show_bytes(nic.sent)} / {show_bytes(nic.received)}"
        )
    others = {name: n for name, n in known_testbeds().items() if name != testbed.name}
    if others:
        print("other testbeds: " + ", ".join(f"{name} ({n} servers)" for name, n in others.items()))
