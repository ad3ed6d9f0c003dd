"""``mgi topo``: the infrastructure graph of a machine, and its maximum flows."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mgi import _mgi
from mgi.cli import Parser, guarded
from mgi.errors import Error, InvalidArgument, NotFound
from mgi.streams import complain
from mgi.texts import read_text

FACTS = {
    "sm": "compute capability of the GPUs, 90 for 9.0",
    "nvs_links": "NVLinks of each GPU to the NVSwitches",
    "pcie_gen": "PCIe generation, 1 to 6",
    "nic_gbps": 'gigabits a second of every NIC, or by name: {"mlx5_0": 200}',
    "cpu": "model of the CPUs: amd, intel_skl, intel_spr, ppc64, ...",
}

DIGITS = 4
"""Behind the point of every GB/s that is written: what a link's rate is known to."""


CHECKED_BYTES = 64 << 20
"""Of each copy between two GPUs."""


def epilog() -> str:
    """What presets and facts there are."""
    systems = [f"  {name:<20} {about}" for name, about in _mgi.presets()]
    known = [f"  {name:<20} {what}" for name, what in FACTS.items()]
    return "\n".join(["presets:", *systems, "", "facts (a JSON object):", *known])


def plural(count: int, one: str) -> str:
    """``1 path``, ``4 paths``."""
    return f"{count} {one}" if count == 1 else f"{count} {one}s"


def graph_options(parser: Parser) -> None:
    """The options that name a graph; :func:`made` makes it."""
    parser.add_argument("file", metavar="FILE", type=Path, nargs="?")
    parser.add_argument("--preset", metavar="NAME", help="a system by name, in place of a file")
    parser.add_argument("--servers", metavar="N", type=int, help="so many of the preset's servers")
    parser.add_argument("--facts", metavar="FILE.json", type=Path, help="what the file lacks")
    parser.add_argument(
        "--config",
        metavar="FILE.json",
        type=Path,
        help="corrections of the graph (docs/topology.md)",
    )


def check_graph_options(parser: Parser, options: argparse.Namespace) -> None:
    """Refuses calls that name two graphs, or servers of none."""
    if options.file is not None and options.preset is not None:
        parser.error("expected a FILE or --preset NAME, not both")
    if options.preset is None and options.servers is not None:
        parser.error("--servers goes with --preset")


def main(argv: Sequence[str]) -> int:
    """Runs the command; 0 is fine, 1 a file that is refused, 2 a wrong call, 130 Ctrl-C."""
    parser = Parser(
        prog="mgi topo",
        description="Prints the infrastructure graph of this machine, of a topology file (NCCL, "
        "RCCL, hwloc, what nvidia-smi topo -m printed), or of a system known by name, as a tree; "
        "numbers are GB/s one way.",
        epilog=epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    graph_options(parser)
    parser.add_argument("--flows", action="store_true", help="maximum flows in place of the graph")
    parser.add_argument(
        "--check",
        action="store_true",
        help="write to and read from each GPU's memory by each other one, in place of the graph; "
        "1 where bytes arrive changed",
    )
    parser.add_argument("--json", metavar="OUT", help="write JSON there; - is the output itself")
    parser.add_argument("--svg", metavar="OUT.svg", type=Path, help="draw the graph there")
    parser.add_argument(
        "--html", metavar="OUT.html", type=Path, help="write a page there: drawing, flows, links"
    )
    options = parser.parse_args(list(argv))
    check_graph_options(parser, options)
    if options.preset is not None and options.facts is not None:
        parser.error("--facts goes with a FILE or this machine")
    if options.check and (options.file or options.preset or options.flows):
        parser.error("--check is for this machine, and alone")
    return guarded("mgi topo", lambda: _check(options) if options.check else _run(options))


def _check(options: argparse.Namespace) -> None:
    if _mgi.gpus() < 2:
        absence = _mgi.gpu_absence()
        raise NotFound(f"this needs two GPUs: {absence or 'there is one'}")
    checks = _mgi.check_peers(CHECKED_BYTES)
    if options.json:
        write_json({"peers": checks}, options.json)
    if options.json != "-":
        for check in checks:
            print(_checked(check))
    broken = [f"cuda:{check['from']} and cuda:{check['to']}" for check in checks if _broken(check)]
    if broken:
        raise Error(
            f"bytes arrive changed between {', '.join(broken)}: turn the IOMMU off or let it pass "
            "(iommu=pt), and turn PCIe's ACS off; MGI goes through the host until then"
        )


def _broken(check: Mapping[str, Any]) -> bool:
    return bool(check["reaches"] and not check["right"])


def _checked(check: Mapping[str, Any]) -> str:
    pair = f"cuda:{check['from']} -> cuda:{check['to']}"
    if not check["reaches"]:
        return f"{pair}  does not reach its memory"
    rates = f"writes {check['write_gbps']:.1f} GB/s, reads {check['read_gbps']:.1f} GB/s"
    return f"{pair}  {rates}, {'right' if check['right'] else 'BYTES ARRIVE CHANGED'}"


def _run(options: argparse.Namespace) -> None:
    topology = made(options)
    found = flows(topology) if options.flows else graph(topology)
    if options.json:
        write_json(found, options.json)
    if options.svg or options.html:
        write_drawings(topology, options)
    if options.json != "-":
        print(flow_text(found) if options.flows else topology.tree(), end="")
        print_warnings(topology.warnings)


def made(options: argparse.Namespace) -> _mgi.Topology:
    """The graph that the options name, corrected."""
    if options.preset is not None:
        return _corrected(preset(options.preset, options.servers), options.config)
    facts = read_facts(options.facts) if options.facts else {}
    if options.file is None:
        return this_machine(facts, options.config)
    return read(options.file, facts, options.config)


def this_machine(
    facts: Mapping[str, Any] | None = None, config: Path | None = None
) -> _mgi.Topology:
    """This machine's graph, corrected by a file; its own facts go behind those given."""
    topology = _mgi.Topology.this_machine(_native_facts(facts or {}), _native_path(config))
    return _corrected(topology, config)


def preset(name: str, servers: int | None = None) -> _mgi.Topology:
    """A system by name, of so many servers (None: as many as it has)."""
    if servers is not None and not 0 < servers < 2**32:
        raise InvalidArgument(f"--servers is {servers}; expected 1 or more")
    return _mgi.Topology.preset(_native("--preset", name), servers)


def read(path: Path, facts: Mapping[str, Any], config: Path | None = None) -> _mgi.Topology:
    """A topology file's graph, corrected by another file, whose own facts go behind those given.

    Raises :class:`mgi.Error` that names file and line.
    """
    topology = _mgi.Topology.read(_native_path(path), _native_facts(facts), _native_path(config))
    return _corrected(topology, config)


def _corrected(topology: _mgi.Topology, config: Path | None) -> _mgi.Topology:
    if config is not None:
        topology.correct(_native_path(config))
    return topology


def _native_path(path: Path | None) -> str:
    """As C++ takes it; empty for none."""
    return "" if path is None else _native("the file's name", str(path))


def _native(what: str, text: str) -> str:
    """Refuses what C++ cannot take: an argument whose bytes are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"{what} {text!a} is no UTF-8; expected a name that is") from None
    return text


def read_facts(path: Path) -> dict[str, Any]:
    """Reads the JSON object of facts; raises :class:`mgi.InvalidArgument`."""
    try:
        facts = json.loads(read_text(path))
    except InvalidArgument:
        raise
    except (ValueError, RecursionError) as error:  # syntax, a number of too many digits
        raise InvalidArgument(f"{path}: is no JSON: {error}") from None
    known = ", ".join(FACTS)
    if not isinstance(facts, dict):
        raise InvalidArgument(f"{path}: is no JSON object; expected one of: {known}")
    for name in facts:
        if name not in FACTS:
            raise InvalidArgument(f"{path}: there is no fact '{name}'; there are: {known}")
    return {name: _fact(path, name, value) for name, value in facts.items()}


def _fact(path: Path, name: str, value: Any) -> Any:
    """The value as its fact has it; an error names the file."""
    if value is None:
        return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    is_number = is_number and abs(value) < 2**31
    if name == "cpu":
        fits = isinstance(value, str)
    elif name == "nic_gbps" and isinstance(value, dict):
        return {nic: _fact(path, f"nic_gbps of {nic}", gbps) for nic, gbps in value.items()}
    elif name.startswith("nic_gbps"):
        fits = is_number
    else:
        fits = is_number and float(value).is_integer()
        value = int(value) if fits else value
    if not fits:
        expected = FACTS.get(name, "gigabits a second")
        raise InvalidArgument(f"{path}: {name} is {json.dumps(value)}; expected {expected}")
    return value


def _native_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    native = dict(facts)
    if isinstance(native.get("nic_gbps"), Mapping):
        native["nic_gbps_of"] = dict(native.pop("nic_gbps"))
    for name, value in native.items():
        if isinstance(value, bool):
            raise InvalidArgument(f"facts: {name} is {value}; expected {FACTS.get(name, 'a rate')}")
    return native


def graph(topology: _mgi.Topology) -> dict[str, Any]:
    """The graph as JSON has it."""
    return {
        "format": topology.format,
        "servers": topology.servers,
        "vertices": topology.vertices(),
        "edges": [edge | {"gbps": round(edge["gbps"], DIGITS)} for edge in topology.edges()],
        "warnings": topology.warnings,
    }


def flows(topology: _mgi.Topology, servers: Iterable[int] | None = None) -> dict[str, Any]:
    """Maximum flows between the GPUs of each server (or of some), and to and from the network."""
    pairs: list[dict[str, Any]] = []
    network: list[dict[str, Any]] = []
    for server in range(topology.servers) if servers is None else servers:
        solver = topology.flows(server)
        names = solver.gpus
        for i, source in enumerate(names):
            for destination, (relayed, direct) in zip(names, solver.pairs(i), strict=True):
                if destination != source:
                    pairs.append(
                        {
                            "src": source,
                            "dst": destination,
                            "maxflow": round(relayed, DIGITS),
                            "no_relay": round(direct, DIGITS),
                        }
                    )
            out, into = solver.network(i)
            network.append(
                {
                    "gpu": source,
                    "out": round(out[0], DIGITS),
                    "in": round(into[0], DIGITS),
                    "out_no_relay": round(out[1], DIGITS),
                    "in_no_relay": round(into[1], DIGITS),
                }
            )
    return {"gpu_pairs": pairs, "network": network, "warnings": topology.warnings}


def flow_text(found: Mapping[str, Any]) -> str:
    """The flows as two tables."""
    lines = [f"{'from':<22} {'to':<22} {'GB/s':>10} {'no relay':>10}"]
    for pair in found["gpu_pairs"]:
        lines.append(
            f"{pair['src']:<22} {pair['dst']:<22} {pair['maxflow']:>10g} {pair['no_relay']:>10g}"
        )
    lines += [
        "",
        f"{'gpu':<22} {'to network':>11} {'no relay':>10} {'from it':>10} {'no relay':>10}",
    ]
    for row in found["network"]:
        lines.append(
            f"{row['gpu']:<22} {row['out']:>11g} {row['out_no_relay']:>10g} "
            f"{row['in']:>10g} {row['in_no_relay']:>10g}"
        )
    return "\n".join(lines) + "\n"


def write_drawings(topology: _mgi.Topology, options: argparse.Namespace) -> None:
    """Writes the SVG and the page that the options ask for."""
    from mgi.topo_html import page
    from mgi.topo_layout import Layout
    from mgi.topo_svg import draw

    drawn = graph(topology)
    title = options.preset or (options.file.name if options.file else platform.node())
    if options.svg:
        options.svg.write_text(draw(drawn, title=title), encoding="utf-8")
    if options.html:
        shown = [panel.server for panel in Layout(drawn).panels]
        options.html.write_text(page(drawn, flows(topology, shown), title), encoding="utf-8")


def write_json(found: Mapping[str, Any], where: str) -> None:
    """Writes to a file, or to the output for "-"."""
    text = json.dumps(found, indent=1) + "\n"
    if where == "-":
        sys.stdout.write(text)
    else:
        Path(where).write_text(text, encoding="utf-8")


def print_warnings(warnings: Sequence[str]) -> None:
    """Prints each to the error output, where it is in nobody's way."""
    for warning in warnings:
        complain(f"warning: {warning}")
